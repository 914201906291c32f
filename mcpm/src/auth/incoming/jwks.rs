//! The keys of an issuer (RFC 7517), and what is signed with them.

use ring::signature::{RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    jwt::{Algorithm, SignedToken, decode},
    token_error::TokenError,
};
use crate::{Error, ErrorKind, Result};

/// Largest set of keys in bytes.
pub(super) const MAX_JWKS_BYTES: usize = 512 << 10;
/// Most keys in a set.
const MAX_KEYS: usize = 100;
/// Most keys that are tried for a token that names none.
const MAX_CANDIDATE_KEYS: usize = 4;

/// A set of keys.
#[derive(Debug)]
pub(super) struct JwkSet(Vec<VerificationKey>);

#[derive(Debug)]
struct VerificationKey {
    id: Option<String>,
    /// The one algorithm it is for, if it says so.
    algorithm: Option<String>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// A point or a string of bytes, as the curve has it.
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
    /// Reads a set. Keys of other kinds, and for other purposes, are left out.
    ///
    /// # Errors
    /// `Upstream` for what is no set of keys, too large a one, or one that nothing can be checked with: a set that was
    /// good must not make way for it.
    pub(super) fn read(document: &[u8]) -> Result<Self> {
        let refused =
            |why: String| Error::new(ErrorKind::Upstream, format!("the set of keys is not taken: {why}"));
        let set: RawJwkSet<'_> = serde_json::from_slice(document)
            .map_err(|error| refused("it cannot be read".to_owned()).source(error))?;
        if set.keys.len() > MAX_KEYS {
            return Err(refused(format!("it has {} keys, and {MAX_KEYS} are the most", set.keys.len())));
        }
        let keys = set
            .keys
            .iter()
            .filter_map(|key| serde_json::from_str(key.get()).ok())
            .filter_map(VerificationKey::of);
        let keys: Vec<VerificationKey> = keys.collect();
        if keys.is_empty() {
            return Err(refused("none of its keys can be used".to_owned()));
        }
        Ok(Self(keys))
    }

    /// Checks a signature.
    ///
    /// # Errors
    /// `UnknownKey` when the key is not in the set, `Signature` when another one has signed.
    pub(super) fn verify(&self, token: &SignedToken<'_>) -> Result<(), TokenError> {
        let fits = |key: &&VerificationKey| key.fits(token.algorithm);
        let named = |key: &&VerificationKey| token.key_id.is_none() || key.id == token.key_id;
        let mut candidates = self.0.iter().filter(named).filter(fits).take(MAX_CANDIDATE_KEYS).peekable();
        if candidates.peek().is_none() {
            // A key of that name for something else is no key that might come later.
            let other_kind = token.key_id.is_some() && self.0.iter().any(|key| named(&key));
            return Err(if other_kind { TokenError::AlgorithmNotAllowed } else { TokenError::UnknownKey });
        }
        let signed = candidates.any(|key| key.verify(token));
        match (signed, &token.key_id) {
            (true, _) => Ok(()),
            (false, Some(_)) => Err(TokenError::BadSignature),
            // It may be signed with one that is not here yet.
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

/// An uncompressed point (SEC 1 section 2.3.3).
fn point(x: Vec<u8>, y: Vec<u8>, size: usize) -> Option<Vec<u8>> {
    (x.len() == size && y.len() == size).then(|| [vec![4], x, y].concat())
}
