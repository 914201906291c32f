//! Reads one configuration file of an MCP client, and replaces it. If another program has changed the file since it was
//! read, the write fails, so that no change is lost.
//!
//! The file must be a regular file that belongs to the user. A symbolic link is rejected: the file that it leads to is
//! often under version control, or shared with other machines. The file keeps its group, its mode and its ACL.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use crate::{
    Error, ErrorKind, Result,
    platform::{copy_attributes, is_own_file, set_mode},
    state::file::{create, file_error, replace_if},
};

/// Maximum size of a file in bytes. The file of Claude Code also contains the history of projects.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// A file that was read, or that does not exist.
#[derive(Debug)]
pub(super) struct ConfigFile {
    path: PathBuf,
    text: Option<String>,
    is_read_only: bool,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// `InvalidOption` for a file that cannot be edited; `Io`.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let found = match fs::symlink_metadata(path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { path: path.to_owned(), text: None, is_read_only: false });
            }
            Err(error) => return Err(file_error("read", path, error)),
        };
        if found.is_symlink() {
            let target = fs::read_link(path).unwrap_or_default();
            let problem = format!("is a symbolic link to `{}`, which mcpm does not follow", target.display());
            return Err(unusable(path, &problem));
        }
        if !found.is_file() {
            return Err(unusable(path, "is not a regular file"));
        }
        if !is_own_file(&found) {
            return Err(unusable(path, "belongs to another user"));
        }
        if found.len() > MAX_FILE_BYTES {
            return Err(unusable(path, &format!("is larger than {MAX_FILE_BYTES} bytes")));
        }
        let bytes = read_bounded(path).map_err(|error| file_error("read", path, error))?;
        let text = String::from_utf8(bytes).map_err(|_| unusable(path, "is not valid UTF-8"))?;
        Ok(Self { path: path.to_owned(), text: Some(text), is_read_only: found.permissions().readonly() })
    }

    /// Fails for a read-only file.
    pub(super) fn check_writable(&self) -> Result<()> {
        if self.is_read_only { Err(unusable(&self.path, "is read-only")) } else { Ok(()) }
    }

    /// Returns the text; `None` for a file that does not exist.
    pub(super) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Writes the file. `shared` is whether a new file is readable for others, too.
    ///
    /// # Errors
    /// `Io`, also if the file has changed since it was read.
    pub(super) fn write(&self, new: &str, shared: bool) -> Result<()> {
        let failed = |error| self.failed("write", error);
        if self.text.is_none() {
            if let Some(folder) = self.path.parent() {
                fs::create_dir_all(folder).map_err(failed)?;
            }
            create(&self.path, new.as_bytes()).map_err(failed)?;
            return if shared { set_mode(&self.path, 0o644).map_err(failed) } else { Ok(()) };
        }
        self.check_writable()?;
        let prepare = |draft: &Path| {
            copy_attributes(&self.path, draft).map_err(|error| {
                io::Error::other(format!("its group, its ACL or other attributes would be lost: {error}"))
            })?;
            self.check_unchanged()
        };
        replace_if(&self.path, new.as_bytes(), prepare).map_err(failed)
    }

    /// Whether the file now has a text.
    pub(super) fn has_become(&self, text: &str) -> bool {
        read_bounded(&self.path).is_ok_and(|bytes| bytes == text.as_bytes())
    }

    /// Deletes the file.
    ///
    /// # Errors
    /// `Io`, also if the file has changed since it was read.
    pub(super) fn delete(&self) -> Result<()> {
        self.check_writable()?;
        let removed = self.check_unchanged().and_then(|()| fs::remove_file(&self.path));
        removed.map_err(|error| self.failed("remove", error))
    }

    fn check_unchanged(&self) -> io::Result<()> {
        if self.text.as_deref().map(str::as_bytes) == Some(read_bounded(&self.path)?.as_slice()) {
            Ok(())
        } else {
            Err(io::ErrorKind::AlreadyExists.into())
        }
    }

    fn failed(&self, what: &str, error: io::Error) -> Error {
        if error.kind() == io::ErrorKind::AlreadyExists {
            let message = format!("`{}` was changed by another program in the meantime", self.path.display());
            return Error::new(ErrorKind::Io, message).hint("the file was left as it is; try again");
        }
        file_error(what, &self.path, error)
    }
}

/// The error for a file that cannot be edited; `problem` is the rest of the sentence.
pub(super) fn unusable(path: &Path, problem: &str) -> Error {
    Error::new(ErrorKind::InvalidOption, format!("`{}` {problem}", path.display()))
        .hint("the file was left as it is")
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
