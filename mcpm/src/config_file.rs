//! Reads files that options name: not larger than they can be, in JSON or YAML, and an error names file and place.

use std::{fs::File, io::Read as _, path::Path};

use serde::de::DeserializeOwned;

use crate::{Error, ErrorKind, Result};

/// Largest file.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Reads a file of text. `what` says what it is, for messages.
pub(crate) fn text(path: &Path, what: &str) -> Result<String> {
    let shown = path.display();
    let failed = |error: std::io::Error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::InvalidData => ErrorKind::InvalidOption,
            _ => ErrorKind::Io,
        };
        Error::new(kind, format!("cannot read {what} `{shown}`")).source(error)
    };
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
        .map_err(failed)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(invalid(format!("{what} `{shown}` is larger than {MAX_FILE_BYTES} bytes")));
    }
    Ok(text)
}

/// Reads JSON.
pub(crate) fn json<T: DeserializeOwned>(path: &Path, what: &str) -> Result<T> {
    let text = text(path, what)?;
    serde_json::from_str(&text)
        .map_err(|error| invalid(format!("`{}` is no {what}: {error}", path.display())))
}

/// Reads JSON, or YAML when the file's name or its beginning says so.
pub(crate) fn json_or_yaml<T: DeserializeOwned>(path: &Path, what: &str) -> Result<T> {
    let text = text(path, what)?;
    let is_json = text.trim_start().starts_with('{');
    let wrong = |error: &dyn std::fmt::Display| {
        // Some errors show the lines around the place; the first one says what and where.
        let error = error.to_string();
        let first = error.lines().next().unwrap_or_default();
        invalid(format!("`{}` is no {what}: {first}", path.display()))
    };
    if is_json {
        serde_json::from_str(&text).map_err(|error| wrong(&error))
    } else {
        serde_saphyr::from_str(&text).map_err(|error| wrong(&error))
    }
}

/// Returns the kind of the error for a file or folder that the user named and that cannot be read.
pub(crate) fn read_error_kind(error: &std::io::Error) -> ErrorKind {
    match error.kind() {
        std::io::ErrorKind::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Io,
    }
}

/// Refuses what is wrong in an option or a file.
pub(crate) fn invalid(message: String) -> Error {
    // A message is one line, whatever the file says.
    Error::new(ErrorKind::InvalidOption, message.replace(['\n', '\r'], " "))
}
