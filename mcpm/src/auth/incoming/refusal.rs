//! Why a token does not let its bearer in.

use crate::explain::Reason;

/// Why a token does not let its bearer in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Somebody else issued it.
    Issuer,
    /// It is meant for somebody else.
    Audience,
    /// It has expired, or does not say when it does.
    Expired,
    /// It is not valid yet.
    NotYet,
    /// It stands for nobody.
    Subject,
    /// The identity provider says that it is not valid.
    Inactive,
    /// It does not allow what is needed.
    Scope,
    /// The identity provider cannot be asked.
    Unavailable,
}

impl Refusal {
    /// The reason that others are told.
    pub(crate) fn reason(self) -> Reason {
        match self {
            Self::Malformed => Reason::TokenMalformed,
            Self::Kind => Reason::NotAnAccessToken,
            Self::Bound => Reason::TokenBound,
            Self::Algorithm => Reason::AlgorithmNotAllowed,
            Self::UnknownKey => Reason::UnknownKey,
            Self::Signature => Reason::BadSignature,
            Self::Issuer => Reason::WrongIssuer,
            Self::Audience => Reason::WrongAudience,
            Self::Expired => Reason::TokenExpired,
            Self::NotYet => Reason::TokenNotYetValid,
            Self::Subject => Reason::NoSubject,
            Self::Inactive => Reason::TokenInactive,
            Self::Scope => Reason::InsufficientScope,
            Self::Unavailable => Reason::ProviderUnavailable,
        }
    }

    /// What its bearer is told.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Malformed => "the token cannot be checked here",
            Self::Kind => "the token is no access token",
            Self::Bound => "the token is bound to a key, which is not asked for here",
            Self::Algorithm => "the token is not signed in a way that is accepted",
            Self::UnknownKey => "the token is signed with an unknown key",
            Self::Signature => "the signature of the token is not valid",
            Self::Issuer => "the token was issued by somebody else",
            Self::Audience => "the token is meant for another resource",
            Self::Expired => "the token has expired",
            Self::NotYet => "the token is not valid yet",
            Self::Subject => "the token stands for nobody",
            Self::Inactive => "the token is not active",
            Self::Scope => "the token lacks a scope",
            Self::Unavailable => "the identity provider cannot be reached; try again",
        }
    }
}
