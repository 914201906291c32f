//! Classifies the server argument as an image, a package, a remote server, or a name in the registry.

use std::path::Path;

use super::remote_url::RemoteUrl;
use crate::{
    Error, ErrorKind, Result,
    image::ImageReference,
    package::{self, Ecosystem, PackageReference},
    printable::Printable as _,
    redact::url::split_scheme,
    workload::WorkloadName,
};

/// What the server argument names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::workload) enum ServerSource {
    /// A container image.
    Image(ImageReference),
    /// A package, for which an image is built.
    Package(PackageReference),
    /// A remote server.
    Remote(RemoteUrl),
    /// A name to look up in the registry.
    Named {
        /// The name.
        name: String,
        /// Whether it cannot be an image.
        registry_only: bool,
    },
}

impl ServerSource {
    /// Makes the path of a local project absolute; a relative one is below `folder`.
    fn resolved_against(self, folder: &Path) -> Self {
        match self {
            Self::Package(package) => Self::Package(package.resolved_against(folder)),
            other => other,
        }
    }

    /// Returns the path of an MCP bundle.
    pub(in crate::workload) fn bundle(&self) -> Option<&Path> {
        match self {
            Self::Package(package) if package.ecosystem() == Ecosystem::Bundle => package.project(),
            _ => None,
        }
    }

    /// Returns the generated name of a workload.
    pub(in crate::workload) fn workload_name(&self) -> WorkloadName {
        match self {
            Self::Image(image) => WorkloadName::sanitized(&image.workload_name()),
            Self::Package(package) => WorkloadName::sanitized(&package.workload_name()),
            Self::Remote(url) => url.workload_name(),
            Self::Named { name, .. } => WorkloadName::sanitized(&name.replace(['.', '/'], "-")),
        }
    }
}

/// Classifies the server that a user names, which may be a local path. A relative one is below `folder`.
///
/// # Errors
/// As for [`classify`]; those of a path that cannot be read, or that is neither a script nor a project.
pub(in crate::workload) fn classify_given(server: &str, folder: &Path) -> Result<ServerSource> {
    match package::local_path(server) {
        Some(path) => package::local::reference(path, folder).map(ServerSource::Package),
        None => classify(server).map(|source| source.resolved_against(folder)),
    }
}

/// Distinguishes URLs, package schemes, images and names. An argument with a tag or a digest is an image; other names
/// are looked up in the registry.
///
/// # Errors
/// `InvalidOption` for anything else.
pub(in crate::workload) fn classify(server: &str) -> Result<ServerSource> {
    if let Some(package) = PackageReference::parse(server) {
        return package.map(ServerSource::Package);
    }
    match split_scheme(server) {
        Some(("http" | "https", _)) => RemoteUrl::parse(server).map(ServerSource::Remote),
        Some((scheme, _)) => {
            let message = format!("`{scheme}://` is not a supported scheme");
            Err(Error::new(ErrorKind::InvalidOption, message).hint(
                "use `uvx://`, `npx://`, `go://`, `mcpb://`, `https://` or `http://`; image names have no scheme",
            ))
        }
        None => named(server),
    }
}

fn named(server: &str) -> Result<ServerSource> {
    if let Some(image) = server.strip_prefix("image:") {
        return ImageReference::parse(image).map(ServerSource::Image);
    }
    let (name, registry_only) = match server.strip_prefix("registry:") {
        Some(name) => (name, true),
        None if server.contains([':', '@', '?', '#']) => {
            return ImageReference::parse(server).map(ServerSource::Image);
        }
        None => (server, false),
    };
    if name.is_empty() || name.contains(|c: char| !c.is_ascii_graphic()) {
        let message =
            format!("`{}` is neither a valid server name nor a valid image name", server.printable());
        return Err(Error::new(ErrorKind::InvalidOption, message));
    }
    Ok(ServerSource::Named { name: name.to_owned(), registry_only })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classifies_server_arguments() {
        let form = |text: &str| match classify(text) {
            Ok(ServerSource::Image(image)) => format!("image {image}"),
            Ok(ServerSource::Remote(url)) => format!("remote {url}"),
            Ok(ServerSource::Package(package)) => format!("package {package}"),
            Ok(ServerSource::Named { name, registry_only: true }) => format!("registry {name}"),
            Ok(ServerSource::Named { name, .. }) => format!("name {name}"),
            Err(error) => error.kind().to_string(),
        };
        for (text, expected) in [
            ("time", "name time"),
            ("io.github.example/time", "name io.github.example/time"),
            ("ghcr.io/example/time", "name ghcr.io/example/time"),
            ("ghcr.io/example/time:1", "image ghcr.io/example/time:1"),
            ("localhost:5000/time", "image localhost:5000/time"),
            ("image:time", "image time"),
            ("image:registry:2", "image registry:2"),
            ("registry:time", "registry time"),
            ("registry:2", "registry 2"),
            ("uvx://example", "package uvx://example"),
            ("https://mcp.example.com/mcp", "remote https://mcp.example.com/mcp"),
            ("", "invalid_option"),
            ("image:", "invalid_option"),
            ("registry:", "invalid_option"),
            ("two words", "invalid_option"),
            ("a:b:c", "invalid_option"),
            ("ftp://example.com", "invalid_option"),
        ] {
            assert_eq!(form(text), expected, "{text:?}");
        }
    }
}
