//! Parses and checks the resource limits of a server.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::error::invalid;
use crate::{Error, Result, printable::Printable as _};

/// Default limit of processes and threads.
pub const DEFAULT_PIDS: u32 = 1024;
/// The lowest memory limit that engines accept.
const MIN_MEMORY_BYTES: u64 = 6 * 1024 * 1024;

/// Resource limits; `None` is unlimited, except for processes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Resources {
    /// Memory, including swap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Processors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Processes and threads; 1024 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
}

impl Resources {
    /// Rejects limits that are too low or too high.
    pub(super) fn check(&self) -> Result<()> {
        if self.memory.is_some_and(|memory| memory.0 < MIN_MEMORY_BYTES) {
            return Err(invalid("`memory` must be at least `6m`"));
        }
        if self.cpus.is_some_and(|cpus| !(0.01..=1024.0).contains(&cpus)) {
            return Err(invalid("`cpus` must be a number from 0.01 to 1024"));
        }
        if self.pids == Some(0) {
            return Err(invalid("`pids` must be at least 1"));
        }
        Ok(())
    }
}

/// A number of bytes: `1048576`, `64k`, `512m`, `2g`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

const UNITS: [(char, u64); 3] = [('k', 1 << 10), ('m', 1 << 20), ('g', 1 << 30)];

impl FromStr for Bytes {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || invalid(format!("`{}` is not a valid size: expected `512m` or `2g`", text.printable()));
        let lower = text.to_ascii_lowercase();
        let unit = UNITS.iter().find(|(letter, _)| lower.ends_with(*letter));
        let (digits, factor) = unit.map_or((lower.as_str(), 1), |(letter, factor)| {
            (lower.strip_suffix(*letter).unwrap_or(&lower), *factor)
        });
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(bad());
        }
        let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
        // Engines use signed numbers.
        bytes.filter(|bytes| (1..=1 << 60).contains(bytes)).map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().rev().find(|(_, factor)| self.0.is_multiple_of(*factor) && self.0 > 0) {
            Some((letter, factor)) => write!(f, "{}{letter}", self.0 / factor),
            None => write!(f, "{}", self.0),
        }
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
