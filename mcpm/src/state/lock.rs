//! Implements the lock of a workload, which is held by the process that runs the workload: the supervisor, `mcpm` in
//! the foreground, or an embedding program.
//!
//! The kernel releases the lock when its holder ends for any reason, so the lock alone says whether a workload has a
//! process that runs it. The text in the file only identifies the holder, and has no meaning while nobody holds the
//! lock.

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

/// Maximum number of attempts to take a lock. Another process may hold it for some microseconds to examine it.
const MAX_LOCK_ATTEMPTS: u32 = 500;
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(1);

/// A lock on a workload, held until it is dropped or its process ends.
#[derive(Debug)]
#[must_use = "dropping a lock releases it"]
pub struct Lock {
    file: File,
}

/// The holder of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holder {
    /// The process; `None` if it took the lock an instant ago and has not recorded itself yet.
    pub process: Option<ProcessId>,
}

impl Lock {
    /// Takes the lock at [`Store::lock_path`](super::Store::lock_path) for this process.
    ///
    /// # Errors
    ///
    /// `NameTaken` if another process holds it; `NotFound` if there is no such workload.
    pub fn acquire(path: &Path) -> Result<Self> {
        for _ in 0..MAX_LOCK_ATTEMPTS {
            let file = file::open(path).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => no_such_workload(path),
                _ => file_error("open", path, error),
            })?;
            match file.try_lock() {
                // The workload may have been removed and created again between opening and locking the file.
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

    /// Returns the current holder of the lock, if any.
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
        // Closing the file is not enough, because a child between fork and exec has it open, too.
        let _ = self.file.unlock();
    }
}

/// Returns whether the lock is held. Examining takes a shared lock, so processes that examine it do not see each
/// other.
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
    // Until a new holder has recorded itself, the file names the previous one.
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

/// The name of the workload, which is the folder of the lock.
fn name(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
    folder.to_string_lossy().into_owned()
}

#[cfg(test)]
#[path = "lock_tests.rs"]
mod tests;
