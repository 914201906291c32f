//! Describes the authenticated caller of a request.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

use crate::options::Secret;

/// Leeway for clock skew.
pub(super) const LEEWAY: Duration = Duration::from_secs(60);

/// The authenticated caller of a request, as its verified token describes it.
///
/// It is in the extensions of a request, as `Arc<Principal>`, if incoming authentication is on, and absent
/// otherwise.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Principal {
    /// The issuer of the token: `iss`. If an introspection response has none, the configured issuer, or else the
    /// URL of the introspection endpoint.
    pub issuer: String,
    /// The subject of the token: `sub`.
    pub subject: String,
    /// The audiences of the token: `aud`.
    pub audience: Vec<String>,
    /// The client that the token was issued to: `client_id`, or else `azp`.
    pub client_id: Option<String>,
    /// The granted scopes: `scope`, or else `scp`.
    pub scopes: Vec<String>,
    /// All claims, including those above.
    pub claims: Map<String, Value>,
    /// When the token expires: `exp`.
    pub expires: SystemTime,
    /// The token itself; redacted in debug output.
    pub token: Secret,
}

impl Principal {
    /// When work for this caller must end: the `exp` of the token, if it has one, plus the leeway for clock skew.
    pub(crate) fn expires_with_leeway(&self) -> Option<SystemTime> {
        let has_expiry = self.claims.get("exp").is_some_and(|end| !end.is_null());
        if has_expiry { self.expires.checked_add(LEEWAY) } else { None }
    }
}
