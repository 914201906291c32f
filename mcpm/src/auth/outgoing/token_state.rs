//! Holds the current token for a remote server, and the state of its renewal.

use std::time::{Duration, Instant, SystemTime};

use http::HeaderValue;

use super::{challenge::Challenge, kept_login::KeptLogin, unavailable::TokenUnavailable};

/// A token is renewed a tenth of its lifetime before its expiry. This is the maximum of that margin, without jitter.
const MAX_RENEWAL_MARGIN: Duration = Duration::from_secs(300);
/// Pause after a renewal that failed.
const RENEWAL_PAUSE: Duration = Duration::from_secs(10);

/// The token that is sent with requests.
#[derive(Debug, Clone)]
pub(super) struct CurrentToken {
    pub(super) header: HeaderValue,
    /// When the token should be renewed.
    pub(super) due: Option<SystemTime>,
    /// When the token expires.
    pub(super) expires_at: Option<SystemTime>,
}

impl CurrentToken {
    pub(super) fn is_valid(&self, now: SystemTime) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}

/// The source of a token.
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
    /// Whether the request was already repeated, with a token that was obtained after an earlier rejection.
    pub(super) is_repeat: bool,
}

#[derive(Debug, Default)]
pub(super) struct Renewal {
    pub(super) login: Option<KeptLogin>,
    /// The source of the login's token.
    pub(super) source: TokenSource,
    /// The scopes of the challenge that led to the last login.
    pub(super) challenged_scopes: Vec<String>,
    /// Why there is no valid token, and the time before which no renewal or login is tried again.
    failure: Option<(TokenUnavailable, Instant)>,
    /// As `failure`, for a token with more scopes, which not all requests need.
    scope_failure: Option<(TokenUnavailable, Instant)>,
    /// When the user was prompted to log in.
    pub(super) logins: Vec<Instant>,
    /// The time of the last change of the stored login that this process has noticed.
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

/// When a token is renewed: a tenth of its remaining lifetime before its expiry, or earlier by some jitter, so that
/// many proxies do not renew at the same time.
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
