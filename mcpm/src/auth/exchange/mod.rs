//! Token exchange: the token of a caller is exchanged for one that the server behind takes (RFC 8693).
//!
//! [`spec`] is what the options say, [`grant`] asks the endpoint and reads what it answers, and [`Exchange`] keeps a
//! token until shortly before its end. Which request gets it is for the layer of the proxy.

mod failure;
mod grant;
mod spec;

use std::time::{Duration, SystemTime};

use http::{HeaderName, HeaderValue};
use url::Url;

pub(crate) use failure::Failure;
use grant::Grant;
pub(crate) use spec::FURTHER;
pub use spec::{ClientSecret, ExchangeSpec};

use super::{
    answers::{Answer, Answers, Key},
    http::Http,
    incoming::Principal,
};
use crate::{Result, auth::http::Guard, options::Secret};

/// How long before its end a token is of no use any more: clocks may be apart, and a request takes its time.
const LEEWAY: Duration = Duration::from_secs(60);
/// How long a token is used whose end nobody tells.
const VOUCHED: Duration = Duration::from_secs(30);
/// How long a token is used at most: what the endpoint goes by may have changed.
const LONGEST: Duration = Duration::from_secs(3600);

/// What is to be known of a server that is reached over plain HTTP.
pub(crate) fn shown_on_the_way(server: &str) -> String {
    format!("exchanged tokens go to `{server}` over plain HTTP: whoever is in between can read and use them")
}

type Said = std::result::Result<HeaderValue, Failure>;

/// Exchanges the tokens of callers.
#[derive(Debug)]
pub(crate) struct Exchange {
    spec: ExchangeSpec,
    url: Url,
    header: HeaderName,
    http: Http,
    secret: Option<Secret>,
    said: Answers<Said>,
}

impl Exchange {
    /// Makes ready what the options say. Nobody is asked anything yet.
    ///
    /// # Errors
    /// `InvalidOption` for what is missing or cannot be used.
    pub(crate) fn new(spec: ExchangeSpec, guard: Guard, secret: Option<Secret>) -> Result<Self> {
        spec.check_secret(secret.as_ref())?;
        let (url, header) = (guard.check(&spec.url)?, spec.header()?);
        let secret = secret.filter(|_| spec.client_secret == ClientSecret::Given);
        Ok(Self { url, header, http: Http::new(guard)?, secret, said: Answers::default(), spec })
    }

    /// The header that the server takes the token from.
    pub(crate) fn header(&self) -> &HeaderName {
        &self.header
    }

    /// The value of that header: a token that the server takes, for who is calling.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn token(&self, principal: &Principal) -> Said {
        let subject = principal.token.expose();
        let said = self.said.once(Key::of(subject), self.ask(subject)).await;
        said.unwrap_or(Err(Failure::Unavailable))
    }

    /// Forgets a token that the server did not take.
    pub(crate) fn forget(&self, principal: &Principal, token: &HeaderValue) {
        let is_it = |said: &Said| said.as_ref().is_ok_and(|said| said == token);
        self.said.forget(&Key::of(principal.token.expose()), is_it);
    }

    async fn ask(&self, subject: &str) -> Answer<Said> {
        let begin = SystemTime::now();
        let grant = Grant { spec: &self.spec, url: &self.url, http: &self.http, given: self.secret.as_ref() };
        match grant.ask(subject).await {
            Ok(token) => {
                let holds = token.lifetime.map_or(VOUCHED, used_for);
                let size = subject.len() + token.value.len();
                Answer { said: Ok(token.value), holds, ends: begin.checked_add(holds), good: true, size }
            }
            Err(failure) => {
                Answer { said: Err(failure), holds: failure.holds(), ends: None, good: false, size: 0 }
            }
        }
    }
}

/// How long a token is used. One that is shorter than usual is used for half of its time.
fn used_for(lifetime: Duration) -> Duration {
    (lifetime - LEEWAY.min(lifetime / 2)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_not_used_up_to_its_end() {
        for (lifetime, used) in [(0, 0), (10, 5), (120, 60), (300, 240), (3600, 3540), (86_400, 3600)] {
            assert_eq!(used_for(Duration::from_secs(lifetime)), Duration::from_secs(used), "{lifetime}");
        }
    }
}
