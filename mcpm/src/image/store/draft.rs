//! Temporary folders for layers and images that are not complete yet.

use std::{
    fs::{self, DirEntry},
    io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::{
    Result,
    random::random_token,
    state::{
        file::{self, file_error},
        file_lock::FileLock,
        remove_tree::remove_tree,
    },
};

/// The age at which a draft counts as abandoned.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 3600);

/// A private folder on the file system of a store, removed when it is dropped. As long as a draft exists, the garbage
/// collector removes no layers and no blobs.
#[derive(Debug)]
pub struct Draft {
    folder: PathBuf,
    _lock: FileLock,
}

impl Draft {
    /// Creates a folder in `drafts`, while `lock` keeps the garbage collector out.
    pub(super) fn create(drafts: &Path, lock: FileLock) -> Result<Self> {
        let folder = drafts.join(random_token()?);
        file::create_folders(&folder).map_err(|error| file_error("create", &folder, error))?;
        Ok(Self { folder, _lock: lock })
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.folder) {
            warn_of(&self.folder, &error);
        }
    }
}

/// Removes drafts whose process was killed, once they are a day old. A draft that cannot be removed is reported, and
/// does not stop the removal of the others. The caller holds the lock that prevents other processes from creating
/// drafts.
pub(super) fn remove_abandoned(drafts: &Path, at_most: usize) {
    let is_abandoned = |entry: &DirEntry| {
        let changed = entry.metadata().and_then(|found| found.modified()).ok();
        let age = changed.and_then(|time| SystemTime::now().duration_since(time).ok());
        age.is_some_and(|age| age >= ABANDONED_AFTER)
    };
    let entries = match fs::read_dir(drafts) {
        Ok(entries) => entries.flatten(),
        Err(error) => return warn_of(drafts, &error),
    };
    let removed = entries.filter(is_abandoned).filter(|entry| {
        remove_tree(&entry.path()).inspect_err(|error| warn_of(&entry.path(), error)).is_ok()
    });
    removed.take(at_most).for_each(drop);
}

fn warn_of(folder: &Path, error: &io::Error) {
    tracing::warn!(%error, folder = %folder.display(), "cannot remove a temporary folder of the image store");
}
