//! Runs blocking work, such as access to files and locks, outside the threads that run asynchronous tasks.

use crate::{Error, ErrorKind, Result};

/// Runs a function on a thread that may block. The function runs to its end, even if the future is dropped.
///
/// # Errors
/// The errors of the function; `Internal` if the function panics.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::new(ErrorKind::Internal, "a background task did not finish").source(error))?
}
