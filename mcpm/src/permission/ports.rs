//! Parses port ranges.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::error::invalid;
use crate::{Error, Result};

/// An inclusive range of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Returns one port.
    ///
    /// # Errors
    /// `InvalidOption` for port 0, which cannot be connected to.
    pub fn one(port: u16) -> Result<Self> {
        Self::new(port, port)
    }

    /// Returns the ports from `first` to `last`.
    ///
    /// # Errors
    /// `InvalidOption` for port 0 and for a range without a port in it.
    pub fn new(first: u16, last: u16) -> Result<Self> {
        if first == 0 || last < first {
            let message = format!(
                "ports `{first}-{last}` are invalid: expected ports from 1 to 65535, the lower one first"
            );
            return Err(invalid(message));
        }
        Ok(Self { first, last })
    }

    /// Tells whether a port is in the range.
    pub fn contains(self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// Returns the ports, ascending.
    pub fn ports(self) -> impl Iterator<Item = u16> {
        self.first..=self.last
    }
}

impl FromStr for PortRange {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let port = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let port = text.parse::<u16>().ok().filter(|_| digits);
            port.ok_or_else(|| {
                invalid(format!("`{text}` is not a valid port: expected `443` or `8000-8100`"))
            })
        };
        match text.split_once('-') {
            Some((first, last)) => Self::new(port(first)?, port(last)?),
            None => Self::one(port(text)?),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

impl Serialize for PortRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.first == self.last {
            serializer.serialize_u16(self.first)
        } else {
            serializer.collect_str(self)
        }
    }
}

impl<'de> Deserialize<'de> for PortRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PortRangeVisitor)
    }
}

/// Deserializes a port from a number, or a range from a string.
struct PortRangeVisitor;

impl de::Visitor<'_> for PortRangeVisitor {
    type Value = PortRange;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a port such as 443, or a range such as \"8000-8100\"")
    }

    fn visit_u64<E: de::Error>(self, port: u64) -> Result<PortRange, E> {
        let port = u16::try_from(port).map_err(|_| E::custom(format!("`{port}` is not a valid port")))?;
        PortRange::one(port).map_err(E::custom)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<PortRange, E> {
        text.parse().map_err(E::custom)
    }
}
