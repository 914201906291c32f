//! Replaces the caller's token with a token that is issued for the server (token exchange, RFC 8693).
//!
//! [`spec`] is the configuration, [`token_request`] sends the request and parses the response, and
//! [`TokenExchanger`] caches a token until shortly before its expiry, for at most one hour.

mod error;
mod spec;
mod token_request;

use std::time::{Duration, SystemTime};

use http::{HeaderName, HeaderValue};
use url::Url;

pub(crate) use error::ExchangeError;
pub(crate) use spec::DEPENDENT_OPTIONS;
pub use spec::ExchangeSpec;
use token_request::TokenRequest;

use super::{
    guarded_client::GuardedClient,
    incoming::Principal,
    token_cache::{CachedToken, TokenCache, TokenDigest},
};
use crate::{
    Result,
    auth::{SecretSource, guarded_client::ClientGuard},
    options::Secret,
};

/// How long before its expiry a token is no longer used, for clock skew and the duration of requests.
const LEEWAY: Duration = Duration::from_secs(60);
/// How long a token without a stated lifetime is used.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(30);
/// Maximum time that a token is used, because the provider's policy may change.
const MAX_LIFETIME: Duration = Duration::from_secs(3600);

/// The warning for a server that is reached over plain HTTP.
pub(crate) fn plain_http_warning(server: &str) -> String {
    format!(
        "exchanged tokens go to `{server}` over plain HTTP: anyone on the network path can read and use them"
    )
}

type ExchangeResult = std::result::Result<HeaderValue, ExchangeError>;

/// Exchanges the tokens of callers, with a cache.
#[derive(Debug)]
pub(crate) struct TokenExchanger {
    spec: ExchangeSpec,
    url: Url,
    header: HeaderName,
    http: GuardedClient,
    secret: Option<Secret>,
    tokens: TokenCache<ExchangeResult>,
}

impl TokenExchanger {
    /// Creates an exchanger. Sends no request yet.
    ///
    /// # Errors
    /// `InvalidOption` if something is missing or cannot be used.
    pub(crate) fn new(spec: ExchangeSpec, guard: ClientGuard, secret: Option<Secret>) -> Result<Self> {
        spec.check_secret(secret.as_ref())?;
        let (url, header) = (guard.parse_url(&spec.url)?, spec.header()?);
        let secret = secret.filter(|_| spec.client_secret == SecretSource::Given);
        Ok(Self {
            url,
            header,
            http: GuardedClient::new(guard)?,
            secret,
            tokens: TokenCache::default(),
            spec,
        })
    }

    /// The header that carries the token to the server.
    pub(crate) fn header(&self) -> &HeaderName {
        &self.header
    }

    /// The value of that header for a caller.
    ///
    /// # Errors
    /// Why the token was not exchanged.
    pub(crate) async fn token(&self, principal: &Principal) -> ExchangeResult {
        let subject = principal.token.expose();
        let result = self.tokens.get_or_fetch(TokenDigest::of(subject), self.request_token(subject)).await;
        result.unwrap_or(Err(ExchangeError::Unavailable))
    }

    /// Removes a token that the server rejected from the cache.
    pub(crate) fn forget(&self, principal: &Principal, token: &HeaderValue) {
        let is_it = |result: &ExchangeResult| result.as_ref().is_ok_and(|result| result == token);
        self.tokens.forget(&TokenDigest::of(principal.token.expose()), is_it);
    }

    async fn request_token(&self, subject: &str) -> CachedToken<ExchangeResult> {
        let begin = SystemTime::now();
        let grant = TokenRequest {
            spec: &self.spec,
            url: &self.url,
            http: &self.http,
            client_secret: self.secret.as_ref(),
        };
        match grant.send(subject).await {
            Ok(token) => {
                let ttl = token.lifetime.map_or(DEFAULT_LIFETIME, cache_ttl);
                let size = subject.len() + token.value.len();
                CachedToken {
                    value: Ok(token.value),
                    ttl,
                    expires_at: begin.checked_add(ttl),
                    is_positive: true,
                    size,
                }
            }
            Err(failure) => CachedToken {
                value: Err(failure),
                ttl: failure.cache_ttl(),
                expires_at: None,
                is_positive: false,
                size: 0,
            },
        }
    }
}

/// How long a token is used. A short-lived token is used for half of its lifetime.
fn cache_ttl(lifetime: Duration) -> Duration {
    (lifetime - LEEWAY.min(lifetime / 2)).min(MAX_LIFETIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_used_up_to_its_end() {
        for (lifetime, used) in [(0, 0), (10, 5), (120, 60), (300, 240), (3600, 3540), (86_400, 3600)] {
            assert_eq!(cache_ttl(Duration::from_secs(lifetime)), Duration::from_secs(used), "{lifetime}");
        }
    }
}
