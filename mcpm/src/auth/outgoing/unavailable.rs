//! Defines the errors for which no token for a remote server is available, and maps each one to its reason.

use crate::explain::Reason;

/// Why a request cannot be authenticated.
#[cfg_attr(not(feature = "login"), expect(dead_code, reason = "for logins"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenUnavailable {
    /// The user has to log in.
    LoginRequired,
    /// The authorization server cannot be reached.
    Unavailable,
    /// The server rejects the token even after a new login, or requires more scopes than the token has.
    Rejected,
}

impl TokenUnavailable {
    /// The reason for the denial.
    pub(crate) fn reason(self) -> Reason {
        match self {
            Self::LoginRequired => Reason::LoginRequired,
            Self::Unavailable => Reason::TokenNotRenewed,
            Self::Rejected => Reason::TokenRejected,
        }
    }

    /// The message for the client.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::LoginRequired => {
                "the remote server requires a login; the operator of the proxy must log in"
            }
            Self::Unavailable => "the login to the remote server cannot be renewed at the moment",
            Self::Rejected => "the remote server rejects the login",
        }
    }
}
