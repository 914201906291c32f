//! Locks files. The kernel releases a lock when the process that holds it ends, for any reason.

use std::{
    fs::{File, TryLockError},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use super::file::{self, file_error};
use crate::Result;

const RETRY_DELAY: Duration = Duration::from_millis(10);

/// A lock on a file, held until it is dropped.
#[derive(Debug)]
#[must_use = "dropping a lock releases it"]
pub(crate) struct FileLock(File);

impl FileLock {
    /// Takes a shared lock; `None` if that is not possible within `timeout`. Blocks meanwhile.
    ///
    /// # Errors
    /// `Io` if the file cannot be opened. It is created if it is missing.
    pub(crate) fn shared(path: &Path, timeout: Duration) -> Result<Option<Self>> {
        Self::acquire(path, timeout, File::try_lock_shared)
    }

    /// Takes an exclusive lock; `None` if that is not possible within `timeout`. Blocks meanwhile.
    ///
    /// # Errors
    /// As for [`shared`](Self::shared).
    pub(crate) fn exclusive(path: &Path, timeout: Duration) -> Result<Option<Self>> {
        Self::acquire(path, timeout, File::try_lock)
    }

    /// Like [`exclusive`](Self::exclusive), but continues without a lock where the file system does not support locks.
    #[cfg(feature = "clients")]
    pub(crate) fn exclusive_if_supported(path: &Path, timeout: Duration) -> Result<Option<Self>> {
        Self::acquire(path, timeout, |file| match file.try_lock() {
            Err(TryLockError::Error(error)) if crate::platform::has_no_locks(&error) => Ok(()),
            outcome => outcome,
        })
    }

    fn acquire(
        path: &Path,
        timeout: Duration,
        lock: impl Fn(&File) -> Result<(), TryLockError>,
    ) -> Result<Option<Self>> {
        let start = Instant::now();
        loop {
            let file = file::open(path).map_err(|error| file_error("open", path, error))?;
            match lock(&file) {
                // Its last holder may have removed the file between opening and locking it.
                Ok(()) if file::is_same_file(path, &file).unwrap_or(false) => return Ok(Some(Self(file))),
                Ok(()) | Err(TryLockError::WouldBlock) if start.elapsed() < timeout => {}
                Ok(()) | Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(file_error("lock", path, error)),
            }
            drop(file);
            thread::sleep(RETRY_DELAY);
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing the file is not enough, because a child between fork and exec has it open, too.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_lock_on_a_removed_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = FileLock::exclusive(&path, Duration::ZERO).unwrap().unwrap();
        assert!(FileLock::shared(&path, Duration::ZERO).unwrap().is_none());
        let waiting = {
            let path = path.clone();
            thread::spawn(move || FileLock::exclusive(&path, Duration::from_secs(60)))
        };
        std::fs::remove_file(&path).unwrap();
        drop(lock);
        // The waiting thread has a lock on the file that exists now.
        let lock = waiting.join().unwrap().unwrap().unwrap();
        assert!(FileLock::exclusive(&path, Duration::ZERO).unwrap().is_none());
        drop(lock);
        let both = [(); 2].map(|()| FileLock::shared(&path, Duration::ZERO).unwrap().unwrap());
        assert!(FileLock::exclusive(&path, Duration::ZERO).unwrap().is_none());
        drop(both);
    }

    #[test]
    fn a_file_that_is_removed_before_each_attempt_is_not_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let attempts = Cell::new(0);
        let lock = |_: &File| {
            attempts.set(attempts.get() + 1);
            std::fs::remove_file(&path).map_err(TryLockError::Error)
        };
        assert!(FileLock::acquire(&path, 3 * RETRY_DELAY, lock).unwrap().is_none());
        // There is a delay between two attempts.
        assert!((1..=4).contains(&attempts.get()), "{}", attempts.get());
    }
}
