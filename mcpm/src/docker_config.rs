//! Reads the files in which Docker's and Podman's tools keep settings and logins.

use std::{fs, io, path::Path};

use serde::de::DeserializeOwned;

use crate::{Error, ErrorKind, Result};

/// Reads a JSON file of another tool, or returns `None` when it is missing or empty.
///
/// # Errors
/// `Io` when it cannot be read, `CorruptState` when it cannot be understood. Neither quotes the file: it may hold
/// logins.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(Error::new(ErrorKind::Io, format!("cannot read `{}`", path.display())).source(error));
        }
    };
    if bytes.trim_ascii().is_empty() {
        return Ok(None);
    }
    serde_json::from_slice(&bytes).map(Some).map_err(|error| {
        let place = format!("line {} column {}", error.line(), error.column());
        Error::new(ErrorKind::CorruptState, format!("`{}` cannot be understood", path.display()))
            .with("at", place)
    })
}
