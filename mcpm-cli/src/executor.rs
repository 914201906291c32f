//! Runs a command's asynchronous part, on one thread: a proxy in front of one server needs no more, and wakes
//! no other.

use mcpm::{Error, ErrorKind, Result};

/// Runs to the end.
pub(crate) fn run<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot start the executor").source(error))?
        .block_on(work)
}
