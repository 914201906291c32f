//! The form of a signed token (RFC 7515, RFC 7519), and the algorithms that are taken.
//!
//! The keys are the issuer's alone: what a token says of keys of its own (`jwk`, `jku`, `x5u`, `x5c`) is not read.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::token_error::TokenError;

/// How a token may be signed. There is no `none`, and no secret that the issuer would share with us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

impl Algorithm {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "RS384" => Self::Rs384,
            "RS512" => Self::Rs512,
            "PS256" => Self::Ps256,
            "PS384" => Self::Ps384,
            "PS512" => Self::Ps512,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            // RFC 8037, and RFC 9864 for the second name.
            "EdDSA" | "Ed25519" => Self::EdDsa,
            _ => return None,
        })
    }

    /// What RSA is told, for one of its algorithms.
    pub(super) fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Self::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
            Self::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
            Self::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
            Self::Ps256 => &RSA_PSS_2048_8192_SHA256,
            Self::Ps384 => &RSA_PSS_2048_8192_SHA384,
            Self::Ps512 => &RSA_PSS_2048_8192_SHA512,
            Self::Es256 | Self::Es384 | Self::EdDsa => return None,
        })
    }

    /// What checks a signature of another one, and the curve of its key.
    pub(super) fn curve(self) -> Option<(&'static dyn signature::VerificationAlgorithm, &'static str)> {
        Some(match self {
            Self::Es256 => (&ECDSA_P256_SHA256_FIXED, "P-256"),
            Self::Es384 => (&ECDSA_P384_SHA384_FIXED, "P-384"),
            Self::EdDsa => (&ED25519, "Ed25519"),
            _ => return None,
        })
    }

    /// Whether a key that names this algorithm is for it.
    pub(super) fn is_named(self, name: &str) -> bool {
        Self::parse(name) == Some(self)
    }
}

/// A token that has the form of a signed one. Nothing of it is to be believed before its signature was checked.
#[derive(Debug)]
pub(super) struct SignedToken<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) key_id: Option<String>,
    /// What is signed.
    pub(super) message: &'a str,
    pub(super) signature: Vec<u8>,
    claims: Vec<u8>,
}

#[derive(Deserialize)]
struct JoseHeader {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<Value>,
}

/// Reads a token; `None` for one that has another form.
pub(super) fn read(token: &str) -> Option<Result<SignedToken<'_>, TokenError>> {
    let (message, signature) = token.rsplit_once('.')?;
    let (header, claims) = message.split_once('.')?;
    // What is encrypted has five parts.
    if claims.contains('.') {
        return None;
    }
    let decoded = decode(header);
    let begins = decoded.as_deref().and_then(|header| header.trim_ascii_start().first());
    // That is how an object with a field begins, also one that is not well encoded.
    if begins != Some(&b'{') && !header.starts_with("eyJ") {
        return None;
    }
    // It is meant to be a signed token. One that we read otherwise than others is not left to them.
    let header: Option<JoseHeader> = decoded.and_then(|header| serde_json::from_slice(&header).ok());
    Some(header.ok_or(TokenError::Malformed).and_then(|header| {
        let algorithm = Algorithm::parse(&header.alg).ok_or(TokenError::AlgorithmNotAllowed)?;
        // What must be understood is not: there is nothing that we do.
        if header.crit.is_some() || !header.typ.as_deref().is_none_or(is_access_token) {
            return Err(TokenError::Malformed);
        }
        let claims = decode(claims).ok_or(TokenError::Malformed)?;
        let signature = decode(signature).ok_or(TokenError::Malformed)?;
        Ok(SignedToken { algorithm, key_id: header.kid, message, signature, claims })
    }))
}

/// Whether a type (RFC 7515 section 4.1.9) is that of a token that lets its bearer in, and not of a logout, say.
fn is_access_token(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    matches!(name.strip_prefix("application/").unwrap_or(&name), "jwt" | "at+jwt")
}

impl SignedToken<'_> {
    /// What it says, once its signature was checked.
    pub(super) fn claims(&self) -> Result<Map<String, Value>, TokenError> {
        serde_json::from_slice(&self.claims).map_err(|_| TokenError::Malformed)
    }
}

pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}
