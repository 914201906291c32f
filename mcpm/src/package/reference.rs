//! Parses package references: `uvx://`, `npx://`, `go://` and `mcpb://`.

use std::{
    fmt, fs,
    path::{Component, Path, PathBuf},
};

use super::grammar::{
    check_go_path, is_go_version, is_node_name, is_node_version, is_python_name, is_python_version, shown,
};
use crate::{Error, ErrorKind, Result};

/// The version that means the newest one.
const LATEST: &str = "latest";

/// The ecosystem of a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ecosystem {
    /// Python, with uv: `uvx://`.
    Python,
    /// Node.js, with npm: `npx://`.
    Node,
    /// Go: `go://`.
    Go,
    /// An MCP bundle on this machine: `mcpb://`.
    Bundle,
}

impl Ecosystem {
    /// Returns the scheme without `://`.
    pub const fn scheme(self) -> &'static str {
        match self {
            Self::Python => "uvx",
            Self::Node => "npx",
            Self::Go => "go",
            Self::Bundle => "mcpb",
        }
    }
}

/// A package reference, as typed and as parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageReference {
    as_written: String,
    kind: PackageKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PackageKind {
    Python { name: String, extras: Vec<String>, version: Option<String> },
    Node { name: String, version: Option<String> },
    Go { path: String, version: Option<String> },
    Local { ecosystem: Ecosystem, path: PathBuf },
}

impl PackageReference {
    /// Reads a reference; `None` when the text has no scheme of a package.
    ///
    /// # Errors
    /// `InvalidOption` names the invalid part.
    pub fn parse(text: &str) -> Option<Result<Self>> {
        let (scheme, package) = text.split_once("://")?;
        let read = match scheme {
            "uvx" => python,
            "npx" => node,
            "go" => go,
            "mcpb" => bundle,
            _ => return None,
        };
        Some(read(package).map(|kind| Self { as_written: text.to_owned(), kind }).map_err(|broken| {
            let message = format!("`{}` is not a valid package: {}", shown(text), broken.why);
            Error::new(ErrorKind::InvalidOption, message).hint(broken.hint)
        }))
    }

    /// Returns the ecosystem.
    pub fn ecosystem(&self) -> Ecosystem {
        match self.kind {
            PackageKind::Python { .. } => Ecosystem::Python,
            PackageKind::Node { .. } => Ecosystem::Node,
            PackageKind::Go { .. } => Ecosystem::Go,
            PackageKind::Local { ecosystem, .. } => ecosystem,
        }
    }

    /// Creates the reference of a local project or script.
    pub(super) fn local(ecosystem: Ecosystem, path: PathBuf) -> Self {
        let as_written = format!("{}://{}", ecosystem.scheme(), path.display());
        Self { as_written, kind: PackageKind::Local { ecosystem, path } }
    }

    /// Returns the package's name without extras and version; `None` for a local project or script.
    pub fn name(&self) -> Option<&str> {
        match &self.kind {
            PackageKind::Python { name, .. }
            | PackageKind::Node { name, .. }
            | PackageKind::Go { path: name, .. } => Some(name),
            PackageKind::Local { .. } => None,
        }
    }

    /// Returns the requested version; `None` for the newest one and for what is local.
    pub fn version(&self) -> Option<&str> {
        match &self.kind {
            PackageKind::Python { version, .. }
            | PackageKind::Node { version, .. }
            | PackageKind::Go { version, .. } => version.as_deref(),
            PackageKind::Local { .. } => None,
        }
    }

    /// Returns the folder of a local project, or the file of a local script.
    pub fn project(&self) -> Option<&Path> {
        match &self.kind {
            PackageKind::Local { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Returns the reference with a local path made absolute and without links, so that it means the same everywhere. A
    /// path that does not exist is made absolute only.
    #[must_use]
    pub fn resolved_against(&self, folder: &Path) -> Self {
        let Some(path) = self.project() else { return self.clone() };
        let path = folder.join(path);
        let path = fs::canonicalize(&path).unwrap_or_else(|_| normalized(&path));
        Self::local(self.ecosystem(), path)
    }

    /// Returns the requirement in the syntax of the ecosystem's tool: `name[extra]==1.2`, `@scope/name@1.2`,
    /// `path@v1.2.0`.
    pub fn requirement(&self) -> String {
        match &self.kind {
            PackageKind::Python { name, extras, version } => {
                let extras =
                    if extras.is_empty() { String::new() } else { format!("[{}]", extras.join(",")) };
                let version = version.as_ref().map(|version| format!("=={version}")).unwrap_or_default();
                format!("{name}{extras}{version}")
            }
            PackageKind::Node { name, version } | PackageKind::Go { path: name, version } => {
                format!("{name}@{}", version.as_deref().unwrap_or(LATEST))
            }
            PackageKind::Local { path, .. } => path.display().to_string(),
        }
    }

    /// Returns the workload name for the package: from its name, or from that of a local folder or script.
    pub fn workload_name(&self) -> String {
        match self.project() {
            // `..` has no name; the caller makes the path absolute first.
            Some(path) => {
                let name = if is_script(path) { path.file_stem() } else { path.file_name() };
                name.unwrap_or_default().to_string_lossy().into_owned()
            }
            None => {
                let (_, package) = self.as_written.split_once("://").unwrap_or_default();
                package.replace(['/', '@', '.'], "-")
            }
        }
    }
}

impl fmt::Display for PackageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.as_written)
    }
}

/// Returns the error for an invalid reference, with the valid syntax.
struct ReferenceError {
    why: &'static str,
    hint: &'static str,
}

fn python(text: &str) -> Result<PackageKind, ReferenceError> {
    let broken =
        |why| ReferenceError { why, hint: "write `uvx://NAME`, `uvx://NAME@1.2` or `uvx://NAME[EXTRA]`" };
    if let Some(path) = local_path(text) {
        return local(Ecosystem::Python, path);
    }
    let (rest, version) = split_version(text, 0);
    let (name, extras) = match rest.split_once('[') {
        None => (rest, Vec::new()),
        Some((name, extras)) => {
            let extras = extras.strip_suffix(']').ok_or(broken("a `]` is missing"))?;
            (name, extras.split(',').map(|extra| extra.trim().to_owned()).collect())
        }
    };
    if !is_python_name(name) {
        return Err(broken(
            "a name must consist of letters and digits, with `.`, `_` and `-` only between them",
        ));
    }
    if !extras.iter().all(|extra: &String| is_python_name(extra)) {
        return Err(broken(
            "an extra must consist of letters and digits, with `.`, `_` and `-` only between them",
        ));
    }
    let version = pinned_version(version);
    if version.is_some_and(|version| !is_python_version(version)) {
        return Err(broken("the part after `@` must be one version, or `latest`"));
    }
    Ok(PackageKind::Python { name: name.to_owned(), extras, version: version.map(str::to_owned) })
}

fn node(text: &str) -> Result<PackageKind, ReferenceError> {
    let broken =
        |why| ReferenceError { why, hint: "write `npx://NAME`, `npx://@SCOPE/NAME` or `npx://NAME@1.2`" };
    if let Some(path) = local_path(text) {
        return local(Ecosystem::Node, path);
    }
    // The first character may be the `@` of a scope.
    let (name, version) = split_version(text, 1);
    if !is_node_name(name) {
        return Err(broken(
            "a name must consist of letters, digits and `-._~`, and may begin with `@SCOPE/`",
        ));
    }
    let version = pinned_version(version);
    if version.is_some_and(|version| !is_node_version(version)) {
        return Err(broken("the part after `@` must be a version, a range such as `^1.2`, or a tag"));
    }
    Ok(PackageKind::Node { name: name.to_owned(), version: version.map(str::to_owned) })
}

fn go(text: &str) -> Result<PackageKind, ReferenceError> {
    let hint = "write `go://HOST/PATH`, `go://HOST/PATH@v1.2.3`, or `go://./FOLDER` for a local project";
    let broken = |why| ReferenceError { why, hint };
    if let Some(path) = local_path(text) {
        return local(Ecosystem::Go, path);
    }
    let (path, version) = split_version(text, 0);
    check_go_path(path).map_err(broken)?;
    let version = pinned_version(version);
    if version.is_some_and(|version| !is_go_version(version)) {
        return Err(broken("the part after `@` must be a version, a branch or a commit"));
    }
    // Go's versions have a `v`, unlike those of the other schemes.
    let dotted = |version: &str| version.contains('.') && version.as_bytes()[0].is_ascii_digit();
    let version =
        version.map(|version| if dotted(version) { format!("v{version}") } else { version.to_owned() });
    Ok(PackageKind::Go { path: path.to_owned(), version })
}

fn bundle(text: &str) -> Result<PackageKind, ReferenceError> {
    let (why, hint) = ("it is not the path of a bundle", "write `./FILE.mcpb`, or an absolute path");
    local(Ecosystem::Bundle, local_path(text).ok_or(ReferenceError { why, hint })?)
}

/// Returns the text as a path, if it is one: absolute, or beginning with `.` or `..`.
pub(crate) fn local_path(text: &str) -> Option<&Path> {
    let path = Path::new(text);
    (path.is_absolute() || matches!(path.components().next(), Some(Component::CurDir | Component::ParentDir)))
        .then_some(path)
}

fn local(ecosystem: Ecosystem, path: &Path) -> Result<PackageKind, ReferenceError> {
    if path.to_string_lossy().contains(char::is_control) {
        let (why, hint) =
            ("a path cannot contain control characters", "write `./PATH`, `../PATH` or an absolute path");
        return Err(ReferenceError { why, hint });
    }
    Ok(PackageKind::Local { ecosystem, path: path.to_owned() })
}

/// Returns the ecosystem of a script or a bundle, by its extension.
pub(super) fn script_ecosystem(path: &Path) -> Option<Ecosystem> {
    match path.extension()?.to_str()? {
        "py" => Some(Ecosystem::Python),
        "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" => Some(Ecosystem::Node),
        "mcpb" | "dxt" => Some(Ecosystem::Bundle),
        _ => None,
    }
}

/// Tells whether a path has the extension of a script or a bundle.
fn is_script(path: &Path) -> bool {
    script_ecosystem(path).is_some()
}

/// Splits at the first `@` that is not one of the first `skipped` bytes.
fn split_version(text: &str, skipped: usize) -> (&str, Option<&str>) {
    match text.bytes().skip(skipped).position(|byte| byte == b'@') {
        Some(at) => (&text[..at + skipped], Some(&text[at + skipped + 1..])),
        None => (text, None),
    }
}

/// Returns the version; `None` for the newest one, which is the default.
fn pinned_version(version: Option<&str>) -> Option<&str> {
    version.filter(|version| *version != LATEST)
}

/// Removes `.` and `..` from a path, without following links.
fn normalized(path: &Path) -> PathBuf {
    let mut all = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                all.pop();
            }
            other => all.push(other),
        }
    }
    all
}

#[cfg(test)]
#[path = "reference_tests.rs"]
mod tests;
