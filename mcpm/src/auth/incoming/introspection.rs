//! Introspects tokens (RFC 7662), and caches the results for a short time.
//!
//! A result is cached for 30 s, and never beyond the token's expiry; a failure to get a result, for 1 s. Concurrent
//! requests with the same token share one introspection, and the number of concurrent introspections is limited.

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
    redact::url::redact_url,
};

/// A token that no provider has issued, for the probe at the start.
const NO_TOKEN: &str = "mcpm-start-check";
/// Lifetime of a cached result.
const RESULT_TTL: Duration = Duration::from_secs(30);
/// Lifetime of a cached failure to reach the provider.
const FAILURE_TTL: Duration = Duration::from_secs(1);
/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// Introspection results by token. Boxed, because the cache is moved before it is used.
#[derive(Debug, Default)]
pub(super) struct Introspection {
    answers: Box<TokenCache<IntrospectionResult>>,
    last: Last,
}

/// The outcome of the last request to the provider.
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

/// The endpoint, the client, and how its responses are read.
#[derive(Debug)]
pub(super) struct IntrospectionRequest<'a> {
    pub(super) provider: &'a ProviderClient,
    pub(super) log: &'a LogLimit,
    pub(super) endpoint: Url,
    pub(super) client_id: &'a str,
    pub(super) client_secret: Option<&'a Secret>,
    pub(super) issuer: Option<&'a str>,
    /// Whether ID tokens are accepted.
    pub(super) id_tokens: bool,
}

impl Introspection {
    /// Returns the principal of a token, from the provider or from the cache.
    pub(super) async fn introspect(
        &self,
        token: &str,
        key: TokenDigest,
        question: IntrospectionRequest<'_>,
    ) -> IntrospectionResult {
        let result = self.answers.get_or_fetch(key, question.resolve(token, &self.last)).await;
        result.unwrap_or(Err(TokenError::Unavailable))
    }

    /// Probes the endpoint with a token that does not exist.
    ///
    /// # Errors
    /// Why introspection does not work.
    pub(super) async fn probe(&self, question: IntrospectionRequest<'_>) -> Result<()> {
        let answered = question.send(NO_TOKEN).await;
        self.last.note(&answered);
        answered.map(drop)
    }

    /// Whether requests were sent and none has succeeded yet.
    pub(super) fn is_missing(&self) -> bool {
        !self.last.has_answered.load(Ordering::Relaxed) && self.last.failure().is_some()
    }

    /// The error of the last request; `None` if it succeeded.
    pub(super) fn failure(&self) -> Option<String> {
        self.last.failure().clone()
    }
}

impl IntrospectionRequest<'_> {
    /// Introspects a token. Returns the result, and how long it may be cached.
    async fn resolve(self, token: &str, last: &Last) -> CachedToken<IntrospectionResult> {
        let answered = self.send(token).await;
        last.note(&answered);
        let (result, size) = match answered {
            Ok(Some((claims, size))) => {
                let stands_in = self.issuer.unwrap_or(self.endpoint.as_str());
                let now = SystemTime::now();
                let result =
                    claims::principal_from_claims(claims, token, self.expected(), Some(stands_in), now)
                        .map(Arc::new);
                (result, size)
            }
            Ok(None) => (Err(TokenError::Inactive), 0),
            Err(error) => {
                let what = "token introspection failed";
                if let Some(suppressed) = self.log.admit(what) {
                    tracing::warn!(%error, suppressed, "{what}");
                }
                (Err(TokenError::Unavailable), 0)
            }
        };
        CachedToken {
            ttl: if matches!(result, Err(TokenError::Unavailable)) { FAILURE_TTL } else { RESULT_TTL },
            // Never beyond the token's expiry; the leeway for clock skew is not added.
            expires_at: result.as_ref().ok().map(|principal| principal.expires),
            is_positive: result.is_ok(),
            // The parsed response takes about twice its size.
            size: token.len() + 2 * size,
            value: result,
        }
    }

    fn expected(&self) -> ExpectedClaims<'_> {
        ExpectedClaims { issuer: self.issuer, id_tokens: self.id_tokens }
    }

    /// The provider's claims of a token and their size in bytes; `None` if the token is not active.
    async fn send(&self, token: &str) -> Result<Option<(Map<String, Value>, usize)>> {
        let failed = |why: String| {
            Error::new(ErrorKind::Upstream, format!("token introspection failed: {why}"))
                .with("url", redact_url(&self.endpoint))
        };
        let ask = ProviderRequest {
            method: Method::POST,
            url: self.endpoint.clone(),
            headers: self.headers().await?,
            body: self.form(token).into(),
        };
        let answer = self.provider.http.send(ask, MAX_RESPONSE_BYTES).await?;
        if answer.status != StatusCode::OK {
            return Err(failed(format!("the response has status {}", answer.status)));
        }
        let mut claims: Map<String, Value> = serde_json::from_slice(&answer.body)
            // The parser's message is not repeated, because it may quote the token.
            .map_err(|error| failed(format!("the response is not valid JSON ({:?})", error.classify())))?;
        match claims.remove("active") {
            Some(Value::Bool(true)) => {
                // `null` is treated like a missing field.
                claims.retain(|_, value| !value.is_null());
                Ok(Some((claims, answer.body.len())))
            }
            Some(Value::Bool(false)) => Ok(None),
            _ => Err(failed("the response has no boolean `active`".to_owned())),
        }
    }

    /// The form that is posted. A separate function, because the serializer must not be held across an await.
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
            // The token file is read only when it is needed.
            None => self.provider.headers(&self.endpoint).await?.remove(header::AUTHORIZATION),
        };
        if let Some(mut credentials) = credentials {
            credentials.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, credentials);
        }
        Ok(headers)
    }
}
