//! The stored JSON documents and their format version.
//!
//! A document of another version, or with a field that this mcpm does not know, is refused and left as it is:
//! half-understood state would be written back without what was not understood.

use std::path::Path;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{Error, ErrorKind, Result};

/// The version of every stored format, in its field `version`.
pub const FORMAT_VERSION: u32 = 1;

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
}

/// The one field that documents of all versions have, so it is read on its own and others are let pass.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Returns `value` as a document. A value without the right `version` is a defect of the caller.
pub(super) fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let defect = || Error::new(ErrorKind::Internal, "cannot encode a document");
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|error| defect().source(error))?;
    let found: Versioned = serde_json::from_slice(&bytes).map_err(|error| defect().source(error))?;
    if found.version != FORMAT_VERSION {
        return Err(defect().with("version", found.version));
    }
    bytes.push(b'\n');
    Ok(bytes)
}

/// Reads a document. `path` is for the error.
pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8], path: &Path) -> Result<T> {
    let damaged = |error: serde_json::Error| {
        Error::new(ErrorKind::CorruptState, format!("`{}` is damaged", path.display())).source(error)
    };
    let found: Versioned = serde_json::from_slice(bytes).map_err(damaged)?;
    if found.version != FORMAT_VERSION {
        let message = format!(
            "`{}` has format version {}, and this mcpm reads only version {FORMAT_VERSION}",
            path.display(),
            found.version
        );
        return Err(Error::new(ErrorKind::CorruptState, message));
    }
    serde_json::from_slice(bytes).map_err(damaged)
}
