//! Parses signed tokens (JWS, RFC 7515; JWT, RFC 7519), and defines the accepted algorithms.
//!
//! Tokens are verified only with the issuer's keys: keys in the header of a token (`jwk`, `jku`, `x5u`, `x5c`) are
//! ignored.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::signature::{
    self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::token_error::TokenError;

/// An accepted signature algorithm. Neither `none` nor an algorithm with a shared secret is accepted.
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
            // RFC 8037; RFC 9864 for the second name.
            "EdDSA" | "Ed25519" => Self::EdDsa,
            _ => return None,
        })
    }

    /// The parameters of an RSA algorithm.
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

    /// The verification algorithm and the curve of its key, for an algorithm other than RSA.
    pub(super) fn curve(self) -> Option<(&'static dyn signature::VerificationAlgorithm, &'static str)> {
        Some(match self {
            Self::Es256 => (&ECDSA_P256_SHA256_FIXED, "P-256"),
            Self::Es384 => (&ECDSA_P384_SHA384_FIXED, "P-384"),
            Self::EdDsa => (&ED25519, "Ed25519"),
            _ => return None,
        })
    }

    /// Whether a key's `alg` names this algorithm.
    pub(super) fn is_named(self, name: &str) -> bool {
        Self::parse(name) == Some(self)
    }
}

/// A token in the form of a signed one. Its content must not be trusted before its signature is verified.
#[derive(Debug)]
pub(super) struct SignedToken<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) key_id: Option<String>,
    /// The signed part.
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

/// Parses a token; `None` if it does not have the form of a JWT.
pub(super) fn read(token: &str) -> Option<Result<SignedToken<'_>, TokenError>> {
    let (message, signature) = token.rsplit_once('.')?;
    let (header, claims) = message.split_once('.')?;
    // Encrypted tokens have five parts.
    if claims.contains('.') {
        return None;
    }
    let decoded = decode(header);
    let begins = decoded.as_deref().and_then(|header| header.trim_ascii_start().first());
    // `eyJ` is the encoding of `{"`: also a badly encoded header is recognized as a JWT.
    if begins != Some(&b'{') && !header.starts_with("eyJ") {
        return None;
    }
    // The token is meant to be a JWT. If it is malformed, it is rejected and not passed to introspection, because
    // the provider might parse it differently.
    let header: Option<JoseHeader> = decoded.and_then(|header| serde_json::from_slice(&header).ok());
    Some(header.ok_or(TokenError::Malformed).and_then(|header| {
        let algorithm = Algorithm::parse(&header.alg).ok_or(TokenError::AlgorithmNotAllowed)?;
        // `crit` lists extensions that must be understood; none is implemented.
        if header.crit.is_some() || !header.typ.as_deref().is_none_or(is_access_token) {
            return Err(TokenError::Malformed);
        }
        let claims = decode(claims).ok_or(TokenError::Malformed)?;
        let signature = decode(signature).ok_or(TokenError::Malformed)?;
        Ok(SignedToken { algorithm, key_id: header.kid, message, signature, claims })
    }))
}

/// Whether a `typ` (RFC 7515 section 4.1.9) is that of an access token, and not of a logout token, for example.
fn is_access_token(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    matches!(name.strip_prefix("application/").unwrap_or(&name), "jwt" | "at+jwt")
}

impl SignedToken<'_> {
    /// The claims. To be called after the signature is verified.
    pub(super) fn claims(&self) -> Result<Map<String, Value>, TokenError> {
        serde_json::from_slice(&self.claims).map_err(|_| TokenError::Malformed)
    }
}

pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_URL_SAFE_NO_PAD.decode(text).ok()
}
