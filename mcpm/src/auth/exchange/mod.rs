//! Token exchange: the token of a caller is exchanged for one that the server behind takes (RFC 8693).
//!
//! [`spec`] is what the options say, [`grant`] asks the endpoint and reads what it answers, and [`TokenExchanger`] keeps a
//! token until shortly before its end. Which request gets it is for the layer of the proxy.

mod error;
mod spec;
mod token_request;

use std::time::{Duration, SystemTime};

use http::{HeaderName, HeaderValue};
use url::Url;

pub(crate) use error::ExchangeError;
pub(crate) use spec::DEPENDENT_OPTIONS;
pub use spec::{ClientSecret, ExchangeSpec};
use token_request::TokenRequest;

use super::{
    guarded_client::GuardedClient,
    incoming::Principal,
    token_cache::{CachedToken, TokenCache, TokenDigest},
};
use crate::{Result, auth::guarded_client::ClientGuard, options::Secret};

/// How long before its end a token is of no use any more: clocks may be apart, and a request takes its time.
const LEEWAY: Duration = Duration::from_secs(60);
/// How long a token is used whose end nobody tells.
const DEFAULT_LIFETIME: Duration = Duration::from_secs(30);
/// How long a token is used at most: what the endpoint goes by may have changed.
const MAX_LIFETIME: Duration = Duration::from_secs(3600);

/// What is to be known of a server that is reached over plain HTTP.
pub(crate) fn plain_http_warning(server: &str) -> String {
    format!("exchanged tokens go to `{server}` over plain HTTP: whoever is in between can read and use them")
}

type ExchangeResult = std::result::Result<HeaderValue, ExchangeError>;

/// Exchanges the tokens of callers.
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
    /// Makes ready what the options say. Nobody is asked anything yet.
    ///
    /// # Errors
    /// `InvalidOption` for what is missing or cannot be used.
    pub(crate) fn new(spec: ExchangeSpec, guard: ClientGuard, secret: Option<Secret>) -> Result<Self> {
        spec.check_secret(secret.as_ref())?;
        let (url, header) = (guard.parse_url(&spec.url)?, spec.header()?);
        let secret = secret.filter(|_| spec.client_secret == ClientSecret::Given);
        Ok(Self {
            url,
            header,
            http: GuardedClient::new(guard)?,
            secret,
            tokens: TokenCache::default(),
            spec,
        })
    }

    /// The header that the server takes the token from.
    pub(crate) fn header(&self) -> &HeaderName {
        &self.header
    }

    /// The value of that header: a token that the server takes, for who is calling.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn token(&self, principal: &Principal) -> ExchangeResult {
        let subject = principal.token.expose();
        let said = self.tokens.get_or_fetch(TokenDigest::of(subject), self.request_token(subject)).await;
        said.unwrap_or(Err(ExchangeError::Unavailable))
    }

    /// Forgets a token that the server did not take.
    pub(crate) fn forget(&self, principal: &Principal, token: &HeaderValue) {
        let is_it = |said: &ExchangeResult| said.as_ref().is_ok_and(|said| said == token);
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
                let holds = token.lifetime.map_or(DEFAULT_LIFETIME, cache_ttl);
                let size = subject.len() + token.value.len();
                CachedToken {
                    value: Ok(token.value),
                    ttl: holds,
                    expires_at: begin.checked_add(holds),
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

/// How long a token is used. One that is shorter than usual is used for half of its time.
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
