//! What a token says, once it is known to be the issuer's: whom it stands for, whom it is meant for, and when.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

use super::{Principal, refusal::Refusal};
use crate::options::Secret;

/// How far clocks may be apart.
pub(super) const LEEWAY: Duration = Duration::from_secs(60);
/// How long a token holds whose end nobody tells.
const VOUCHED: Duration = Duration::from_secs(60);

/// Makes a principal of what a token says, or what the provider says of it: then `issuer_if_none` stands for an
/// issuer that it leaves out. The audience and the scopes are for others to check.
pub(super) fn principal(
    claims: Map<String, Value>,
    token: &str,
    expected_issuer: Option<&str>,
    issuer_if_none: Option<&str>,
    now: SystemTime,
) -> Result<Principal, Refusal> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str).map(str::to_owned);
    let issuer = match (claims.get("iss"), expected_issuer, issuer_if_none) {
        (Some(Value::String(issuer)), Some(expected), _) if issuer == expected => issuer.clone(),
        (Some(Value::String(issuer)), None, _) => issuer.clone(),
        (None, _, Some(stands_in)) => stands_in.to_owned(),
        _ => return Err(Refusal::Issuer),
    };
    let asked = issuer_if_none.is_some();
    // Who was asked vouches for now.
    let vouched = asked.then(|| now + VOUCHED);
    let expires = time(&claims, "exp")?.or(vouched).ok_or(Refusal::Expired)?;
    if now >= expires + LEEWAY {
        return Err(Refusal::Expired);
    }
    for name in ["nbf", "iat"] {
        if time(&claims, name)?.is_some_and(|begins| begins > now + LEEWAY) {
            return Err(Refusal::NotYet);
        }
    }
    let client_id = text("client_id").or_else(|| text("azp")).filter(|id| !id.is_empty());
    let subject = text("sub").filter(|subject| !subject.is_empty());
    let scopes = match claims.get("scope").or_else(|| claims.get("scp")) {
        Some(Value::String(list)) => {
            list.split(' ').filter(|scope| !scope.is_empty()).map(str::to_owned).collect()
        }
        Some(list) => texts(list),
        None => Vec::new(),
    };
    Ok(Principal {
        issuer,
        // A client that acts for itself may be all there is (RFC 7662 section 2.2).
        subject: subject.or_else(|| client_id.clone().filter(|_| asked)).ok_or(Refusal::Subject)?,
        audience: claims.get("aud").map(texts).unwrap_or_default(),
        client_id,
        scopes,
        expires,
        token: Secret::from(token),
        claims,
    })
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
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<SystemTime>, Refusal> {
    let Some(value) = claims.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    let seconds = value.as_f64().filter(|seconds| *seconds >= 0.0).ok_or(Refusal::Malformed)?;
    // A time that no clock shows is as good as never.
    let since = Duration::try_from_secs_f64(seconds.min(1e11)).map_err(|_| Refusal::Malformed)?;
    Ok(Some(UNIX_EPOCH + since))
}
