//! The current token of a remote server, and the state of its renewal.

use std::time::{Duration, Instant, SystemTime};

use http::HeaderValue;

use super::{challenge::Challenge, kept_login::KeptLogin, unavailable::TokenUnavailable};

/// A token is renewed ahead of its expiry by a tenth of its lifetime, but by no more than this.
const MAX_RENEWAL_MARGIN: Duration = Duration::from_secs(300);
/// Pause after a renewal that failed.
const RENEWAL_PAUSE: Duration = Duration::from_secs(10);

/// The token that requests are sent with.
#[derive(Debug, Clone)]
pub(super) struct CurrentToken {
    pub(super) header: HeaderValue,
    /// When it should be renewed.
    pub(super) due: Option<SystemTime>,
    /// When it is no longer valid.
    pub(super) expires_at: Option<SystemTime>,
}

impl CurrentToken {
    pub(super) fn is_valid(&self, now: SystemTime) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}

/// Where a token is from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum TokenSource {
    /// The secret store, or another process.
    #[default]
    Kept,
    /// A renewal by this process.
    Renewed,
    /// A login of this process.
    LoggedIn,
}

/// The rejection of a request by the server.
#[derive(Debug, Default)]
pub(super) struct Rejection {
    pub(super) challenge: Option<Challenge>,
    /// Whether the server wants more scopes.
    pub(super) is_insufficient_scope: bool,
    /// Whether the request was repeated already, with a token that it got after an earlier rejection.
    pub(super) is_repeat: bool,
}

#[derive(Debug, Default)]
pub(super) struct Renewal {
    pub(super) login: Option<KeptLogin>,
    /// Where its token is from.
    pub(super) source: TokenSource,
    /// The scopes of the challenge that led to the last login.
    pub(super) challenged_scopes: Vec<String>,
    /// Why there is no valid token, and until when it is not tried again.
    failure: Option<(TokenUnavailable, Instant)>,
    /// The same for a token with more scopes, which not all requests need.
    scope_failure: Option<(TokenUnavailable, Instant)>,
    /// When the user was asked to log in.
    pub(super) logins: Vec<Instant>,
    /// When another process had last changed the kept login, as far as this one has looked.
    pub(super) seen_change: Option<SystemTime>,
}

impl Renewal {
    pub(super) fn is_paused(&self, for_scopes: bool) -> Option<TokenUnavailable> {
        let paused = if for_scopes { &self.scope_failure } else { &self.failure };
        let (failure, until) = paused.as_ref()?;
        (Instant::now() < *until).then_some(*failure)
    }

    pub(super) fn pause(&mut self, for_scopes: bool, failure: TokenUnavailable) {
        let paused = if for_scopes { &mut self.scope_failure } else { &mut self.failure };
        *paused = Some((failure, Instant::now() + RENEWAL_PAUSE));
    }

    pub(super) fn end_pauses(&mut self) {
        (self.failure, self.scope_failure) = (None, None);
    }
}

/// When a token is renewed: a tenth of its lifetime before its end, with some jitter, so that many proxies do not renew
/// at once.
pub(super) fn renewal_time(expires_at: SystemTime, now: SystemTime) -> SystemTime {
    let left = expires_at.duration_since(now).unwrap_or_default();
    let margin = (left / 10).min(MAX_RENEWAL_MARGIN);
    let jitter = margin.mul_f64(f64::from(random_byte()) / 512.0);
    expires_at.checked_sub(margin + jitter).unwrap_or(expires_at)
}

fn random_byte() -> u8 {
    let mut byte = [0];
    // Without randomness there is no jitter.
    let _ = getrandom::fill(&mut byte);
    byte[0]
}
