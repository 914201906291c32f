//! Verifies signatures that were made with a key pair.
//!
//! Only the signature and the signed statement are verified: no certificate, time or entry in a transparency log is
//! required.

use std::{fmt, fs, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sigstore_verify::{
    crypto::{KeyAlgorithm, SigningScheme, verify_signature},
    types::{Bundle, DerPublicKey, SignatureBytes, SignatureContent},
};

use super::{
    crypto,
    find::Signature,
    reason::reason,
    signer::Signer,
    statement::{self, Predicate},
};
use crate::{Error, ErrorKind, Result, image::Digest};

/// The annotation with the signature.
pub(super) const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";

/// A public key.
#[derive(Debug, Clone)]
pub(crate) struct PublicKey {
    key: DerPublicKey,
    schemes: Vec<SigningScheme>,
}

impl PublicKey {
    /// Reads a PEM file.
    ///
    /// # Errors
    /// `NotFound` and `Io` when it cannot be read, `InvalidOption` for an invalid or unsupported key.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(|error| {
            let kind = match error.kind() {
                std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                _ => ErrorKind::Io,
            };
            Error::new(kind, format!("cannot read the public key `{}`", path.display())).source(error)
        })?;
        Self::parse(&text).map_err(|why| {
            let message = format!("`{}` is not a public key that can verify images", path.display());
            Error::new(ErrorKind::InvalidOption, message).source(why)
        })
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        crypto::install_crypto_provider();
        let key = DerPublicKey::from_pem(text.trim()).map_err(|error| reason(&error))?;
        let schemes = match KeyAlgorithm::from_spki(&key).map_err(|error| reason(&error))? {
            KeyAlgorithm::EcdsaP256 => vec![SigningScheme::EcdsaP256Sha256],
            // Signers use different hashes with this key.
            KeyAlgorithm::EcdsaP384 => vec![SigningScheme::EcdsaP384Sha384, SigningScheme::EcdsaP384Sha256],
            KeyAlgorithm::Ed25519 => vec![SigningScheme::Ed25519],
            KeyAlgorithm::Rsa => vec![SigningScheme::RsaPkcs1Sha256],
            other => return Err(format!("the key type {other:?} is not supported")),
        };
        Ok(Self { key, schemes })
    }

    /// Verifies that a signature of this image was made by the key.
    pub(super) fn check(&self, signature: &Signature, image: &Digest) -> std::result::Result<Signer, String> {
        match signature {
            Signature::SimpleSigning { payload, annotations } => {
                let signature = annotations.get(SIGNATURE_ANNOTATION).map(|text| STANDARD.decode(text));
                let signature = signature.and_then(std::result::Result::ok);
                let signature = signature.ok_or("a signature is missing, or is not valid Base64")?;
                self.verify_signature(payload, &SignatureBytes::new(signature))?;
                statement::check_simple(payload, image)?;
            }
            Signature::Bundle(bundle) => {
                let bundle = parse_bundle(bundle)?;
                let SignatureContent::DsseEnvelope(envelope) = &bundle.content else {
                    return Err("a bundle contains no statement".to_owned());
                };
                if envelope.payload_type != statement::IN_TOTO {
                    return Err("a bundle contains no in-toto statement".to_owned());
                }
                self.verify_signature(&envelope.pae(), &envelope.signature.sig)?;
                statement::check_statement(envelope.payload.as_bytes(), image, &Predicate::default())?;
            }
        }
        Ok(Signer::Key { fingerprint: self.fingerprint() })
    }

    fn verify_signature(
        &self,
        message: &[u8],
        signature: &SignatureBytes,
    ) -> std::result::Result<(), String> {
        let made = |scheme: &SigningScheme| verify_signature(&self.key, message, signature, *scheme).is_ok();
        if self.schemes.iter().any(made) {
            return Ok(());
        }
        Err("a signature was made by another key, or the signed content was changed".to_owned())
    }

    fn fingerprint(&self) -> String {
        Digest::sha256(self.key.as_bytes()).hex().to_owned()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the key SHA256:{}", self.fingerprint())
    }
}

/// Parses a bundle.
pub(super) fn parse_bundle(bytes: &[u8]) -> std::result::Result<Bundle, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "a bundle is not valid UTF-8".to_owned())?;
    Bundle::from_json(text).map_err(|error| format!("a bundle cannot be parsed: {}", reason(&error)))
}
