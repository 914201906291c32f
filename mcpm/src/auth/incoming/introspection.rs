//! Asks the identity provider about a token (RFC 7662), and keeps what it says for a short while.
//!
//! A word of the provider holds for half a minute, and never beyond the token's own end.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::{Map, Value};
use tokio::time::Instant;
use url::{Url, form_urlencoded};

use super::{Principal, claims, refusal::Refusal};
use crate::{
    Error, ErrorKind, Result,
    auth::http::{Ask, Http},
    options::Secret,
};

/// How long the word of the provider holds.
const HOLDS: Duration = Duration::from_secs(30);
/// Most tokens of which it is kept.
const MOST: usize = 10_000;
/// Largest answer in bytes.
const LARGEST: usize = 64 << 10;

/// What the provider says of tokens, by their SHA-256.
#[derive(Default)]
pub(super) struct Introspection {
    said: Mutex<HashMap<[u8; 32], (Said, Instant)>>,
}

type Said = std::result::Result<Arc<Principal>, Refusal>;

impl std::fmt::Debug for Introspection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Introspection(..)")
    }
}

/// Who asks, and where.
#[derive(Debug)]
pub(super) struct Question<'a> {
    pub(super) http: &'a Http,
    pub(super) endpoint: &'a Url,
    pub(super) client_id: &'a str,
    pub(super) client_secret: Option<&'a Secret>,
    /// Authorises the request where there is no client secret.
    pub(super) bearer: Option<HeaderValue>,
    pub(super) issuer: Option<&'a str>,
}

impl Introspection {
    /// Says whom a token stands for, as the provider says or said a moment ago.
    pub(super) async fn ask(&self, token: &str, question: Question<'_>) -> Said {
        let key = digest(token);
        if let Some(said) = self.kept(&key) {
            return said;
        }
        let said = match question.put(token).await {
            Ok(Some(claims)) => {
                let stands_in = question.issuer.unwrap_or(question.endpoint.as_str());
                let now = SystemTime::now();
                claims::principal(claims, token, question.issuer, Some(stands_in), now).map(Arc::new)
            }
            Ok(None) => Err(Refusal::Inactive),
            Err(error) => {
                tracing::warn!(%error, "the identity provider cannot be asked about a token");
                return Err(Refusal::Unavailable);
            }
        };
        self.keep(key, said.clone());
        said
    }

    fn kept(&self, key: &[u8; 32]) -> Option<Said> {
        let said = self.lock();
        let (said, _) = said.get(key).filter(|(_, since)| since.elapsed() < HOLDS)?;
        match said {
            // Never beyond its end, whatever the clocks are granted.
            Ok(principal) if SystemTime::now() >= principal.expires => None,
            said => Some(said.clone()),
        }
    }

    fn keep(&self, key: [u8; 32], word: Said) {
        let mut said = self.lock();
        if said.len() >= MOST {
            said.retain(|_, (_, since)| since.elapsed() < HOLDS);
        }
        // Tokens that nobody has issued must not drive out those that are used.
        if said.len() < MOST || word.is_ok() {
            if said.len() >= MOST {
                said.retain(|_, (word, _)| word.is_ok());
            }
            if said.len() >= MOST {
                said.clear();
            }
            said.insert(key, (word, Instant::now()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<[u8; 32], (Said, Instant)>> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Question<'_> {
    /// What the provider says of a token; `None` when it is not active.
    async fn put(&self, token: &str) -> Result<Option<Map<String, Value>>> {
        let refused = |why: String| {
            Error::new(ErrorKind::Upstream, format!("the introspection endpoint gave no answer: {why}"))
        };
        let ask = Ask {
            method: Method::POST,
            url: self.endpoint.clone(),
            headers: self.headers()?,
            body: self.form(token).into(),
        };
        let answer = self.http.send(ask, LARGEST).await?;
        if answer.status != StatusCode::OK {
            return Err(refused(format!("it says {}", answer.status)));
        }
        let mut claims: Map<String, Value> = serde_json::from_slice(&answer.body)
            // What is wrong with it is not repeated: it may be the token.
            .map_err(|error| refused(format!("it cannot be read ({:?})", error.classify())))?;
        match claims.remove("active") {
            Some(Value::Bool(true)) => {
                // To leave a thing out and to say `null` is the same.
                claims.retain(|_, value| !value.is_null());
                Ok(Some(claims))
            }
            Some(Value::Bool(false)) => Ok(None),
            _ => Err(refused("it does not say whether the token is active".to_owned())),
        }
    }

    /// The form that is posted; here, since its maker cannot be held while one waits.
    fn form(&self, token: &str) -> String {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("token", token).append_pair("token_type_hint", "access_token");
        if self.client_secret.is_none() {
            form.append_pair("client_id", self.client_id);
        }
        form.finish()
    }

    fn headers(&self) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, form);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let credentials = match self.client_secret {
            Some(secret) => {
                // Each part is encoded as in a form first (RFC 6749 section 2.3.1).
                let encoded =
                    |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", encoded(self.client_id), encoded(secret.expose()));
                let value = HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(pair)));
                Some(value.map_err(|_| Error::new(ErrorKind::Internal, "the client secret cannot be sent"))?)
            }
            None => self.bearer.clone(),
        };
        if let Some(mut credentials) = credentials {
            credentials.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, credentials);
        }
        Ok(headers)
    }
}

fn digest(token: &str) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}
