//! Defines the errors for which a token is rejected, and maps each one to its reason.

use std::time::SystemTime;

use crate::explain::Reason;

/// Why a token is rejected.
///
/// Details are for the operator, and are included only for tokens that the issuer has signed or confirmed. The content
/// of a token that may be forged is never reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenError {
    /// The token is not a JWT, and no introspection endpoint is configured.
    Malformed,
    /// The token is not an access token.
    NotAnAccessToken,
    /// The token is bound to a key, and the proxy cannot verify that the caller possesses it.
    SenderConstrained,
    /// The signature algorithm is not accepted, or the token is not signed.
    AlgorithmNotAllowed,
    /// The key with the token's `kid` is unknown.
    UnknownKey,
    /// The signature does not match.
    BadSignature,
    /// The token was issued by another issuer.
    WrongIssuer(Option<String>),
    /// The token has other audiences.
    WrongAudience(Vec<String>),
    /// The token expired at this time, or has no expiry.
    Expired(Option<SystemTime>),
    /// The token is not valid before this time.
    NotYetValid(SystemTime),
    /// The token has no `sub` claim.
    MissingSubject,
    /// The identity provider reports that the token is not active.
    Inactive,
    /// The token lacks these scopes.
    InsufficientScope(Vec<String>),
    /// The identity provider cannot be reached.
    Unavailable,
}

impl TokenError {
    /// The reason that `mcpm explain` and clients see.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Malformed => Reason::TokenMalformed,
            Self::NotAnAccessToken => Reason::NotAnAccessToken,
            Self::SenderConstrained => Reason::TokenBound,
            Self::AlgorithmNotAllowed => Reason::AlgorithmNotAllowed,
            Self::UnknownKey => Reason::UnknownKey,
            Self::BadSignature => Reason::BadSignature,
            Self::WrongIssuer(_) => Reason::WrongIssuer,
            Self::WrongAudience(_) => Reason::WrongAudience,
            Self::Expired(_) => Reason::TokenExpired,
            Self::NotYetValid(_) => Reason::TokenNotYetValid,
            Self::MissingSubject => Reason::NoSubject,
            Self::Inactive => Reason::TokenInactive,
            Self::InsufficientScope(_) => Reason::InsufficientScope,
            Self::Unavailable => Reason::ProviderUnavailable,
        }
    }

    /// The message for the client.
    pub(crate) fn message(&self) -> &'static str {
        match self {
            Self::Malformed => "the token is malformed, or of a kind that is not accepted",
            Self::NotAnAccessToken => "the token is not an access token",
            Self::SenderConstrained => "sender-constrained tokens are not accepted",
            Self::AlgorithmNotAllowed => "the signature algorithm of the token is not accepted",
            Self::UnknownKey => "the token is signed with an unknown key",
            Self::BadSignature => "the signature of the token is not valid",
            Self::WrongIssuer(_) => "the token was issued by another issuer",
            Self::WrongAudience(_) => "the token is meant for another resource",
            Self::Expired(Some(_)) => "the token has expired",
            Self::Expired(None) => "the token has no `exp` claim",
            Self::NotYetValid(_) => "the token is not valid yet",
            Self::MissingSubject => "the token has no `sub` claim",
            Self::Inactive => "the token is not active",
            Self::InsufficientScope(_) => "the token lacks a required scope",
            Self::Unavailable => "the identity provider failed or cannot be reached; try again",
        }
    }
}
