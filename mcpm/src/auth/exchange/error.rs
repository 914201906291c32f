//! Defines the errors of a token exchange, and maps each one to its reason.

use std::time::Duration;

use crate::explain::Reason;

/// Why a caller's token was not exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExchangeError {
    /// The endpoint does not accept the caller's token.
    TokenNotAccepted,
    /// The endpoint does not issue such a token, or not for this caller.
    Denied,
    /// The endpoint does not allow the proxy to exchange tokens.
    ClientRejected,
    /// The response contains no token that could be sent to the server.
    UnusableToken,
    /// The endpoint cannot be reached.
    Unavailable,
}

impl ExchangeError {
    /// Maps an OAuth error code (RFC 6749 section 5.2, RFC 8693 section 2.2.2).
    pub(super) fn from_oauth_error(code: &str) -> Self {
        match code {
            "invalid_grant" | "invalid_token" => Self::TokenNotAccepted,
            "invalid_request" | "invalid_target" | "invalid_scope" | "access_denied" => Self::Denied,
            "invalid_client" | "unauthorized_client" | "unsupported_grant_type" => Self::ClientRejected,
            _ => Self::Unavailable,
        }
    }

    /// How long the failure is cached for this caller.
    pub(super) fn cache_ttl(self) -> Duration {
        match self {
            Self::Unavailable => Duration::from_secs(1),
            Self::TokenNotAccepted | Self::Denied | Self::ClientRejected | Self::UnusableToken => {
                Duration::from_secs(10)
            }
        }
    }

    /// The reason that `mcpm explain` and clients see.
    pub(crate) fn reason(self) -> Reason {
        match self {
            Self::TokenNotAccepted => Reason::ExchangeTokenNotAccepted,
            Self::Denied => Reason::ExchangeRefused,
            Self::ClientRejected => Reason::ExchangeClientRefused,
            Self::UnusableToken => Reason::ExchangeUnusableToken,
            Self::Unavailable => Reason::ExchangeUnavailable,
        }
    }

    /// The message for the client.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::TokenNotAccepted => "the token exchange endpoint does not accept the token",
            Self::Denied => "the token exchange endpoint does not issue a token for the server",
            Self::ClientRejected => "the token exchange endpoint does not authorize the proxy",
            Self::UnusableToken => "the token exchange returned no token that could be sent to the server",
            Self::Unavailable => "the token exchange endpoint failed or cannot be reached; try again",
        }
    }
}
