//! What a token says, once it is known to be the issuer's: whom it stands for, whom it is meant for, and when.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

use super::{Principal, token_error::TokenError};
use crate::options::Secret;

/// How far clocks may be apart.
pub(super) const LEEWAY: Duration = Duration::from_secs(60);
/// How long a token holds whose end nobody tells.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(60);

/// What is expected of a token.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ExpectedClaims<'a> {
    /// Who has issued it.
    pub(super) issuer: Option<&'a str>,
    /// Whether it may be an ID token.
    pub(super) id_tokens: bool,
}

/// Makes a principal of what a token says, or what the provider says of it: then `issuer_if_none` stands for an
/// issuer that it leaves out. The audience and the scopes are for others to check.
pub(super) fn principal_from_claims(
    claims: Map<String, Value>,
    token: &str,
    expected: ExpectedClaims<'_>,
    issuer_if_none: Option<&str>,
    now: SystemTime,
) -> Result<Principal, TokenError> {
    let asked = issuer_if_none.is_some();
    check_token_type(&claims, asked, expected.id_tokens)?;
    let text = |name: &str| {
        let text = claims.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.map(str::to_owned)
    };
    let issuer = match (claims.get("iss"), expected.issuer, issuer_if_none) {
        (Some(Value::String(issuer)), Some(expected), _) if issuer == expected => issuer.clone(),
        (Some(Value::String(issuer)), None, _) => issuer.clone(),
        (None, _, Some(stands_in)) => stands_in.to_owned(),
        (said, _, _) => return Err(TokenError::WrongIssuer(said.and_then(Value::as_str).map(str::to_owned))),
    };
    // Who was asked vouches for now.
    let vouched = asked.then(|| now + DEFAULT_LIFETIME);
    let expires = time(&claims, "exp")?.or(vouched).ok_or(TokenError::Expired(None))?;
    if now >= expires + LEEWAY {
        return Err(TokenError::Expired(Some(expires)));
    }
    for name in ["nbf", "iat"] {
        if let Some(begins) = time(&claims, name)?.filter(|begins| *begins > now + LEEWAY) {
            return Err(TokenError::NotYetValid(begins));
        }
    }
    let client_id = text("client_id").or_else(|| text("azp"));
    // A provider need not say `sub` (RFC 7662 section 2.2). Then it is the user, or a client that acts for itself:
    // never the client for which all its users have tokens.
    let stands_in = || text("username").or_else(|| client_id.clone()).filter(|_| asked);
    let subject = text("sub").or_else(stands_in).ok_or(TokenError::MissingSubject)?;
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

/// Refuses what the issuer has signed for another purpose than to let its bearer in.
fn check_token_type(claims: &Map<String, Value>, asked: bool, id_tokens: bool) -> Result<(), TokenError> {
    let has = |name: &str| claims.get(name).is_some_and(|value| !value.is_null());
    let says = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    let (kind, purpose) = (says("typ"), says("token_use"));
    // Some put the nonce of a login into its access token too, and say that it is one.
    let of_login = has("at_hash") || has("c_hash") || (has("nonce") && kind != "bearer");
    let is_id = of_login || kind == "id" || matches!(purpose.as_str(), "id" | "id_token");
    let other_kind = matches!(kind.as_str(), "refresh" | "offline" | "logout")
        || matches!(purpose.as_str(), "refresh" | "refresh_token");
    if (is_id && !id_tokens) || other_kind || has("events") {
        return Err(TokenError::NotAnAccessToken);
    }
    // A bearer cannot show the key that it is bound to (RFC 7800).
    if has("cnf") {
        return Err(TokenError::SenderConstrained);
    }
    match says("token_type").as_str() {
        _ if !asked => Ok(()),
        "" | "bearer" | "access" | "access_token" => Ok(()),
        "dpop" | "pop" => Err(TokenError::SenderConstrained),
        _ => Err(TokenError::NotAnAccessToken),
    }
}

/// One text, or those of a list.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(list) => list.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    }
}

/// A time in seconds since 1970, with or without a fraction (RFC 7519 section 2).
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<SystemTime>, TokenError> {
    let Some(value) = claims.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| *seconds >= 0.0).ok_or(TokenError::Malformed)?;
    // A time that no clock shows is as good as never.
    let since = Duration::try_from_secs_f64(seconds.min(1e11)).map_err(|_| TokenError::Malformed)?;
    Ok(Some(UNIX_EPOCH + since))
}
