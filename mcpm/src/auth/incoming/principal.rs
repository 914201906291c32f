//! Who a request comes from.

use std::time::SystemTime;

use serde_json::{Map, Value};

use super::claims::LEEWAY;
use crate::options::Secret;

/// Who a request comes from, as the token says that was checked.
///
/// It is in the extensions of a request, as `Arc<Principal>`, when incoming authentication is on, and absent otherwise.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Principal {
    /// Who issued the token: `iss`. Introspection may leave it out; then it is the issuer that is configured, else
    /// the URL of the introspection endpoint.
    pub issuer: String,
    /// Whom it stands for: `sub`.
    pub subject: String,
    /// Whom it is meant for: `aud`.
    pub audience: Vec<String>,
    /// The client that it was issued to: `client_id`, else `azp`.
    pub client_id: Option<String>,
    /// What it allows: `scope`, else `scp`.
    pub scopes: Vec<String>,
    /// Everything that was said of it, these included.
    pub claims: Map<String, Value>,
    /// When it expires: `exp`.
    pub expires: SystemTime,
    /// The token itself.
    pub token: Secret,
}

impl Principal {
    /// When nothing more is done for who has come with the token, if it says when it expires.
    pub(crate) fn expires_with_leeway(&self) -> Option<SystemTime> {
        let says = self.claims.get("exp").is_some_and(|end| !end.is_null());
        if says { self.expires.checked_add(LEEWAY) } else { None }
    }
}
