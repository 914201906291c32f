//! HTTP headers that are added to requests: with a value, or with the name of a secret.

use std::{fmt, str::FromStr};

use http::{HeaderName, HeaderValue};

use super::{OptionValue, Secret, ValueKind, value::invalid_value};
use crate::{Error, Result};

/// One header and its value, which is treated as a secret: it is often a credential.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value.
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
            Err(_) => Err("the value has a character that no header may have".to_owned()),
        }
    }
}

/// One header whose value is in the secrets manager.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HeaderSecret {
    /// Its name.
    pub name: String,
    /// Name of the secret that is its value.
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
        Err(_) => Err("the name before `=` is no header name".to_owned()),
    }
}
