//! Reads configuration files that options name, in JSON or YAML, with a size limit.

use std::{fs::File, io::Read as _, path::Path};

use serde::de::DeserializeOwned;

use crate::{Error, ErrorKind, Result, similar::suggest_field};

/// Maximum size of a file in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Reads a text file. `what` describes it in messages.
pub(crate) fn text(path: &Path, what: &str) -> Result<String> {
    let shown = path.display();
    let failed = |error: std::io::Error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            std::io::ErrorKind::InvalidData => ErrorKind::InvalidOption,
            _ => ErrorKind::Io,
        };
        Error::new(kind, format!("cannot read the {what} `{shown}`")).source(error)
    };
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
        .map_err(failed)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(invalid(format!("the {what} `{shown}` is larger than {MAX_FILE_BYTES} bytes")));
    }
    Ok(text)
}

/// Reads a JSON file.
pub(crate) fn json<T: DeserializeOwned>(path: &Path, what: &str) -> Result<T> {
    let text = text(path, what)?;
    serde_json::from_str(&text).map_err(|error| {
        let error = suggest_field(&error.to_string());
        invalid(format!("`{}` is not a valid {what}: {error}", path.display()))
    })
}

/// Reads JSON, or YAML if the file's name or content suggests it.
pub(crate) fn json_or_yaml<T: DeserializeOwned>(path: &Path, what: &str) -> Result<T> {
    let text = text(path, what)?;
    let is_json = text.trim_start().starts_with('{');
    let wrong = |error: &dyn std::fmt::Display| {
        // Some errors quote the lines around the position; the first line is sufficient.
        let error = suggest_field(&error.to_string());
        let first = error.lines().next().unwrap_or_default().trim_start_matches("error: ");
        invalid(format!("`{}` is not a valid {what}: {first}", path.display()))
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

/// Creates the error for an invalid option or file.
pub(crate) fn invalid(message: String) -> Error {
    // Messages consist of one line.
    Error::new(ErrorKind::InvalidOption, message.replace(['\n', '\r'], " "))
}
