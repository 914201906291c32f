//! Creates the build recipes of packages. The tag of an image is a hash of its recipe without the proxies.

use std::{collections::BTreeMap, path::Path};

use bytes::Bytes;
use ring::digest::{Context as Hasher, SHA256};

use super::{
    BuildSettings, Ecosystem, PackageReference, additional,
    bundle::{Bundle, BundleKind},
    certificates::Certificates,
    context::BuildContext,
    dockerfile::{self, DockerfileSpec, Source},
    project::Project,
};
use crate::{
    Error, ErrorKind, Result, image::ImageReference, permission::HostRule, printable::Printable as _,
};

/// The longest name of a package of the base image's distribution.
const MAX_PACKAGE_NAME_LENGTH: usize = 128;
/// Hexadecimal digits of the hash in a tag.
const TAG_HASH_LENGTH: usize = 16;

const PYTHON_IMAGE: &str = "python:3.14-slim";
const NODE_IMAGE: &str = "node:24-slim";
/// The image for programs of bundles.
const BINARY_IMAGE: &str = "debian:13-slim";
const GO_IMAGE: &str = "golang:1.26-alpine";
/// The image for Go programs that need distribution packages.
const GO_RUNTIME_IMAGE: &str = "alpine:3.23";

/// The inputs of a recipe.
#[derive(Debug)]
pub(crate) struct RecipeInputs<'a> {
    /// The package; a local project with an absolute path.
    pub(crate) package: &'a PackageReference,
    /// The opened file, if the package is a bundle.
    pub(crate) bundle: Option<&'a Bundle>,
    /// Packages that are installed with it.
    pub(crate) with: &'a [String],
    /// The base image, instead of the usual one.
    pub(crate) runtime_image: Option<&'a str>,
    /// Packages of the base image's distribution.
    pub(crate) add_packages: &'a [String],
    /// The command to start, if the package has several.
    pub(crate) command: Option<&'a str>,
    /// Certificate authorities that the build and the server trust.
    pub(crate) ca_cert: Option<&'a Certificates>,
    /// Proxies and mirrors.
    pub(crate) settings: &'a BuildSettings,
    /// The user's ignore file for all local projects, if it applies.
    pub(crate) global_ignore_file: Option<&'a Path>,
}

/// How the image of a package is built.
#[derive(Debug, Clone)]
pub(crate) struct Recipe {
    pub(crate) package: PackageReference,
    /// The name of the image.
    pub(crate) image: ImageReference,
    /// The base images.
    pub(crate) bases: Vec<ImageReference>,
    /// The Dockerfile.
    pub(crate) dockerfile: String,
    /// The given command.
    pub(super) command: Option<String>,
    pub(super) context: Bytes,
    pub(super) args: BTreeMap<String, String>,
    /// Hosts that the build needs; `None` if packages of a distribution are installed, whose mirrors are not known.
    pub(super) hosts: Option<Vec<HostRule>>,
    /// Notices for the user.
    pub(crate) warnings: Vec<String>,
}

impl Recipe {
    /// Creates the recipe of a package. Reads a local project, which may take long, and queries nothing else.
    ///
    /// # Errors
    /// `InvalidOption` for an invalid base image or package, and for a path without a project; `NotFound` and
    /// `Io` for files.
    pub(crate) fn new(ingredients: &RecipeInputs<'_>) -> Result<Self> {
        let package = ingredients.package;
        let bundle = ingredients.bundle;
        // The ecosystem that starts the bundle's server.
        let ecosystem = bundle.map_or_else(|| package.ecosystem(), Bundle::ecosystem);
        check_packages(ingredients.add_packages)?;
        let (builder, runtime) = base_images(ecosystem, ingredients)?;
        let with = additional::requirements(package.ecosystem(), ingredients.with)?;
        let project = package.project().filter(|_| bundle.is_none());
        let project = project.map(|path| Project::find(ecosystem, path)).transpose()?;
        let mirrors = ingredients.settings.mirrors(ecosystem);
        let requirement = package.requirement();
        let manifest = bundle.map(|bundle| &bundle.manifest);
        let source = match (manifest, &project) {
            (Some(manifest), _) if manifest.kind == BundleKind::Uv => {
                Source::BundleScript(&manifest.entry_point)
            }
            (Some(manifest), _) => Source::Bundle { command: &manifest.command, version: &manifest.version },
            (None, Some(project)) if project.is_script => Source::Script(&project.package),
            (None, Some(project)) => Source::Project(&project.package),
            (None, None) => {
                Source::Index { requirement: &requirement, name: package.name().unwrap_or_default() }
            }
        };
        let dockerfile = DockerfileSpec {
            ecosystem,
            builder: &builder,
            runtime: runtime.as_ref(),
            source,
            with: &with,
            packages: ingredients.add_packages,
            has_certificates: ingredients.ca_cert.is_some(),
            args: mirrors.keys().map(String::as_str).collect(),
        }
        .render();
        let mut context = BuildContext::new();
        context.add_file("Dockerfile", dockerfile.as_bytes(), false)?;
        for (name, content) in scripts(ecosystem).iter().chain(bundle.map(|_| &BUNDLE_SCRIPT)) {
            context.add_file(name, content.as_bytes(), false)?;
        }
        for (number, certificate) in ingredients.ca_cert.into_iter().flat_map(Certificates::files).enumerate()
        {
            context.add_file(format!("ca/mcpm-{number:04}.crt"), certificate.as_bytes(), false)?;
        }
        let mut warnings = Vec::new();
        if let Some(project) = &project {
            // Separate from the rest, so that a change of the program does not fetch its modules again.
            let modules = if ecosystem == Ecosystem::Go { &["go.mod", "go.sum"][..] } else { &[] };
            for name in modules {
                if let Some(content) = project.root_file(name)? {
                    context.add_file(format!("module/{name}"), &content, false)?;
                }
            }
            warnings = project.pack(&mut context, "src", ingredients.global_ignore_file)?;
        }
        if let Some(bundle) = bundle {
            bundle.pack(&mut context, "src")?;
            if bundle.manifest.is_for_others {
                let message =
                    "the bundle supports only platforms other than Linux, so it may not run in a container";
                warnings.push(message.to_owned());
            }
            if bundle.manifest.ignores_args {
                let message =
                    "the arguments in the bundle's manifest are ignored: none of them is the entry point";
                warnings.push(message.to_owned());
            }
        }
        let context = context.finish()?;
        let hash = hash(&context, &mirrors, ingredients.command);
        let image = ImageReference::parse(&format!("localhost/mcpm/{}:{hash}", repository(package)))?;
        let mut bases = vec![builder];
        bases.extend(runtime.filter(|runtime| !bases.contains(runtime)));
        let hosts = if ingredients.add_packages.is_empty() {
            Some(ingredients.settings.registry_hosts(ecosystem)?)
        } else {
            None
        };
        let mut args = ingredients.settings.proxies();
        args.extend(mirrors);
        Ok(Self {
            package: package.clone(),
            image,
            bases,
            dockerfile,
            command: ingredients.command.map(str::to_owned),
            context,
            args,
            hosts,
            warnings,
        })
    }

    /// Returns the context of the second step, which sets the entry point.
    pub(super) fn entrypoint_context(image: &str, command: &str) -> Result<Bytes> {
        let mut context = BuildContext::new();
        context.add_file(
            "Dockerfile",
            dockerfile::entrypoint_dockerfile(image, command).as_bytes(),
            false,
        )?;
        context.finish()
    }
}

/// Returns the image that a package is installed in, and the one it runs in, if it is another one.
fn base_images(
    ecosystem: Ecosystem,
    ingredients: &RecipeInputs<'_>,
) -> Result<(ImageReference, Option<ImageReference>)> {
    let given = ingredients.runtime_image.map(ImageReference::parse).transpose();
    let given = given.map_err(|error| error.with("option", "runtime_image"))?;
    let usual = ImageReference::parse(match ecosystem {
        Ecosystem::Python => PYTHON_IMAGE,
        Ecosystem::Node => NODE_IMAGE,
        Ecosystem::Go => GO_IMAGE,
        Ecosystem::Bundle => BINARY_IMAGE,
    })?;
    let runtime = match (ecosystem, &given) {
        (Ecosystem::Python | Ecosystem::Node | Ecosystem::Bundle, _) => None,
        // A static program needs no base image.
        (Ecosystem::Go, _) if ingredients.add_packages.is_empty() => None,
        (Ecosystem::Go, Some(given)) => Some(given.clone()),
        (Ecosystem::Go, None) => Some(ImageReference::parse(GO_RUNTIME_IMAGE)?),
    };
    Ok((given.unwrap_or(usual), runtime))
}

/// The script for bundles of all kinds.
const BUNDLE_SCRIPT: (&str, &str) = ("bundle.sh", include_str!("scripts/bundle.sh"));

/// Returns the fixed scripts of a build.
fn scripts(ecosystem: Ecosystem) -> &'static [(&'static str, &'static str)] {
    const PREPARE: (&str, &str) = ("prepare.sh", include_str!("scripts/prepare.sh"));
    const LAUNCHER: (&str, &str) = ("launcher.sh", include_str!("scripts/launcher.sh"));
    match ecosystem {
        Ecosystem::Python => &[
            PREPARE,
            LAUNCHER,
            ("python.sh", include_str!("scripts/python.sh")),
            ("report.py", include_str!("scripts/report.py")),
            ("uv.py", include_str!("scripts/uv.py")),
        ],
        Ecosystem::Node => &[
            PREPARE,
            LAUNCHER,
            ("node.sh", include_str!("scripts/node.sh")),
            ("report.js", include_str!("scripts/report.js")),
        ],
        Ecosystem::Bundle => &[PREPARE, LAUNCHER],
        Ecosystem::Go => &[
            PREPARE,
            ("go.sh", include_str!("scripts/go.sh")),
            ("go_root.sh", include_str!("scripts/go_root.sh")),
            ("report_go.sh", include_str!("scripts/report_go.sh")),
        ],
    }
}

/// Rejects invalid names of distribution packages.
fn check_packages(packages: &[String]) -> Result<()> {
    let is_name = |name: &str| {
        name.len() <= MAX_PACKAGE_NAME_LENGTH
            && name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
            // Package installers remove a package that is written as `name-`.
            && !name.ends_with('-')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte))
    };
    match packages.iter().find(|name| !is_name(name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!(
                "invalid value `{}` for `runtime_add_package`: not the name of a package",
                name.printable()
            );
            Err(Error::new(ErrorKind::InvalidOption, message).hint(
                "use letters, digits and `._+-`, begin with a letter or a digit, and do not end with `-`",
            ))
        }
    }
}

/// Returns a hash of all inputs that affect the image. Proxies do not.
fn hash(context: &[u8], mirrors: &BTreeMap<String, String>, command: Option<&str>) -> String {
    let mut hasher = Hasher::new(&SHA256);
    let mut add = |bytes: &[u8]| {
        // The length is hashed as well, so that different lists never have the same bytes.
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    add(context);
    for (name, value) in mirrors {
        add(name.as_bytes());
        add(value.as_bytes());
    }
    add(command.unwrap_or_default().as_bytes());
    let digest = hasher.finish();
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    hex.chars().take(TAG_HASH_LENGTH).collect()
}

/// Returns the name of the image's repository, such as `uvx-mcp-server-time`.
fn repository(package: &PackageReference) -> String {
    let name = match package.project() {
        Some(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        None => package.name().unwrap_or_default().to_owned(),
    };
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut slug = package.ecosystem().scheme().to_owned();
    for word in words {
        slug.push('-');
        slug.push_str(&word.to_ascii_lowercase());
    }
    // The name is truncated, since the hash in the tag identifies the image.
    slug.truncate(MAX_PACKAGE_NAME_LENGTH);
    slug.trim_end_matches('-').to_owned()
}

#[cfg(test)]
#[path = "recipe_tests.rs"]
mod tests;
