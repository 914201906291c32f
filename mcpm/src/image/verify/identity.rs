//! Verifies keyless signatures, whose certificates contain the identity of the signer.
//!
//! `sigstore-verify` verifies the certificate, its log entry, the time of the signature and the entry in the
//! transparency log against a trusted root. If the root lists no logs of a kind, no entry in such a log is required.

use std::{fmt, fs, path::Path};

use serde_json::Value;
use sigstore_verify::{
    VerificationPolicy, VerificationResult, Verifier,
    trust_root::{SIGSTORE_GITHUB_TRUSTED_ROOT, SIGSTORE_PRODUCTION_TRUSTED_ROOT, TrustedRoot as Root},
    types::{Bundle, Sha256Hash, SignatureContent},
};

use super::{
    cosign, crypto,
    find::Signature,
    key::parse_bundle,
    provenance::{Provenance, SigstoreInstance},
    reason::reason,
    signer::Signer,
    statement::{self, Predicate},
};
use crate::{Error, ErrorKind, Result, image::Digest};

/// A Sigstore trusted root: certificate authorities and logs.
#[derive(Debug, Clone)]
pub(crate) struct TrustedRoot(Box<Root>);

impl TrustedRoot {
    /// Reads a `trusted_root.json`.
    ///
    /// # Errors
    /// `NotFound` and `Io` when it cannot be read, `InvalidOption` when it is invalid.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|error| {
            let kind = match error.kind() {
                std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                _ => ErrorKind::Io,
            };
            Error::new(kind, format!("cannot read the trusted root `{}`", path.display())).source(error)
        })?;
        Self::parse(&text).map_err(|why| {
            let message = format!("`{}` is not a Sigstore trusted root", path.display());
            Error::new(ErrorKind::InvalidOption, message).source(why)
        })
    }

    /// Returns the embedded root of Sigstore's public instance.
    fn public_instance() -> Result<Self> {
        Self::embedded(SIGSTORE_PRODUCTION_TRUSTED_ROOT)
    }

    fn embedded(text: &str) -> Result<Self> {
        Self::parse(text).map_err(|why| {
            Error::new(ErrorKind::Internal, "cannot parse the built-in trusted root of Sigstore").source(why)
        })
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        crypto::install_crypto_provider();
        let root = Root::from_json(text).map_err(|error| reason(&error))?;
        Verifier::new(&root).map_err(|error| reason(&error))?;
        Ok(Self(Box::new(root)))
    }
}

/// The expected identity of a signer.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// The identity in the certificate.
    name: Option<String>,
    issuer: String,
    /// Further claims about the build in the certificate.
    provenance: Option<Provenance>,
    predicate: Predicate,
    root: TrustedRoot,
}

impl Identity {
    /// Returns the identity that the user gave.
    ///
    /// # Errors
    /// `Internal` when no root is given and the embedded one is invalid.
    pub(crate) fn new(name: String, issuer: String, root: Option<TrustedRoot>) -> Result<Self> {
        let root = root.map_or_else(TrustedRoot::public_instance, Ok)?;
        Ok(Self { name: Some(name), issuer, provenance: None, predicate: Predicate::default(), root })
    }

    /// Returns the identity in a registry entry; `None` when it is incomplete.
    ///
    /// # Errors
    /// `Registry` when it is invalid, or names an instance of Sigstore whose root is not known.
    pub(crate) fn from_provenance(provenance: &Value, root: Option<TrustedRoot>) -> Result<Option<Self>> {
        let provenance = Provenance::read(provenance)?;
        let Some(issuer) = provenance.issuer() else { return Ok(None) };
        let root = match (root, provenance.instance()?) {
            (Some(root), _) => root,
            (None, SigstoreInstance::Public) => TrustedRoot::public_instance()?,
            (None, SigstoreInstance::GitHub) => TrustedRoot::embedded(SIGSTORE_GITHUB_TRUSTED_ROOT)?,
            (None, SigstoreInstance::Other(url)) => {
                let message = format!(
                    "the registry entry names the Sigstore instance `{url}`, whose trusted root is unknown"
                );
                return Err(Error::new(ErrorKind::Registry, message)
                    .hint("set `sigstore_trusted_root` to a file with the trusted root of that instance"));
            }
        };
        let predicate = provenance.predicate();
        Ok(Some(Self { name: None, issuer, provenance: Some(provenance), predicate, root }))
    }

    /// Verifies that a signature of this image was made by the expected identity.
    pub(super) fn check(&self, signature: &Signature, image: &Digest) -> std::result::Result<Signer, String> {
        let result = match signature {
            Signature::SimpleSigning { payload, annotations } => {
                let bundle = cosign::to_bundle(payload, annotations)?;
                let result = crypto::with_message(payload, || self.verify(payload.as_ref(), &bundle))?;
                statement::check_simple(payload, image)?;
                result
            }
            Signature::Bundle(bundle) => {
                let bundle = parse_bundle(bundle)?;
                let SignatureContent::DsseEnvelope(envelope) = &bundle.content else {
                    return Err("a bundle contains no statement".to_owned());
                };
                let digest = Sha256Hash::from_hex(image.hex()).map_err(|error| reason(&error))?;
                let result = crypto::with_message(&envelope.pae(), || self.verify(digest, &bundle))?;
                statement::check_statement(envelope.payload.as_bytes(), image, &self.predicate)?;
                result
            }
        };
        if let Some(provenance) = &self.provenance {
            provenance.check(result.certificate())?;
        }
        let identity = result.identity().map(ToString::to_string).unwrap_or_default();
        Ok(Signer::Identity { identity, issuer: self.issuer.clone() })
    }

    fn verify<'a>(
        &self,
        artifact: impl Into<sigstore_verify::types::Artifact<'a>>,
        bundle: &Bundle,
    ) -> std::result::Result<VerificationResult, String> {
        let root = &self.root.0;
        let mut policy = VerificationPolicy::any_identity().require_issuer(&self.issuer);
        if let Some(name) = &self.name {
            policy = policy.require_identity(name);
        }
        if root.tlogs.is_empty() {
            policy = policy.skip_tlog_unsafe();
        }
        if root.ctlogs.is_empty() {
            policy = policy.skip_sct();
        }
        let verifier = Verifier::new(root).map_err(|error| reason(&error))?;
        verifier.verify(artifact, bundle, &policy).map_err(|error| reason(&error))
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, &self.provenance) {
            (Some(name), _) => write!(f, "`{name}`, as attested by `{}`", self.issuer),
            (None, Some(provenance)) => write!(f, "{provenance}, as attested by `{}`", self.issuer),
            (None, None) => write!(f, "any identity, as attested by `{}`", self.issuer),
        }
    }
}
