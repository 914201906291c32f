//! Which of the input forms a server is named in.

use std::path::Path;

use super::{WorkloadName, remote::RemoteUrl};
use crate::{Error, ErrorKind, Result, image::ImageReference, package::PackageReference};

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// A container image.
    Image(ImageReference),
    /// A package, in an image that is built for it.
    Package(PackageReference),
    /// A server that others run.
    Remote(RemoteUrl),
}

impl Source {
    /// The same with a local project's folder below `folder`, unless it is absolute already.
    pub(super) fn below(self, folder: &Path) -> Self {
        match self {
            Self::Package(package) => Self::Package(package.below(folder)),
            other => other,
        }
    }

    /// The name of a workload that was not given one.
    pub(super) fn workload_name(&self) -> WorkloadName {
        match self {
            Self::Image(image) => WorkloadName::sanitized(&image.workload_name()),
            Self::Package(package) => WorkloadName::sanitized(&package.workload_name()),
            Self::Remote(url) => url.workload_name(),
        }
    }
}

/// Tells the forms apart: a URL, a protocol scheme, else an image.
///
/// # Errors
/// `InvalidOption` for what is none of them.
pub(super) fn classify(server: &str) -> Result<Source> {
    if let Some(package) = PackageReference::parse(server) {
        return package.map(Source::Package);
    }
    match server.split_once("://") {
        Some(("http" | "https", _)) => RemoteUrl::parse(server).map(Source::Remote),
        Some((scheme, _)) => {
            let message = format!("`{scheme}://` is no scheme that mcpm knows");
            Err(Error::new(ErrorKind::InvalidOption, message)
                .hint("there are `uvx://`, `npx://` and `go://`"))
        }
        None => ImageReference::parse(server).map(Source::Image),
    }
}
