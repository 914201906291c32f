//! The stored JSON documents and their format version.
//!
//! A document of an older version is brought up to date as it is read. One of a newer version, or with a field that this mcpm does not know, is refused and left as it is:
//! half-understood state would be written back without what was not understood.

use std::path::Path;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{Error, ErrorKind, Result};

/// The version of stored formats, in their field `version`, unless a format has its own.
pub const FORMAT_VERSION: u32 = 1;
/// The version of `spec.json`. Version 1 had `container` where there is `place` now.
pub const SPEC_VERSION: u32 = 2;

/// A document that is kept for each workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Document {
    /// What the workload is.
    Spec,
    /// What its supervisor last said of it.
    Status,
}

impl Document {
    pub(super) const fn file_name(self) -> &'static str {
        match self {
            Self::Spec => "spec.json",
            Self::Status => "status.json",
        }
    }

    pub(super) const fn version(self) -> u32 {
        match self {
            Self::Spec => SPEC_VERSION,
            Self::Status => FORMAT_VERSION,
        }
    }

    /// Brings a document of an older version up to date; `None` for a version that never was.
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

/// The one field that documents of all versions have, so it is read on its own and others are let pass.
#[derive(Deserialize)]
struct VersionField {
    version: u32,
}

/// Returns `value` as a document. A value without the right `version` is a defect of the caller.
pub(crate) fn encode<T: Serialize>(value: &T, version: u32) -> Result<Vec<u8>> {
    let defect = || Error::new(ErrorKind::Internal, "cannot encode a document");
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|error| defect().source(error))?;
    let found: VersionField = serde_json::from_slice(&bytes).map_err(|error| defect().source(error))?;
    if found.version != version {
        return Err(defect().with("version", found.version));
    }
    bytes.push(b'\n');
    Ok(bytes)
}

/// Reads a document of `version`, or of one that `upgrade` brings there. `path` is for the error.
pub(crate) fn decode<T: DeserializeOwned>(
    bytes: &[u8],
    path: &Path,
    version: u32,
    upgrade: impl Fn(u32, Value) -> Option<Value>,
) -> Result<T> {
    let damaged = |error: serde_json::Error| {
        Error::new(ErrorKind::CorruptState, format!("`{}` is damaged", path.display())).source(error)
    };
    let found: VersionField = serde_json::from_slice(bytes).map_err(damaged)?;
    if found.version == version {
        return serde_json::from_slice(bytes).map_err(damaged);
    }
    let old: Value = serde_json::from_slice(bytes).map_err(damaged)?;
    let Some(upgraded) = upgrade(found.version, old) else {
        let message = format!(
            "`{}` has format version {}, which this mcpm does not read; it writes version {version}",
            path.display(),
            found.version
        );
        return Err(Error::new(ErrorKind::CorruptState, message));
    };
    serde_json::from_value(upgraded).map_err(damaged)
}
