//! Selects the image of a container, and pulls or builds it: a published image, or an image that is built for a
//! package.

use super::{request::WorkloadRequest, source::ServerSource, verification};
use crate::{
    Environment, Error, ErrorKind, Result,
    blocking::run_blocking,
    image::{ImageReference, pull, verify::VerifiedImage},
    options::{OptionSet as _, WorkloadOptions},
    package::{
        PackageReference, Recipe, RecipeInputs,
        build::{self, BuildPolicy, BuiltImage, PackageBuildProgress},
    },
    runtime::{BuildProgress, ImageInfo, PullProgress, Runtime, builtin::HOST_IMAGE},
    workload::{PackageSpec, WorkloadEvent, events::WorkloadEvents, ignore::GLOBAL_IGNORE_FILE},
};

/// The options that apply to packages only.
const PACKAGE_ONLY_OPTIONS: &[&str] =
    &["with_package", "runtime_image", "runtime_add_package", "package_command", "rebuild"];

/// The source of a container's image.
#[derive(Debug)]
pub(in crate::workload) enum ImageSource {
    /// A published image.
    Image(ImageReference),
    /// An image that is built for a package.
    Package(Box<Recipe>),
}

/// An image on the engine.
#[derive(Debug)]
pub(in crate::workload) struct LocalImage {
    pub(in crate::workload) info: ImageInfo,
    /// The package that it was built for.
    pub(in crate::workload) package: Option<PackageSpec>,
}

impl ImageSource {
    /// Returns the source for a request; `None` for a remote server. Reads local projects, and queries no engine.
    ///
    /// # Errors
    /// `InvalidOption` for options that contradict each other; errors of files that cannot be read.
    pub(in crate::workload) async fn from_request(
        request: &WorkloadRequest,
        environment: &Environment,
    ) -> Result<Option<Self>> {
        let options = &request.options;
        if !options.config.is_empty() && request.source.bundle().is_none() {
            let message = "`config` is for MCP bundles, whose manifest says which values they need";
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        match &request.source {
            ServerSource::Remote(_) | ServerSource::Named { .. } => Ok(None),
            ServerSource::Image(image) => {
                let given = |name: &&&str| options.is_given(name);
                if let Some(name) = PACKAGE_ONLY_OPTIONS.iter().find(given) {
                    let servers = match *name {
                        // A Go module already names all packages that it needs.
                        "with_package" => "Python and Node.js packages, projects and scripts",
                        _ => "servers whose image mcpm builds",
                    };
                    let message = format!("`{name}` is for {servers}, not for an existing image");
                    return Err(Error::new(ErrorKind::InvalidOption, message));
                }
                // A broken file is reported before an image is pulled.
                request.files.ca_cert()?;
                Ok(Some(Self::Image(image.clone())))
            }
            ServerSource::Package(package) => {
                let base = options.runtime_image.as_deref();
                Ok(Some(Self::Package(Box::new(recipe(package, base, request, environment).await?))))
            }
        }
    }

    /// Selects the base image of a package for the built-in runtime: the usual image or, if that is not in the store
    /// and its registry cannot be reached or does not have it, the system folders of this machine. The spec then has a
    /// warning for each start. Without `events`, nothing is pulled.
    ///
    /// # Errors
    /// As for [`from_request`](Self::from_request); those of the runtime.
    pub(in crate::workload) async fn with_available_base(
        self,
        runtime: &dyn Runtime,
        request: &WorkloadRequest,
        environment: &Environment,
        events: Option<&WorkloadEvents>,
    ) -> Result<(Self, Option<String>)> {
        let (Self::Package(usual), ServerSource::Package(package)) = (&self, &request.source) else {
            return Ok((self, None));
        };
        let options = &request.options;
        if !runtime.engine().await?.connects_through_mcpm {
            return Ok((self, None));
        }
        if !options.runtime_add_package.is_empty() {
            // Package managers change owners and users, which an ordinary user cannot.
            let message = "the built-in runtime cannot install distribution packages";
            return Err(Error::new(ErrorKind::Unsupported, message)
                .hint("leave out `runtime_add_package`, or select a container engine with `runtime`"));
        }
        if options.runtime_image.is_some() || build::find(runtime, usual).await?.is_some() {
            return Ok((self, None));
        }
        let host = recipe(package, Some(HOST_IMAGE), request, environment).await?;
        let warning = format!(
            "the base image of `{package}` could not be pulled, so the server can read the system folders of this machine"
        );
        if build::find(runtime, &host).await?.is_some() {
            return Ok((Self::Package(Box::new(host)), Some(warning)));
        }
        let (Some(events), false) = (events, options.offline.unwrap_or(false)) else {
            return Ok((self, None));
        };
        for base in &usual.bases {
            if runtime.image(base).await?.is_some() {
                continue;
            }
            match runtime.pull(base, &|progress| events.emit(pulling(base, progress))).await {
                Ok(_) => {}
                Err(error) if pull::is_unavailable(&error) => {
                    let message = format!(
                        "the base image `{base}` cannot be pulled, so `{package}` is installed with the tools of this \
                         machine: {error}"
                    );
                    events.emit(WorkloadEvent::Warning { message });
                    return Ok((Self::Package(Box::new(host)), Some(warning)));
                }
                Err(error) => return Err(error.with("base image", base)),
            }
        }
        Ok((self, None))
    }

    /// Pins the image to the verified digest, so that it has no effect if the tag moves meanwhile.
    ///
    /// # Errors
    /// `Internal` when the reference cannot be written.
    pub(in crate::workload) fn pinned(self, verified: Option<&VerifiedImage>) -> Result<Self> {
        match (self, verified) {
            (Self::Image(image), Some(verified)) => verification::pinned(&image, verified).map(Self::Image),
            (source, _) => Ok(source),
        }
    }

    /// Returns the reference of the image.
    pub(in crate::workload) fn reference(&self) -> &ImageReference {
        match self {
            Self::Image(image) => image,
            Self::Package(recipe) => &recipe.image,
        }
    }

    /// Returns the package, before its version is known.
    pub(in crate::workload) fn package(&self) -> Option<PackageSpec> {
        match self {
            Self::Image(_) => None,
            Self::Package(recipe) => {
                Some(PackageSpec { reference: recipe.package.to_string(), version: None })
            }
        }
    }

    /// Returns the recipe, if the image is built.
    pub(in crate::workload) fn recipe(&self) -> Option<&Recipe> {
        match self {
            Self::Image(_) => None,
            Self::Package(recipe) => Some(recipe),
        }
    }

    /// Looks for the image on the engine.
    pub(in crate::workload) async fn find_local(&self, runtime: &dyn Runtime) -> Result<Option<LocalImage>> {
        Ok(match self {
            Self::Image(image) => runtime.image(image).await?.map(|info| LocalImage { info, package: None }),
            Self::Package(recipe) => build::find(runtime, recipe).await?.map(|built| self.local_image(built)),
        })
    }

    /// Pulls or builds the image if necessary, and reports the progress.
    ///
    /// # Errors
    /// `ImageUnavailable` when the image cannot be pulled or built, or the options forbid that.
    pub(in crate::workload) async fn fetch(
        &self,
        runtime: &dyn Runtime,
        options: &WorkloadOptions,
        events: &WorkloadEvents,
    ) -> Result<LocalImage> {
        let offline = options.offline.unwrap_or(false);
        match self {
            Self::Image(image) if offline => {
                let info = runtime.image(image).await?.ok_or_else(|| {
                    let message = format!("image `{image}` is not on this machine");
                    Error::new(ErrorKind::ImageUnavailable, message).hint("run it without `offline`")
                })?;
                Ok(LocalImage { info, package: None })
            }
            Self::Image(image) => {
                let progress = |progress| events.emit(pulling(image, progress));
                let pulled = pull::ensure(runtime, image, &progress).await?;
                if let Some(message) = pulled.warning {
                    events.emit(WorkloadEvent::Warning { message });
                }
                Ok(LocalImage { info: pulled.info, package: None })
            }
            Self::Package(recipe) => {
                for message in recipe.warnings.clone() {
                    events.emit(WorkloadEvent::Warning { message });
                }
                let allowed = BuildPolicy { offline, rebuild: options.rebuild.unwrap_or(false) };
                let progress = |progress| events.emit(building(recipe, progress));
                build::ensure(runtime, recipe, allowed, &progress).await.map(|built| self.local_image(built))
            }
        }
    }

    fn local_image(&self, built: BuiltImage) -> LocalImage {
        let mut package = self.package();
        if let Some(package) = &mut package {
            // Go reports `(devel)` for a program without a version.
            package.version = Some(built.version).filter(|version| !version.starts_with('('));
        }
        LocalImage { info: built.info, package }
    }
}

/// Returns the recipe of a package on a base image.
async fn recipe(
    package: &PackageReference,
    base: Option<&str>,
    request: &WorkloadRequest,
    environment: &Environment,
) -> Result<Recipe> {
    let options = &request.options;
    let bundle = request.bundle.clone();
    let (package, base, settings) = (package.clone(), base.map(str::to_owned), environment.build.clone());
    let (with, add_packages) = (options.with_package.clone(), options.runtime_add_package.clone());
    let command = options.package_command.clone();
    let ca_cert = request.files.ca_cert()?.cloned();
    let global_ignore_file =
        options.ignore_globally.unwrap_or(true).then(|| environment.config_dir.join(GLOBAL_IGNORE_FILE));
    run_blocking(move || {
        Recipe::new(&RecipeInputs {
            package: &package,
            bundle: bundle.as_deref(),
            with: &with,
            runtime_image: base.as_deref(),
            add_packages: &add_packages,
            command: command.as_deref(),
            ca_cert: ca_cert.as_ref(),
            settings: &settings,
            global_ignore_file: global_ignore_file.as_deref(),
        })
    })
    .await
}

fn pulling(image: &ImageReference, progress: PullProgress) -> WorkloadEvent {
    WorkloadEvent::Pulling { image: image.to_string(), current: progress.current, total: progress.total }
}

fn building(recipe: &Recipe, progress: PackageBuildProgress) -> WorkloadEvent {
    match progress {
        PackageBuildProgress::Pulling(image, progress) => pulling(&image, progress),
        PackageBuildProgress::Building(BuildProgress::Step { number, total, instruction }) => {
            tracing::debug!(package = %recipe.package, step = number, total, %instruction, "building");
            WorkloadEvent::Building {
                package: recipe.package.to_string(),
                step: number,
                steps: total,
                instruction,
            }
        }
        PackageBuildProgress::Building(BuildProgress::Line(line)) => {
            tracing::debug!(package = %recipe.package, "{line}");
            WorkloadEvent::BuildOutput { line }
        }
    }
}
