//! Stub for builds without the Cargo feature `verify`: image signatures cannot be verified.
//!
//! The signer in a registry entry is still recognized, so that its image is not run unverified without a message,
//! unless the user has disabled the verification.

use std::{convert::Infallible, fmt, path::Path};

use serde_json::Value;

mod signer;

pub use signer::{Signer, VerifiedImage};

use super::{ImageReference, credentials::CredentialStore};
use crate::{Error, Feature, Result, transport::tls::TrustStore};

/// The expected signer of an image.
#[derive(Debug, Clone)]
pub(crate) enum ExpectedSigner {
    /// The holder of this key.
    Key(PublicKey),
    /// An identity that an issuer attests.
    Identity(Box<Identity>),
}

impl fmt::Display for ExpectedSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => match key.0 {},
            Self::Identity(identity) => identity.fmt(f),
        }
    }
}

/// A public key, which cannot be read.
#[derive(Debug, Clone)]
pub(crate) struct PublicKey(Infallible);

impl PublicKey {
    pub(crate) fn read(_path: &Path) -> Result<Self> {
        Err(missing())
    }
}

/// A Sigstore trusted root, which cannot be read.
#[derive(Debug, Clone)]
pub(crate) struct TrustedRoot(Infallible);

impl TrustedRoot {
    pub(crate) fn read(_path: &Path) -> Result<Self> {
        Err(missing())
    }
}

/// The expected identity of a signer.
#[derive(Debug, Clone)]
pub(crate) struct Identity(());

impl Identity {
    pub(crate) fn new(_name: String, _issuer: String, _root: Option<TrustedRoot>) -> Result<Self> {
        Err(missing())
    }

    pub(crate) fn from_provenance(_provenance: &Value, root: Option<TrustedRoot>) -> Result<Option<Self>> {
        match root {
            Some(root) => match root.0 {},
            None => Ok(Some(Self(()))),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the signer in the registry's entry")
    }
}

/// Verifies nothing.
///
/// # Errors
/// `Unsupported`.
pub(crate) async fn verify(
    _image: &ImageReference,
    _expected: &ExpectedSigner,
    _logins: &CredentialStore,
    _trust: &TrustStore,
) -> Result<VerifiedImage> {
    Err(missing())
}

fn missing() -> Error {
    Feature::Verify.missing("verifying image signatures")
}
