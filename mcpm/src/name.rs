//! Checks the syntax of workload names, and derives valid names from other text.
//!
//! A name is also used as a folder name, as a container name and in URLs, so it may contain only characters that are
//! valid in all three. [`Store::create`](crate::state::Store::create) checks whether a name is already taken.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result, printable::Printable as _};

const MAX_LENGTH: usize = 63;
const FALLBACK: &str = "server";

/// The name of a workload: `[a-z0-9][a-z0-9._-]{1,62}`, not ending in a dot. Engines require at least two
/// characters for container names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkloadName(String);

impl WorkloadName {
    /// Derives a valid name from any text: for generated names, not for names that a user wrote.
    ///
    /// Invalid characters become `-`; a text without any valid character becomes `server`.
    pub fn sanitized(text: &str) -> Self {
        let mut name = String::new();
        for c in text.chars().map(|c| c.to_ascii_lowercase()) {
            let c = if is_allowed(c) { c } else { '-' };
            if !(is_separator(c) && (name.is_empty() || name.ends_with('-') && c == '-')) {
                name.push(c);
            }
        }
        let name = shortened(&name, MAX_LENGTH);
        match name.len() {
            0 => Self(FALLBACK.to_owned()),
            1 => Self(format!("{name}-{FALLBACK}")),
            _ => Self(name.to_owned()),
        }
    }

    /// Returns the name with the suffix `-n`, with the base truncated to the maximum length.
    #[must_use]
    pub fn with_suffix(&self, n: u32) -> Self {
        let suffix = format!("-{n}");
        let base = shortened(&self.0, MAX_LENGTH - suffix.len());
        Self(base.to_owned() + &suffix)
    }

    /// Returns the name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for WorkloadName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let broken = if text.is_empty() {
            Some("a name cannot be empty")
        } else if !text.chars().all(is_allowed) {
            Some("a name can contain only lower-case letters, digits, `.`, `_` and `-`")
        } else if text.starts_with(is_separator) {
            Some("a name must start with a lower-case letter or a digit")
        } else if text.ends_with('.') {
            Some("a name cannot end in a dot")
        } else if text.len() < 2 {
            Some("a name must have at least 2 characters")
        } else if text.len() > MAX_LENGTH {
            Some("a name can have at most 63 characters")
        } else {
            None
        };
        let Some(rule) = broken else { return Ok(Self(text.to_owned())) };
        let message = format!("`{}` is not a valid workload name: {rule}", text.printable());
        Err(Error::new(ErrorKind::InvalidOption, message).hint(format!("try `{}`", Self::sanitized(text))))
    }
}

impl TryFrom<String> for WorkloadName {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<WorkloadName> for String {
    fn from(name: WorkloadName) -> Self {
        name.0
    }
}

impl AsRef<str> for WorkloadName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkloadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || is_separator(c)
}

fn is_separator(c: char) -> bool {
    matches!(c, '.' | '_' | '-')
}

/// Truncates an ASCII text to `length` and drops trailing separators.
pub(crate) fn shortened(text: &str, length: usize) -> &str {
    text.get(..length).unwrap_or(text).trim_end_matches(is_separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        let error = text.parse::<WorkloadName>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption);
        error.to_string()
    }

    #[test]
    fn good_names_are_kept_as_written() {
        let longest = "a".repeat(63);
        for text in ["a0", "0a", "time", "io.github.user_x-y", "a..b", "a-", longest.as_str()] {
            assert_eq!(text.parse::<WorkloadName>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_bad_name_is_refused_with_the_rule_it_breaks() {
        let long = "a".repeat(64);
        for (text, rule) in [
            ("", "empty"),
            ("Time", "lower-case"),
            ("a b", "only"),
            ("a/b", "only"),
            ("zeit\u{e9}", "only"),
            ("a\nb", "only"),
            (".", "must start with"),
            ("..", "must start with"),
            (".removing-a", "must start with"),
            ("-a", "must start with"),
            ("a.", "end in a dot"),
            ("a", "2 characters"),
            (long.as_str(), "63"),
        ] {
            let message = refusal(text);
            assert!(message.contains(rule), "{text:?}: {message}");
            assert!(!message.contains('\n'), "{message:?}");
        }
        assert!(refusal("My Server").ends_with("try `my-server`"));
    }

    #[test]
    fn any_text_becomes_a_good_name() {
        for (text, name) in [
            ("ghcr.io/Org/Server@1.2", "ghcr.io-org-server-1.2"),
            ("@scope/pkg", "scope-pkg"),
            ("./dir", "dir"),
            ("a  //  b", "a-b"),
            ("a_b.", "a_b"),
            ("\u{fc}", FALLBACK),
            ("", FALLBACK),
        ] {
            let made = WorkloadName::sanitized(text);
            assert_eq!(made.as_str(), name, "{text:?}");
            assert_eq!(made.as_str().parse::<WorkloadName>().unwrap(), made);
        }
        let long = WorkloadName::sanitized(&format!("{}./{}", "a".repeat(61), "b".repeat(9)));
        assert_eq!(long.as_str(), "a".repeat(61));
    }

    #[test]
    fn a_suffix_keeps_the_length_bound() {
        let name = |text: &str| text.parse::<WorkloadName>().unwrap();
        assert_eq!(name("time").with_suffix(2).as_str(), "time-2");
        let long = name(&"a".repeat(63)).with_suffix(u32::MAX);
        assert_eq!(long.as_str(), format!("{}-{}", "a".repeat(52), u32::MAX));
        let dotted = name(&format!("{}.b", "a".repeat(61))).with_suffix(2);
        assert_eq!(dotted.as_str(), format!("{}-2", "a".repeat(61)));
    }

    #[test]
    fn serde_checks_the_name() {
        let name: WorkloadName = serde_json::from_str("\"time\"").unwrap();
        assert_eq!(serde_json::to_string(&name).unwrap(), "\"time\"");
        let error = serde_json::from_str::<WorkloadName>("\"../x\"").unwrap_err();
        assert!(error.to_string().contains("is not a valid workload name"), "{error}");
    }
}
