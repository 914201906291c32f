//! Decides when an image is pulled.
//!
//! An image that is here is used. One that may have moved (`latest`, or no tag) is pulled first; when that fails,
//! the copy that is here is used and the caller is told.

use super::ImageReference;
use crate::{
    Error, ErrorKind, Result,
    runtime::{ImageInfo, PullProgress, Runtime},
};

/// An image that is ready to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PulledImage {
    /// What is known of the image.
    pub info: ImageInfo,
    /// What the user should know: the newest image could not be fetched and a copy is used.
    pub warning: Option<String>,
}

/// Makes sure that an image is on the engine's machine.
///
/// # Errors
/// `ImageUnavailable` when it is not here and cannot be pulled; errors of the engine as they are.
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

fn stale_warning(reference: &ImageReference, error: &Error) -> String {
    format!("`{reference}` could not be updated, the copy on this machine is used: {error}")
}

#[cfg(test)]
#[path = "pull_tests.rs"]
mod tests;
