//! Parses the headers that the proxy adds to requests. The value is literal, or a reference to a secret.

use std::{fmt, str::FromStr};

use http::{HeaderName, HeaderValue};

use super::{OptionValue, Secret, ValueKind, value::invalid_value};
use crate::{Error, Result};

/// A header and its value, which is treated as a secret because it is often a credential.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    /// The name.
    pub name: String,
    /// The value.
    pub value: Secret,
}

impl<N: Into<String>, V: Into<Secret>> From<(N, V)> for Header {
    fn from((name, value): (N, V)) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

impl FromStr for Header {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, value) = text.split_once('=').ok_or_else(|| invalid_value("expected `Name=Value`"))?;
        let header = Self::from((name, value));
        header.check().map_err(invalid_value)?;
        Ok(header)
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Header").field("name", &self.name).finish_non_exhaustive()
    }
}

impl OptionValue for Header {
    const KIND: ValueKind = ValueKind::Header;

    fn parse(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: Error| error.message().to_owned())
    }

    fn text(&self) -> Option<String> {
        None
    }

    fn secret(&self) -> Option<Secret> {
        Some(Secret::from(format!("{}={}", self.name, self.value.expose())))
    }

    fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        match HeaderValue::from_str(self.value.expose()) {
            Ok(_) => Ok(()),
            Err(_) => Err("the value contains a character that is not allowed in headers".to_owned()),
        }
    }
}

/// A header whose value is in the secret store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HeaderSecret {
    /// The name.
    pub name: String,
    /// The name of the secret that contains the value.
    pub secret: String,
}

impl<N: Into<String>, S: Into<String>> From<(N, S)> for HeaderSecret {
    fn from((name, secret): (N, S)) -> Self {
        Self { name: name.into(), secret: secret.into() }
    }
}

impl FromStr for HeaderSecret {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, secret) =
            text.split_once('=').ok_or_else(|| invalid_value("expected `Name=secret-name`"))?;
        check_name(name).map_err(invalid_value)?;
        if secret.is_empty() {
            return Err(invalid_value("the name of the secret after `=` is empty"));
        }
        Ok(Self { name: name.to_owned(), secret: secret.to_owned() })
    }
}

impl fmt::Display for HeaderSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.secret)
    }
}

text_form!(HeaderSecret => ValueKind::Compound("Name=secret-name"));

fn check_name(name: &str) -> Result<(), String> {
    match HeaderName::from_bytes(name.as_bytes()) {
        Ok(_) => Ok(()),
        Err(_) => Err("the name before `=` is not a valid header name".to_owned()),
    }
}
