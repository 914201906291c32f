//! Which of the input forms a server is named in.

use super::{WorkloadName, remote::RemoteUrl};
use crate::{Error, ErrorKind, Result, image::ImageReference};

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// A container image.
    Image(ImageReference),
    /// A server that others run.
    Remote(RemoteUrl),
}

impl Source {
    /// The name of a workload that was not given one.
    pub(super) fn workload_name(&self) -> WorkloadName {
        match self {
            Self::Image(image) => WorkloadName::sanitized(&image.workload_name()),
            Self::Remote(url) => url.workload_name(),
        }
    }
}

/// Tells the forms apart: a URL, a protocol scheme, else an image.
///
/// # Errors
/// `Unsupported` for the forms that are not built yet, `InvalidOption` for what is none of them.
pub(super) fn classify(server: &str) -> Result<Source> {
    let unsupported =
        |form: &str| Err(Error::new(ErrorKind::Unsupported, format!("{form} is not supported yet")));
    match server.split_once("://") {
        Some(("http" | "https", _)) => RemoteUrl::parse(server).map(Source::Remote),
        Some((scheme @ ("uvx" | "npx" | "go"), _)) => unsupported(&format!("`{scheme}://`")),
        Some((scheme, _)) => {
            let message = format!("`{scheme}://` is no scheme that mcpm knows");
            Err(Error::new(ErrorKind::InvalidOption, message)
                .hint("there are `uvx://`, `npx://` and `go://`"))
        }
        None => ImageReference::parse(server).map(Source::Image),
    }
}
