//! Folders for what is not complete yet.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::store_lock::StoreLock;
use crate::{
    Error, ErrorKind, Result,
    state::file::{self, file_error},
};

/// The age at which a draft counts as abandoned.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 3600);

/// A private folder on the file system of a store, removed when it is dropped. As long as there is one, no layer and no
/// blob is collected as garbage.
#[derive(Debug)]
pub struct Draft {
    folder: PathBuf,
    _lock: StoreLock,
}

impl Draft {
    /// Creates a folder in `drafts`, while `lock` keeps the garbage collector out.
    pub(super) fn create(drafts: &Path, lock: StoreLock) -> Result<Self> {
        let random = getrandom::u64();
        let random = random
            .map_err(|error| Error::new(ErrorKind::Io, "no random numbers").source(error.to_string()))?;
        let folder = drafts.join(format!("{random:016x}"));
        file::create_folders(&folder).map_err(|error| file_error("make", &folder, error))?;
        Ok(Self { folder, _lock: lock })
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Err(error) = file::remove_tree(&self.folder) {
            tracing::warn!(%error, folder = %self.folder.display(), "a draft cannot be removed");
        }
    }
}

/// Removes drafts whose process was killed, once they are a day old, and returns how many. The caller holds the lock
/// that keeps out those who make drafts.
pub(super) fn remove_abandoned(drafts: &Path) -> io::Result<u64> {
    let mut removed = 0;
    for entry in fs::read_dir(drafts)? {
        let entry = entry?;
        let age = SystemTime::now().duration_since(entry.metadata()?.modified()?);
        if age.is_ok_and(|age| age >= ABANDONED_AFTER) {
            file::remove_tree(&entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}
