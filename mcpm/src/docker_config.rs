//! Reads the configuration files of the command-line tools of Docker and Podman.

use std::{fs, io, path::Path};

use serde::de::DeserializeOwned;

use crate::{Error, ErrorKind, Result};

/// Reads a JSON file of another tool; `None` if it is missing or empty.
///
/// # Errors
/// `Io` if it cannot be read, `CorruptState` if it cannot be parsed. Neither quotes the file, which may contain
/// credentials.
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
        let position = format!("line {} column {}", error.line(), error.column());
        Error::new(ErrorKind::CorruptState, format!("`{}` cannot be parsed", path.display()))
            .with("at", position)
    })
}
