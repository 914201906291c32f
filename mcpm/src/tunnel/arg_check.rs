//! Checks values that are passed as arguments to the program of a tunnel.

use crate::{Error, ErrorKind, Result};

pub(super) fn invalid_args(reason: &str) -> Error {
    Error::new(
        ErrorKind::InvalidOption,
        format!("the arguments of the tunnel provider are invalid: {reason}"),
    )
}

/// Checks values that become arguments of a program: they must not look like its options.
pub(super) fn check_values<'a>(values: impl IntoIterator<Item = (&'a str, Option<&'a str>)>) -> Result<()> {
    for (name, value) in values {
        let is_invalid = |value: &str| {
            value.is_empty()
                || value.starts_with('-')
                || value.contains(|c: char| c.is_whitespace() || c.is_control())
        };
        if value.is_some_and(is_invalid) {
            return Err(invalid_args(&format!(
                "`{name}` is empty, begins with `-`, or contains whitespace or a control character"
            )));
        }
    }
    Ok(())
}
