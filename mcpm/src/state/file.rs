//! Writes files atomically, so that a crash never leaves a partly written file.
//!
//! A writer that is killed leaves at most a temporary file `.NAME.PID-N.new` beside the target. Temporary files are
//! never read.

use std::{
    ffi::OsString,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{
    Error, ErrorKind,
    platform::{folder_with_mode, open_folder, sync_folder, with_mode},
};

pub(super) use crate::platform::is_same_file;

/// Creates a folder and its missing parents.
pub(crate) fn create_folders(path: &Path) -> io::Result<()> {
    folder_with_mode(DirBuilder::new().recursive(true), 0o700).create(path)
}

/// Creates one folder and opens it. Fails with `AlreadyExists` if the path exists; a failure leaves nothing
/// behind.
pub(crate) fn create_folder(path: &Path) -> io::Result<File> {
    folder_with_mode(&mut DirBuilder::new(), 0o700).create(path)?;
    let opened = sync_parent(path).and_then(|()| open_folder(path));
    if opened.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_dir(path);
    }
    opened
}

/// Opens a file for reading and writing, creating it if it is missing.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    with_mode(OpenOptions::new().read(true).write(true).create(true).truncate(false), 0o600).open(path)
}

/// Replaces the file at `path` atomically: readers see the old or the new content.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = TempFile::write(path, bytes)?;
    fs::rename(&draft.0, path)?;
    sync_parent(path)
}

/// Replaces the file at `path` atomically. Directly before, calls `prepare` with the path of the new file; if `prepare`
/// fails, nothing is replaced.
#[cfg(feature = "clients")]
pub(crate) fn replace_if(
    path: &Path,
    bytes: &[u8],
    prepare: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<()> {
    let draft = TempFile::write(path, bytes)?;
    prepare(&draft.0)?;
    fs::rename(&draft.0, path)?;
    sync_parent(path)
}

/// Creates a file at `path` atomically; fails with `AlreadyExists` if the path exists.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = TempFile::write(path, bytes)?;
    // Unlike a rename, a hard link never replaces a file.
    fs::hard_link(&draft.0, path)?;
    sync_parent(path)
}

/// Returns a path beside `path` that no other process and no other thread uses.
pub(super) fn unique_sibling(path: &Path, before: &str, after: &str) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut name = OsString::from(before);
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{}{after}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    path.with_file_name(name)
}

/// Syncs the folder of `path`, so that its entry survives a power failure.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => sync_folder(parent),
        None => Ok(()),
    }
}

/// The error of an operation on a file or folder.
pub(crate) fn file_error(what: &str, path: &Path, error: io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {what} `{}`", path.display())).source(error)
}

/// A temporary file, removed unless it was renamed.
struct TempFile(PathBuf);

impl TempFile {
    fn write(path: &Path, bytes: &[u8]) -> io::Result<Self> {
        let path = unique_sibling(path, ".", ".new");
        // A crashed process with the same pid may have left this file.
        let mut file =
            with_mode(OpenOptions::new().write(true).create(true).truncate(true), 0o600).open(&path)?;
        let draft = Self(path);
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(draft)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        // After a rename there is nothing to remove.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn replace_leaves_one_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        replace(&path, b"long old text").unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::create_dir(&path).unwrap();
        replace(&path, b"new").unwrap_err();
        assert_eq!(create(&path, b"new").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
