//! Reads one configuration file of an MCP client, and replaces it. If another program has changed the file since it was
//! read, the write fails, so that no change is lost.
//!
//! A symbolic link is followed, because many users keep their configuration elsewhere and link to it: the file that it
//! leads to is replaced, in its own folder, and the link stays. It must be a regular file of the same user.

use std::{
    fs::{self, File, Permissions},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use crate::{
    Error, ErrorKind, Result,
    platform::{is_own_file, set_mode},
    state::file::{create, file_error, replace_if},
};

/// Maximum size of a file in bytes. The file of Claude Code also contains the history of projects.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// A file that was read, or that does not exist.
#[derive(Debug)]
pub(super) struct ConfigFile {
    /// The path, through links.
    path: PathBuf,
    /// The file at the end of links.
    real: PathBuf,
    text: Option<String>,
    permissions: Option<Permissions>,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// `InvalidOption` for what cannot be edited; `Io`.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let missing = || Self { path: path.to_owned(), real: path.to_owned(), text: None, permissions: None };
        let link = match fs::symlink_metadata(path) {
            Ok(found) => found.is_symlink(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(missing()),
            Err(error) => return Err(file_error("read", path, error)),
        };
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) if link && error.kind() == io::ErrorKind::NotFound => {
                return Err(unusable(path, "is a symbolic link to a file that does not exist"));
            }
            Err(error) => return Err(file_error("read", path, error)),
        };
        let found = fs::metadata(&real).map_err(|error| file_error("read", path, error))?;
        if !found.is_file() {
            return Err(unusable(path, "is not a regular file"));
        }
        if !is_own_file(&found) {
            return Err(unusable(path, "belongs to another user"));
        }
        if found.len() > MAX_FILE_BYTES {
            return Err(unusable(path, &format!("is larger than {MAX_FILE_BYTES} bytes")));
        }
        let bytes = read_bounded(&real).map_err(|error| file_error("read", path, error))?;
        let text = String::from_utf8(bytes).map_err(|_| unusable(path, "is not valid UTF-8"))?;
        Ok(Self { path: path.to_owned(), real, text: Some(text), permissions: Some(found.permissions()) })
    }

    /// Returns the text; `None` for a file that does not exist.
    pub(super) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// Writes the file. `shared` is for a new file that is not the user's alone.
    ///
    /// # Errors
    /// `Io`, also if the file has changed since it was read.
    pub(super) fn write(&self, new: &str, shared: bool) -> Result<()> {
        let failed = |error| self.failed("write", error);
        let Some(permissions) = &self.permissions else {
            if let Some(folder) = self.path.parent() {
                fs::create_dir_all(folder).map_err(failed)?;
            }
            create(&self.path, new.as_bytes()).map_err(failed)?;
            return if shared { set_mode(&self.path, 0o644).map_err(failed) } else { Ok(()) };
        };
        if permissions.readonly() {
            return Err(unusable(&self.path, "is read-only"));
        }
        replace_if(&self.real, new.as_bytes(), permissions, || self.check_unchanged()).map_err(failed)
    }

    /// Deletes the file.
    ///
    /// # Errors
    /// `Io`, also if the file has changed since it was read.
    pub(super) fn delete(&self) -> Result<()> {
        let removed = self.check_unchanged().and_then(|()| fs::remove_file(&self.real));
        removed.map_err(|error| self.failed("remove", error))
    }

    fn check_unchanged(&self) -> io::Result<()> {
        if self.text.as_deref().map(str::as_bytes) == Some(read_bounded(&self.real)?.as_slice()) {
            Ok(())
        } else {
            Err(io::ErrorKind::AlreadyExists.into())
        }
    }

    fn failed(&self, what: &str, error: io::Error) -> Error {
        if error.kind() == io::ErrorKind::AlreadyExists {
            let message = format!("`{}` was changed by another program meanwhile", self.path.display());
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
