//! Why a token does not let its bearer in.

use std::time::SystemTime;

use crate::explain::Reason;

/// Why a token does not let its bearer in.
///
/// What is said of it beside that is what the issuer has signed or told, for the operator. Of a token that may be
/// anybody's nothing is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenError {
    /// It is no token that could be checked here.
    Malformed,
    /// It is a token, and not one that lets its bearer in.
    NotAnAccessToken,
    /// It is for who holds a key, which cannot be shown here.
    SenderConstrained,
    /// It is signed in a way that is not taken, or not at all.
    AlgorithmNotAllowed,
    /// Nobody knows the key that it says it is signed with.
    UnknownKey,
    /// It was not signed with the key that it says.
    BadSignature,
    /// Somebody else issued it, who says so.
    WrongIssuer(Option<String>),
    /// It is meant for others, which are these.
    WrongAudience(Vec<String>),
    /// It has expired then, or does not say when it does.
    Expired(Option<SystemTime>),
    /// It is not valid before then.
    NotYetValid(SystemTime),
    /// It stands for nobody.
    MissingSubject,
    /// The identity provider says that it is not valid.
    Inactive,
    /// It does not allow what is needed: these scopes are missing.
    InsufficientScope(Vec<String>),
    /// The identity provider cannot be asked.
    Unavailable,
}

impl TokenError {
    /// The reason that others are told.
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

    /// What its bearer is told.
    pub(crate) fn message(&self) -> &'static str {
        match self {
            Self::Malformed => "the token cannot be checked here",
            Self::NotAnAccessToken => "the token is no access token",
            Self::SenderConstrained => "the token is bound to a key, which is not asked for here",
            Self::AlgorithmNotAllowed => "the token is not signed in a way that is accepted",
            Self::UnknownKey => "the token is signed with an unknown key",
            Self::BadSignature => "the signature of the token is not valid",
            Self::WrongIssuer(_) => "the token was issued by somebody else",
            Self::WrongAudience(_) => "the token is meant for another resource",
            Self::Expired(_) => "the token has expired",
            Self::NotYetValid(_) => "the token is not valid yet",
            Self::MissingSubject => "the token stands for nobody",
            Self::Inactive => "the token is not active",
            Self::InsufficientScope(_) => "the token lacks a scope",
            Self::Unavailable => "the identity provider cannot be reached; try again",
        }
    }
}
