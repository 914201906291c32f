//! Encodes and decodes the stored JSON documents, and upgrades documents of older format versions.
//!
//! A document of a newer version, or with an unknown field, is rejected and left unchanged, because unknown data would
//! be lost if mcpm wrote the document back.

use std::path::Path;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{Error, ErrorKind, Result};

/// The version of stored formats (field `version`), unless a format has its own.
pub const FORMAT_VERSION: u32 = 1;
/// The version of `spec.json`. Version 1 had `container` instead of `place`.
pub const SPEC_VERSION: u32 = 2;

/// A document of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    /// The resolved configuration of the workload.
    Spec,
    /// The last status that the supervisor wrote.
    Status,
    /// How the supervisor should stop when it gets the next signal.
    Stop,
    /// The names of the tools that a client last saw, for completion in shells.
    Tools,
}

impl Document {
    pub(super) const fn file_name(self) -> &'static str {
        match self {
            Self::Spec => "spec.json",
            Self::Status => "status.json",
            Self::Stop => "stop.json",
            Self::Tools => "tools.json",
        }
    }

    pub(super) const fn version(self) -> u32 {
        match self {
            Self::Spec => SPEC_VERSION,
            Self::Status | Self::Stop | Self::Tools => FORMAT_VERSION,
        }
    }

    /// Upgrades a document of an older version; `None` for an unknown version.
    pub(super) fn upgrade(self, version: u32, mut document: Value) -> Option<Value> {
        match (self, version) {
            (Self::Spec, 1) => {
                let fields = document.as_object_mut()?;
                let container = fields.remove("container")?;
                fields.insert("place".to_owned(), json!({ "container": container }));
                fields.insert("version".to_owned(), json!(SPEC_VERSION));
                Some(document)
            }
            _ => None,
        }
    }
}

/// The field that documents of all versions have.
#[derive(Deserialize)]
struct VersionField {
    version: u32,
}

/// Serializes `value`. A value without the right `version` is a defect of the caller.
pub(crate) fn encode<T: Serialize>(value: &T, version: u32) -> Result<Vec<u8>> {
    let defect = || Error::new(ErrorKind::Internal, "cannot encode a document");
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|error| defect().source(error))?;
    let header: VersionField = serde_json::from_slice(&bytes).map_err(|error| defect().source(error))?;
    if header.version != version {
        return Err(defect().with("version", header.version));
    }
    bytes.push(b'\n');
    Ok(bytes)
}

/// Parses a document of `version` or an older one that `upgrade` converts. `path` is for the error.
pub(crate) fn decode<T: DeserializeOwned>(
    bytes: &[u8],
    path: &Path,
    version: u32,
    upgrade: impl Fn(u32, Value) -> Option<Value>,
) -> Result<T> {
    let damaged = |error: serde_json::Error| {
        Error::new(ErrorKind::CorruptState, format!("`{}` is damaged", path.display())).source(error)
    };
    let header: VersionField = serde_json::from_slice(bytes).map_err(damaged)?;
    if header.version == version {
        return serde_json::from_slice(bytes).map_err(damaged);
    }
    let old: Value = serde_json::from_slice(bytes).map_err(damaged)?;
    let Some(upgraded) = upgrade(header.version, old) else {
        let message = format!(
            "`{}` has format version {}, which this version of mcpm does not support; it supports version {version}",
            path.display(),
            header.version
        );
        return Err(Error::new(ErrorKind::CorruptState, message));
    };
    serde_json::from_value(upgraded).map_err(damaged)
}
