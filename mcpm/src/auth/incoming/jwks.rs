//! Parses JSON Web Key Sets (RFC 7517), and verifies signatures with their keys.

use ring::signature::{RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    jwt::{Algorithm, SignedToken, decode},
    token_error::TokenError,
};
use crate::{Error, ErrorKind, Result};

/// Maximum size of a key set in bytes.
pub(super) const MAX_JWKS_BYTES: usize = 512 << 10;
/// Maximum number of keys in a set.
const MAX_KEYS: usize = 100;
/// Maximum number of keys that are tried for a token without `kid`.
const MAX_CANDIDATE_KEYS: usize = 4;

/// A key set.
#[derive(Debug)]
pub(super) struct JwkSet(Vec<VerificationKey>);

#[derive(Debug)]
struct VerificationKey {
    id: Option<String>,
    /// The only algorithm that the key may be used with, if it names one (`alg`).
    algorithm: Option<String>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point, or the raw public key of Ed25519.
    Curve {
        name: &'static str,
        public: Vec<u8>,
    },
}

#[derive(Deserialize)]
struct RawJwkSet<'a> {
    #[serde(borrow)]
    keys: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawJwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl JwkSet {
    /// Parses a key set. Keys of unsupported kinds and for other purposes are skipped.
    ///
    /// # Errors
    /// `Upstream` if the document is not a key set, has too many keys, or has no usable key: such a document must
    /// not replace a usable one.
    pub(super) fn read(document: &[u8]) -> Result<Self> {
        let unusable =
            |why: String| Error::new(ErrorKind::Upstream, format!("the key set cannot be used: {why}"));
        let set: RawJwkSet<'_> = serde_json::from_slice(document)
            .map_err(|error| unusable("it is not a JSON Web Key Set".to_owned()).source(error))?;
        if set.keys.len() > MAX_KEYS {
            return Err(unusable(format!("it has {} keys, and the limit is {MAX_KEYS}", set.keys.len())));
        }
        let keys = set
            .keys
            .iter()
            .filter_map(|key| serde_json::from_str(key.get()).ok())
            .filter_map(VerificationKey::of);
        let keys: Vec<VerificationKey> = keys.collect();
        if keys.is_empty() {
            return Err(unusable("it has no usable key".to_owned()));
        }
        Ok(Self(keys))
    }

    /// Verifies the signature of a token.
    ///
    /// # Errors
    /// `UnknownKey` if the key is not in the set, `BadSignature` if the signature does not match.
    pub(super) fn verify(&self, token: &SignedToken<'_>) -> Result<(), TokenError> {
        let fits = |key: &&VerificationKey| key.fits(token.algorithm);
        let named = |key: &&VerificationKey| token.key_id.is_none() || key.id == token.key_id;
        let mut candidates = self.0.iter().filter(named).filter(fits).take(MAX_CANDIDATE_KEYS).peekable();
        if candidates.peek().is_none() {
            // A key with this id exists, but for another algorithm: fetching the set again would not help.
            let other_kind = token.key_id.is_some() && self.0.iter().any(|key| named(&key));
            return Err(if other_kind { TokenError::AlgorithmNotAllowed } else { TokenError::UnknownKey });
        }
        let signed = candidates.any(|key| key.verify(token));
        match (signed, &token.key_id) {
            (true, _) => Ok(()),
            (false, Some(_)) => Err(TokenError::BadSignature),
            // The token may be signed with a key that is not in this set yet.
            (false, None) => Err(TokenError::UnknownKey),
        }
    }
}

impl VerificationKey {
    fn of(written: RawJwk) -> Option<Self> {
        let for_signatures = written.purpose.as_deref().is_none_or(|purpose| purpose == "sig")
            && written.key_ops.is_none_or(|ops| ops.iter().any(|op| op == "verify"));
        if !for_signatures {
            return None;
        }
        let part = |text: Option<String>| decode(&text?);
        let material = match (written.kty.as_str(), written.crv.as_deref()) {
            ("RSA", _) => {
                let stripped = |bytes: Vec<u8>| bytes.into_iter().skip_while(|byte| *byte == 0).collect();
                Material::Rsa { modulus: stripped(part(written.n)?), exponent: stripped(part(written.e)?) }
            }
            ("EC", Some("P-256")) => {
                Material::Curve { name: "P-256", public: point(part(written.x)?, part(written.y)?, 32)? }
            }
            ("EC", Some("P-384")) => {
                Material::Curve { name: "P-384", public: point(part(written.x)?, part(written.y)?, 48)? }
            }
            ("OKP", Some("Ed25519")) => Material::Curve { name: "Ed25519", public: part(written.x)? },
            _ => return None,
        };
        Some(Self { id: written.kid, algorithm: written.alg, material })
    }

    fn fits(&self, algorithm: Algorithm) -> bool {
        let of_kind = match &self.material {
            Material::Rsa { .. } => algorithm.rsa().is_some(),
            Material::Curve { name, .. } => algorithm.curve().is_some_and(|(_, curve)| curve == *name),
        };
        of_kind && self.algorithm.as_deref().is_none_or(|name| algorithm.is_named(name))
    }

    fn verify(&self, token: &SignedToken<'_>) -> bool {
        let (message, signature) = (token.message.as_bytes(), &token.signature);
        match &self.material {
            Material::Rsa { modulus, exponent } => token.algorithm.rsa().is_some_and(|parameters| {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(parameters, message, signature).is_ok()
            }),
            Material::Curve { public, .. } => token.algorithm.curve().is_some_and(|(algorithm, _)| {
                UnparsedPublicKey::new(algorithm, public).verify(message, signature).is_ok()
            }),
        }
    }
}

/// Builds an uncompressed point (SEC 1 section 2.3.3).
fn point(x: Vec<u8>, y: Vec<u8>, size: usize) -> Option<Vec<u8>> {
    (x.len() == size && y.len() == size).then(|| [vec![4], x, y].concat())
}
