//! Formats the reason why a signature is not valid.

use std::fmt;

/// Formats the error of a library as a reason: one line, in lower case.
pub(super) fn reason(error: &impl fmt::Display) -> String {
    let text = error.to_string().replace(['\n', '\r'], " ");
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
