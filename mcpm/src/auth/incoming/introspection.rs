//! Asks the identity provider about a token (RFC 7662), and keeps what it says for a short while.
//!
//! A word of the provider holds for half a minute, and never beyond the token's own end. However many callers
//! there are, it is asked about a token by one of them at a time, and about few tokens at once.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde_json::{Map, Value};
use url::{Url, form_urlencoded};

use super::{
    Principal,
    claims::{self, ExpectedClaims},
    provider_client::ProviderClient,
    token_error::TokenError,
};
use crate::{
    Error, ErrorKind, Result,
    auth::{
        guarded_client::{ProviderRequest, basic},
        token_cache::{CachedToken, TokenCache, TokenDigest},
    },
    options::Secret,
    rate_limit::LogLimit,
};

/// A token that no provider has issued, to find out at the start whether introspection works.
const NO_TOKEN: &str = "mcpm-start-check";
/// How long the word of the provider holds.
const RESULT_TTL: Duration = Duration::from_secs(30);
/// How long it holds that there was no answer.
const FAILURE_TTL: Duration = Duration::from_secs(1);
/// Largest answer in bytes.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// What the provider says of tokens. Boxed, since it is moved about before it is used.
#[derive(Debug, Default)]
pub(super) struct Introspection {
    answers: Box<TokenCache<IntrospectionResult>>,
    last: Last,
}

/// How the provider was last asked.
#[derive(Debug, Default)]
struct Last {
    has_answered: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Last {
    fn note<T>(&self, answered: &Result<T>) {
        *self.failure() = answered.as_ref().err().map(ToString::to_string);
        self.has_answered.fetch_or(answered.is_ok(), Ordering::Relaxed);
    }

    fn failure(&self) -> MutexGuard<'_, Option<String>> {
        // No code panics while it holds the lock.
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type IntrospectionResult = std::result::Result<Arc<Principal>, TokenError>;

/// Who asks, and where.
#[derive(Debug)]
pub(super) struct IntrospectionRequest<'a> {
    pub(super) provider: &'a ProviderClient,
    pub(super) log: &'a LogLimit,
    pub(super) endpoint: Url,
    pub(super) client_id: &'a str,
    pub(super) client_secret: Option<&'a Secret>,
    pub(super) issuer: Option<&'a str>,
    /// Whether ID tokens are taken.
    pub(super) id_tokens: bool,
}

impl Introspection {
    /// Says whom a token stands for, as the provider says or said a moment ago.
    pub(super) async fn introspect(
        &self,
        token: &str,
        key: TokenDigest,
        question: IntrospectionRequest<'_>,
    ) -> IntrospectionResult {
        let said = self.answers.get_or_fetch(key, question.resolve(token, &self.last)).await;
        said.unwrap_or(Err(TokenError::Unavailable))
    }

    /// Asks about a token that does not exist.
    ///
    /// # Errors
    /// Why the provider does not answer.
    pub(super) async fn probe(&self, question: IntrospectionRequest<'_>) -> Result<()> {
        let answered = question.send(NO_TOKEN).await;
        self.last.note(&answered);
        answered.map(drop)
    }

    /// Whether the provider did not answer yet, though it was asked.
    pub(super) fn is_missing(&self) -> bool {
        !self.last.has_answered.load(Ordering::Relaxed) && self.last.failure().is_some()
    }

    /// Why the last question was not answered; `None` when it was.
    pub(super) fn failure(&self) -> Option<String> {
        self.last.failure().clone()
    }
}

impl IntrospectionRequest<'_> {
    /// Whom the token stands for, and how long that holds.
    async fn resolve(self, token: &str, last: &Last) -> CachedToken<IntrospectionResult> {
        let answered = self.send(token).await;
        last.note(&answered);
        let (said, size) = match answered {
            Ok(Some((claims, size))) => {
                let stands_in = self.issuer.unwrap_or(self.endpoint.as_str());
                let now = SystemTime::now();
                let said =
                    claims::principal_from_claims(claims, token, self.expected(), Some(stands_in), now)
                        .map(Arc::new);
                (said, size)
            }
            Ok(None) => (Err(TokenError::Inactive), 0),
            Err(error) => {
                let what = "the identity provider cannot be asked about a token";
                if let Some(suppressed) = self.log.admit(what) {
                    tracing::warn!(%error, suppressed, "{what}");
                }
                (Err(TokenError::Unavailable), 0)
            }
        };
        CachedToken {
            ttl: if matches!(said, Err(TokenError::Unavailable)) { FAILURE_TTL } else { RESULT_TTL },
            // Never beyond its end, whatever the clocks are granted.
            expires_at: said.as_ref().ok().map(|principal| principal.expires),
            is_positive: said.is_ok(),
            // What is read of an answer takes about twice its room.
            size: token.len() + 2 * size,
            value: said,
        }
    }

    fn expected(&self) -> ExpectedClaims<'_> {
        ExpectedClaims { issuer: self.issuer, id_tokens: self.id_tokens }
    }

    /// What the provider says of a token, and in how many bytes; `None` when it is not active.
    async fn send(&self, token: &str) -> Result<Option<(Map<String, Value>, usize)>> {
        let refused = |why: String| {
            Error::new(ErrorKind::Upstream, format!("the introspection endpoint gave no answer: {why}"))
        };
        let ask = ProviderRequest {
            method: Method::POST,
            url: self.endpoint.clone(),
            headers: self.headers().await?,
            body: self.form(token).into(),
        };
        let answer = self.provider.http.send(ask, MAX_RESPONSE_BYTES).await?;
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
                Ok(Some((claims, answer.body.len())))
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

    async fn headers(&self) -> Result<HeaderMap> {
        let mut headers = HeaderMap::new();
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, form);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let credentials = match self.client_secret {
            Some(secret) => Some(basic(self.client_id, secret)?),
            // What authorises requests to the issuer is read when it is asked, and no sooner.
            None => self.provider.headers(&self.endpoint).await?.remove(header::AUTHORIZATION),
        };
        if let Some(mut credentials) = credentials {
            credentials.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, credentials);
        }
        Ok(headers)
    }
}
