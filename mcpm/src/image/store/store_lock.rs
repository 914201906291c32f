//! Locks of a store, which the kernel releases when their holder ends for any reason.

use std::{
    fs::{File, TryLockError},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::{
    Error, ErrorKind, Result,
    state::file::{self, file_error},
};

/// How long a lock is waited for. Changes of the list take milliseconds, removing layers takes seconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(10);

/// A lock, held until it is dropped.
#[derive(Debug)]
#[must_use = "dropping a lock releases it"]
pub(super) struct StoreLock(File);

impl StoreLock {
    /// Takes a lock that others may hold as well.
    pub(super) fn shared(path: &Path) -> Result<Self> {
        Self::acquire(path, File::try_lock_shared)
    }

    /// Takes a lock that nobody else holds.
    pub(super) fn exclusive(path: &Path) -> Result<Self> {
        Self::acquire(path, File::try_lock)
    }

    fn acquire(path: &Path, lock: fn(&File) -> Result<(), TryLockError>) -> Result<Self> {
        let file = file::open(path).map_err(|error| file_error("open", path, error))?;
        let start = Instant::now();
        loop {
            match lock(&file) {
                Ok(()) => return Ok(Self(file)),
                Err(TryLockError::WouldBlock) if start.elapsed() < LOCK_TIMEOUT => {
                    thread::sleep(LOCK_RETRY_DELAY);
                }
                Err(TryLockError::WouldBlock) => {
                    let message = "the image store is in use: images are being pulled or removed";
                    return Err(Error::new(ErrorKind::NameTaken, message)
                        .with("path", path.display())
                        .hint("try again when that has ended"));
                }
                Err(TryLockError::Error(error)) => return Err(file_error("lock", path, error)),
            }
        }
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        // Closing the file is not enough, because a child between fork and exec has it open, too.
        let _ = self.0.unlock();
    }
}
