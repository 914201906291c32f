//! Reads files of local projects: regular files only, with a size limit.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use super::local::{cannot_read, invalid};
use crate::Result;

/// Reads at most `max_bytes` and one more byte, which shows that a file is too large. A path that was replaced by a
/// link or another kind of file is not read.
pub(super) fn read(path: &Path, max_bytes: usize) -> io::Result<Vec<u8>> {
    let mut options = fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut content = Vec::new();
    file.take(max_bytes as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}

/// Returns the content of a file, if it exists. Links are not followed, since they may lead out of the project.
///
/// # Errors
/// `InvalidOption` if it is not a regular file, or larger than `max_bytes`; `Io` when it cannot be read.
pub(super) fn read_if_present(path: &Path, max_bytes: usize) -> Result<Option<Vec<u8>>> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => {}
        Ok(_) => {
            return Err(
                invalid(path, "is a link, or not a regular file").hint("replace it with a regular file")
            );
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(cannot_read(path, error)),
    }
    let content = read(path, max_bytes).map_err(|error| cannot_read(path, error))?;
    if content.len() > max_bytes {
        return Err(invalid(path, &format!("is larger than {} MiB", max_bytes / 1024 / 1024)));
    }
    Ok(Some(content))
}
