//! Why the token of a caller was not exchanged.

use std::time::Duration;

use crate::explain::Reason;

/// Why the token of a caller was not exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExchangeError {
    /// The endpoint does not take the caller's token, or not any more.
    TokenNotAccepted,
    /// It gives nobody, or not this caller, such a token.
    Denied,
    /// It does not let the proxy exchange tokens.
    ClientRejected,
    /// What it gives is nothing that could be sent to the server.
    UnusableToken,
    /// It cannot be asked.
    Unavailable,
}

impl ExchangeError {
    /// What an error of the endpoint means (RFC 6749 section 5.2, RFC 8693 section 2.2.2).
    pub(super) fn from_oauth_error(code: &str) -> Self {
        match code {
            "invalid_grant" | "invalid_token" => Self::TokenNotAccepted,
            "invalid_request" | "invalid_target" | "invalid_scope" | "access_denied" => Self::Denied,
            "invalid_client" | "unauthorized_client" | "unsupported_grant_type" => Self::ClientRejected,
            _ => Self::Unavailable,
        }
    }

    /// How long the endpoint is not asked again for the same caller.
    pub(super) fn cache_ttl(self) -> Duration {
        match self {
            Self::Unavailable => Duration::from_secs(1),
            Self::TokenNotAccepted | Self::Denied | Self::ClientRejected | Self::UnusableToken => {
                Duration::from_secs(10)
            }
        }
    }

    /// The reason that others are told.
    pub(crate) fn reason(self) -> Reason {
        match self {
            Self::TokenNotAccepted => Reason::ExchangeTokenNotAccepted,
            Self::Denied => Reason::ExchangeRefused,
            Self::ClientRejected => Reason::ExchangeClientRefused,
            Self::UnusableToken => Reason::ExchangeUnusableToken,
            Self::Unavailable => Reason::ExchangeUnavailable,
        }
    }

    /// What the caller is told.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::TokenNotAccepted => "the token is not accepted where it is to be exchanged",
            Self::Denied => "the token cannot be exchanged for one that the server takes",
            Self::ClientRejected => "the proxy may not exchange tokens",
            Self::UnusableToken => "the exchange gave no token that could be sent to the server",
            Self::Unavailable => "the token exchange cannot be reached; try again",
        }
    }
}
