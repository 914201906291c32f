//! The signer of an image, and the outcome of a verification.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The signer of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signer {
    /// The holder of a key.
    Key {
        /// The SHA-256 of the public key, in hex digits.
        fingerprint: String,
    },
    /// An identity that an issuer attested.
    Identity {
        /// An email address, or the URL of a build.
        identity: String,
        /// The issuer.
        issuer: String,
    },
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { fingerprint } => write!(f, "the key SHA256:{fingerprint}"),
            Self::Identity { identity, issuer } => write!(f, "`{identity}`, as attested by `{issuer}`"),
        }
    }
}

/// A verified image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifiedImage {
    /// The signed digest, which is run.
    pub digest: String,
    /// The signer of the image.
    pub signer: Signer,
}
