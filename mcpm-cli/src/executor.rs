//! Runs the asynchronous part of a command on a current-thread runtime: a proxy in front of one server does not need
//! more threads, and a single thread avoids wake-ups between threads.

use mcpm::{Error, ErrorKind, Result};

use crate::allocator;
#[cfg(unix)]
use crate::open_files;

/// Runs a future to completion.
pub(crate) fn run<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    #[cfg(unix)]
    open_files::raise_limit();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot start the executor").source(error))?;
    runtime.spawn(allocator::trim_regularly());
    runtime.block_on(work)
}
