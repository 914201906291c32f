//! Why a token does not let its bearer in.

use std::time::SystemTime;

use crate::explain::Reason;

/// Why a token does not let its bearer in.
///
/// What is said of it beside that is what the issuer has signed or told, for the operator. Of a token that may be
/// anybody's nothing is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is no token that could be checked here.
    Malformed,
    /// It is a token, and not one that lets its bearer in.
    Kind,
    /// It is for who holds a key, which cannot be shown here.
    Bound,
    /// It is signed in a way that is not taken, or not at all.
    Algorithm,
    /// Nobody knows the key that it says it is signed with.
    UnknownKey,
    /// It was not signed with the key that it says.
    Signature,
    /// Somebody else issued it, who says so.
    Issuer(Option<String>),
    /// It is meant for others, which are these.
    Audience(Vec<String>),
    /// It has expired then, or does not say when it does.
    Expired(Option<SystemTime>),
    /// It is not valid before then.
    NotYet(SystemTime),
    /// It stands for nobody.
    Subject,
    /// The identity provider says that it is not valid.
    Inactive,
    /// It does not allow what is needed: these scopes are missing.
    Scope(Vec<String>),
    /// The identity provider cannot be asked.
    Unavailable,
}

impl Refusal {
    /// The reason that others are told.
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Malformed => Reason::TokenMalformed,
            Self::Kind => Reason::NotAnAccessToken,
            Self::Bound => Reason::TokenBound,
            Self::Algorithm => Reason::AlgorithmNotAllowed,
            Self::UnknownKey => Reason::UnknownKey,
            Self::Signature => Reason::BadSignature,
            Self::Issuer(_) => Reason::WrongIssuer,
            Self::Audience(_) => Reason::WrongAudience,
            Self::Expired(_) => Reason::TokenExpired,
            Self::NotYet(_) => Reason::TokenNotYetValid,
            Self::Subject => Reason::NoSubject,
            Self::Inactive => Reason::TokenInactive,
            Self::Scope(_) => Reason::InsufficientScope,
            Self::Unavailable => Reason::ProviderUnavailable,
        }
    }

    /// What its bearer is told.
    pub(crate) fn message(&self) -> &'static str {
        match self {
            Self::Malformed => "the token cannot be checked here",
            Self::Kind => "the token is no access token",
            Self::Bound => "the token is bound to a key, which is not asked for here",
            Self::Algorithm => "the token is not signed in a way that is accepted",
            Self::UnknownKey => "the token is signed with an unknown key",
            Self::Signature => "the signature of the token is not valid",
            Self::Issuer(_) => "the token was issued by somebody else",
            Self::Audience(_) => "the token is meant for another resource",
            Self::Expired(_) => "the token has expired",
            Self::NotYet(_) => "the token is not valid yet",
            Self::Subject => "the token stands for nobody",
            Self::Inactive => "the token is not active",
            Self::Scope(_) => "the token lacks a scope",
            Self::Unavailable => "the identity provider cannot be reached; try again",
        }
    }
}
