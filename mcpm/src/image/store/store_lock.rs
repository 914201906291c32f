//! Locks of a store, which the kernel releases when their holder ends for any reason.

use std::{path::Path, time::Duration};

use crate::{Error, ErrorKind, Result, state::file_lock::FileLock};

/// How long to wait for a lock. Changes of the list take milliseconds, removing layers takes seconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// Takes a shared lock.
pub(super) fn shared(path: &Path) -> Result<FileLock> {
    FileLock::shared(path, LOCK_TIMEOUT)?.ok_or_else(|| in_use(path))
}

/// Takes an exclusive lock.
pub(super) fn exclusive(path: &Path) -> Result<FileLock> {
    FileLock::exclusive(path, LOCK_TIMEOUT)?.ok_or_else(|| in_use(path))
}

fn in_use(path: &Path) -> Error {
    Error::new(ErrorKind::NameTaken, "the image store is in use: images are being pulled or removed")
        .with("path", path.display())
        .hint("try again when that operation has finished")
}
