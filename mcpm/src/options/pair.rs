//! Parses `key=value` pairs: labels, environment variables and lists of attributes.

use std::{fmt, str::FromStr};

use super::{ValueKind, value::invalid_value};
use crate::{Error, Result};

/// A `key=value` pair.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyValue {
    /// The text before the first `=`; never empty.
    pub key: String,
    /// The text after it; may be empty.
    pub value: String,
}

impl<K: Into<String>, V: Into<String>> From<(K, V)> for KeyValue {
    fn from((key, value): (K, V)) -> Self {
        Self { key: key.into(), value: value.into() }
    }
}

impl FromStr for KeyValue {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (key, value) = text.split_once('=').ok_or_else(|| invalid_value("expected `key=value`"))?;
        if key.is_empty() {
            return Err(invalid_value("the key before `=` is empty"));
        }
        Ok(Self { key: key.to_owned(), value: value.to_owned() })
    }
}

impl fmt::Display for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

text_form!(KeyValue => ValueKind::Pair);

/// An environment variable of the server. `Debug` does not show the value, which may be a credential.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EnvVar {
    /// The name; never empty.
    pub name: String,
    /// The value; may be empty.
    pub value: String,
}

impl<N: Into<String>, V: Into<String>> From<(N, V)> for EnvVar {
    fn from((name, value): (N, V)) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

impl FromStr for EnvVar {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, value) = text.split_once('=').ok_or_else(|| invalid_value("expected `KEY=VALUE`"))?;
        if name.is_empty() {
            return Err(invalid_value("the name before `=` is empty"));
        }
        if text.contains('\0') {
            return Err(invalid_value("an environment variable cannot contain a NUL byte"));
        }
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}

impl fmt::Display for EnvVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

impl fmt::Debug for EnvVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnvVar").field("name", &self.name).finish_non_exhaustive()
    }
}

text_form!(EnvVar => ValueKind::EnvVar);

/// Comma-separated `key=value` pairs in one text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// The attributes in their original order.
    pub entries: Vec<KeyValue>,
}

impl<T: Into<KeyValue>> FromIterator<T> for Attributes {
    fn from_iter<I: IntoIterator<Item = T>>(entries: I) -> Self {
        Self { entries: entries.into_iter().map(Into::into).collect() }
    }
}

impl FromStr for Attributes {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let entry = |part: &str| {
            part.trim().parse().map_err(|_| invalid_value("expected `key=value` pairs, separated by commas"))
        };
        Ok(Self { entries: text.split(',').map(entry).collect::<Result<_>>()? })
    }
}

impl fmt::Display for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.entries.iter().enumerate() {
            write!(f, "{}{entry}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

text_form!(Attributes => ValueKind::Compound("key=value,..."));
