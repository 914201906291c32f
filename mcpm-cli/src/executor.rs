//! Runs the asynchronous part of a command on a current-thread runtime: a proxy in front of one server does not need
//! more threads, and a single thread avoids wake-ups between threads.

use mcpm::{Error, ErrorKind, Result};

#[cfg(unix)]
use crate::open_files;
use crate::{allocator, signals::StopSignals};

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

/// Returns the outcome of `work`, or `None` if a signal to end arrives first.
pub(crate) async fn until_stopped<T>(stop: &mut StopSignals, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        outcome = work => Some(outcome),
        () = stop.recv() => None,
    }
}
