//! Pulls images if necessary.
//!
//! An image that is not local is pulled. A local image is used without a pull, unless its tag moves (`latest`, or
//! neither a tag nor a digest): then the newest image is pulled. If it is unavailable, the local image is used, with
//! a warning.

use std::io;

use super::ImageReference;
use crate::{
    Error, ErrorKind, Result,
    runtime::{ImageInfo, PullProgress, Runtime},
};

/// A local image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PulledImage {
    /// The information about the image.
    pub info: ImageInfo,
    /// A notice that the newest image could not be pulled.
    pub warning: Option<String>,
}

/// Makes sure that the engine has an image.
///
/// # Errors
/// `ImageUnavailable` when there is no local image and it cannot be pulled; errors of the engine.
pub async fn ensure(
    runtime: &dyn Runtime,
    reference: &ImageReference,
    progress: &(dyn Fn(PullProgress) + Send + Sync),
) -> Result<PulledImage> {
    let local = runtime.image(reference).await?;
    let Some(local) = local else {
        let info = runtime.pull(reference, progress).await?;
        return Ok(PulledImage { info, warning: None });
    };
    if !reference.is_latest() {
        return Ok(PulledImage { info: local, warning: None });
    }
    match runtime.pull(reference, progress).await {
        Ok(info) => Ok(PulledImage { info, warning: None }),
        Err(error) if error.kind() == ErrorKind::ImageUnavailable => {
            Ok(PulledImage { info: local, warning: Some(stale_warning(reference, &error)) })
        }
        Err(error) => Err(error),
    }
}

/// Whether an image is unavailable because its registry cannot be reached or does not have the image, and not because
/// the registry sent something invalid, such as content with another digest.
pub(crate) fn is_unavailable(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    error.kind() == ErrorKind::ImageUnavailable
        && cause.is_some_and(|cause| {
            matches!(cause.kind(), io::ErrorKind::HostUnreachable | io::ErrorKind::NotFound)
        })
}

fn stale_warning(reference: &ImageReference, error: &Error) -> String {
    format!("`{reference}` could not be updated, so the copy on this machine is used: {error}")
}

#[cfg(test)]
#[path = "pull_tests.rs"]
mod tests;
