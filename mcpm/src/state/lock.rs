//! The lock that the supervisor of a workload holds for as long as it lives.
//!
//! The kernel drops the lock with its holder, however that ended, so the lock alone says whether a workload is
//! supervised. The text in the file only says by whom, and means nothing once the lock is free.

use std::{
    fs::{File, TryLockError},
    io::{self, Read, Write},
    path::Path,
    thread,
    time::Duration,
};

use super::{
    file::{self, file_error},
    process::ProcessId,
};
use crate::{Error, ErrorKind, Result};

/// How often a lock is tried that is only being looked at; a look takes microseconds.
const MAX_LOCK_ATTEMPTS: u32 = 500;
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(1);

/// A lock on a workload, held until it is dropped or its process ends.
#[derive(Debug)]
#[must_use = "dropping a lock releases it"]
pub struct Lock {
    file: File,
}

/// Who holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// The process, unless it took the lock this instant and is not on record yet.
    pub process: Option<ProcessId>,
}

impl Lock {
    /// Takes the lock at [`Store::lock_path`](super::Store::lock_path) for this process.
    ///
    /// # Errors
    ///
    /// `NameTaken` if somebody holds it; `NotFound` if there is no such workload.
    pub fn acquire(path: &Path) -> Result<Self> {
        for _ in 0..MAX_LOCK_ATTEMPTS {
            let file = file::open(path).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => no_such_workload(path),
                _ => file_error("open", path, error),
            })?;
            match file.try_lock() {
                // The workload may have been removed, and made again, between the opening and the locking.
                Ok(())
                    if !file::is_same_file(path, &file)
                        .map_err(|error| file_error("read", path, error))? => {}
                Ok(()) => return Self::record(file).map_err(|error| file_error("write", path, error)),
                Err(TryLockError::WouldBlock) if is_held(&file, path)? => {
                    return Err(already_locked(path, read_holder(file)));
                }
                Err(TryLockError::WouldBlock) => thread::sleep(LOCK_RETRY_DELAY),
                Err(TryLockError::Error(error)) => return Err(file_error("lock", path, error)),
            }
        }
        Err(already_locked(path, Holder { process: None }))
    }

    /// Returns who holds the lock right now, if anybody does.
    pub fn holder(path: &Path) -> Result<Option<Holder>> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(file_error("open", path, error)),
        };
        Ok(is_held(&file, path)?.then(|| read_holder(file)))
    }

    fn record(mut file: File) -> io::Result<Self> {
        let holder = serde_json::to_vec(&ProcessId::current())?;
        file.set_len(0)?;
        file.write_all(&holder)?;
        Ok(Self { file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child between fork and exec has the file open too.
        let _ = self.file.unlock();
    }
}

/// Tells whether somebody holds the lock. Those who only look share it, and so do not see each other.
fn is_held(file: &File, path: &Path) -> Result<bool> {
    match file.try_lock_shared() {
        Ok(()) => file.unlock().map(|()| false).map_err(|error| file_error("unlock", path, error)),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(file_error("lock", path, error)),
    }
}

fn read_holder(mut file: File) -> Holder {
    let mut text = String::new();
    let recorded = file.read_to_string(&mut text).ok().and_then(|_| serde_json::from_str(&text).ok());
    // Until a new holder is on record, the file names the one before.
    Holder { process: recorded.filter(|process: &ProcessId| process.is_alive()) }
}

fn already_locked(path: &Path, holder: Holder) -> Error {
    let by = holder.process.map(|process| format!(" (pid {})", process.pid)).unwrap_or_default();
    let message = format!("`{}` is being started or is running{by}", name(path));
    Error::new(ErrorKind::NameTaken, message).hint(format!("stop it with `mcpm stop {}`", name(path)))
}

fn no_such_workload(path: &Path) -> Error {
    Error::new(ErrorKind::NotFound, format!("no workload is named `{}`", name(path)))
}

/// Returns the name of the workload, which is the folder that the lock is in.
fn name(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
    folder.to_string_lossy().into_owned()
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
