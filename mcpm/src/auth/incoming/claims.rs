//! Validates the claims of an authentic token, and creates the principal that they describe.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

use super::{
    principal::{LEEWAY, Principal},
    token_error::TokenError,
};
use crate::options::Secret;

/// Lifetime of an introspected token without `exp`.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(60);

/// The expected claims.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ExpectedClaims<'a> {
    /// The expected `iss`.
    pub(super) issuer: Option<&'a str>,
    /// Whether ID tokens are accepted.
    pub(super) id_tokens: bool,
}

/// Creates a principal from claims or an introspection response. For the latter, `issuer_if_none` replaces a
/// missing `iss`. Audience and scopes are not checked here.
pub(super) fn principal_from_claims(
    claims: Map<String, Value>,
    token: &str,
    expected: ExpectedClaims<'_>,
    issuer_if_none: Option<&str>,
    now: SystemTime,
) -> Result<Principal, TokenError> {
    let introspected = issuer_if_none.is_some();
    check_token_type(&claims, introspected, expected.id_tokens)?;
    let text = |name: &str| {
        let text = claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.map(str::to_owned)
    };
    let issuer = match (claims.get("iss"), expected.issuer, issuer_if_none) {
        (Some(Value::String(issuer)), Some(expected), _) if issuer == expected => issuer.clone(),
        (Some(Value::String(issuer)), None, _) => issuer.clone(),
        (None, _, Some(stands_in)) => stands_in.to_owned(),
        (issuer, _, _) => {
            return Err(TokenError::WrongIssuer(issuer.and_then(Value::as_str).map(str::to_owned)));
        }
    };
    // The provider has confirmed that an introspected token is valid now.
    let introspection_expiry = introspected.then(|| now + DEFAULT_LIFETIME);
    let expires = time(&claims, "exp")?.or(introspection_expiry).ok_or(TokenError::Expired(None))?;
    if now >= expires + LEEWAY {
        return Err(TokenError::Expired(Some(expires)));
    }
    for name in ["nbf", "iat"] {
        if let Some(begins) = time(&claims, name)?.filter(|begins| *begins > now + LEEWAY) {
            return Err(TokenError::NotYetValid(begins));
        }
    }
    let client_id = text("client_id").or_else(|| text("azp"));
    // `sub` is optional in introspection responses (RFC 7662 section 2.2). Without it, `username` identifies a
    // user; `client_id` identifies a client that acts for itself, but must not be used for its users.
    let subject_fallback = || text("username").or_else(|| client_id.clone()).filter(|_| introspected);
    let subject = text("sub").or_else(subject_fallback).ok_or(TokenError::MissingSubject)?;
    let scopes = match claims.get("scope").or_else(|| claims.get("scp")) {
        Some(Value::String(list)) => {
            list.split(' ').filter(|scope| !scope.is_empty()).map(str::to_owned).collect()
        }
        Some(list) => texts(list),
        None => Vec::new(),
    };
    Ok(Principal {
        issuer,
        subject,
        audience: claims.get("aud").map(texts).unwrap_or_default(),
        client_id,
        scopes,
        expires,
        token: Secret::from(token),
        claims,
    })
}

/// Rejects tokens that the issuer signed for another purpose, such as ID tokens and logout tokens.
fn check_token_type(
    claims: &Map<String, Value>,
    introspected: bool,
    id_tokens: bool,
) -> Result<(), TokenError> {
    let has = |name: &str| claims.get(name).is_some_and(|value| !value.is_null());
    let claim =
        |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    let (kind, purpose) = (claim("typ"), claim("token_use"));
    // Some providers copy the `nonce` into access tokens, which they mark with `typ: Bearer`.
    let of_login = has("at_hash") || has("c_hash") || (has("nonce") && kind != "bearer");
    let is_id = of_login || kind == "id" || matches!(purpose.as_str(), "id" | "id_token");
    let other_kind = matches!(kind.as_str(), "refresh" | "offline" | "logout")
        || matches!(purpose.as_str(), "refresh" | "refresh_token");
    if (is_id && !id_tokens) || other_kind || has("events") {
        return Err(TokenError::NotAnAccessToken);
    }
    // The token is bound to a key (RFC 7800), and the proxy cannot verify that the caller possesses it.
    if has("cnf") {
        return Err(TokenError::SenderConstrained);
    }
    match claim("token_type").as_str() {
        _ if !introspected => Ok(()),
        "" | "bearer" | "access" | "access_token" => Ok(()),
        "dpop" | "pop" => Err(TokenError::SenderConstrained),
        _ => Err(TokenError::NotAnAccessToken),
    }
}

/// A string, or the strings of an array.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) => list.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    }
}

/// A `NumericDate` claim: seconds since 1970, possibly with a fraction (RFC 7519 section 2).
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<SystemTime>, TokenError> {
    let Some(value) = claims.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| *seconds >= 0.0).ok_or(TokenError::Malformed)?;
    // Larger values are clamped, because the clock cannot represent them.
    let since = Duration::try_from_secs_f64(seconds.min(1e11)).map_err(|_| TokenError::Malformed)?;
    Ok(Some(UNIX_EPOCH + since))
}
