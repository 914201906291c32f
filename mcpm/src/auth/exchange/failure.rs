//! Why the token of a caller was not exchanged.

use std::time::Duration;

use crate::explain::Reason;

/// Why the token of a caller was not exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The endpoint does not take the caller's token, or not any more.
    Subject,
    /// It gives nobody, or not this caller, such a token.
    Refused,
    /// It does not let the proxy exchange tokens.
    Client,
    /// What it gives is nothing that could be sent to the server.
    Unusable,
    /// It cannot be asked.
    Unavailable,
}

impl Failure {
    /// What an error of the endpoint means (RFC 6749 section 5.2, RFC 8693 section 2.2.2).
    pub(super) fn of_error(code: &str) -> Self {
        match code {
            "invalid_grant" | "invalid_token" => Self::Subject,
            "invalid_request" | "invalid_target" | "invalid_scope" | "access_denied" => Self::Refused,
            "invalid_client" | "unauthorized_client" | "unsupported_grant_type" => Self::Client,
            _ => Self::Unavailable,
        }
    }

    /// How long the endpoint is not asked again for the same caller.
    pub(super) fn holds(self) -> Duration {
        match self {
            Self::Unavailable => Duration::from_secs(1),
            Self::Subject | Self::Refused | Self::Client | Self::Unusable => Duration::from_secs(10),
        }
    }

    /// The reason that others are told.
    pub(crate) fn reason(self) -> Reason {
        match self {
            Self::Subject => Reason::ExchangeTokenNotAccepted,
            Self::Refused => Reason::ExchangeRefused,
            Self::Client => Reason::ExchangeClientRefused,
            Self::Unusable => Reason::ExchangeUnusableToken,
            Self::Unavailable => Reason::ExchangeUnavailable,
        }
    }

    /// What the caller is told.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Subject => "the token is not accepted where it is to be exchanged",
            Self::Refused => "the token cannot be exchanged for one that the server takes",
            Self::Client => "the proxy may not exchange tokens",
            Self::Unusable => "the exchange gave no token that could be sent to the server",
            Self::Unavailable => "the token exchange cannot be reached; try again",
        }
    }
}
