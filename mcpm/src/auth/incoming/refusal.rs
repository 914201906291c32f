//! Why a token does not let its bearer in.

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
    /// The stable id of the reason.
    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Malformed => "auth.token_malformed",
            Self::Kind => "auth.not_an_access_token",
            Self::Bound => "auth.token_bound",
            Self::Algorithm => "auth.algorithm_not_allowed",
            Self::UnknownKey => "auth.unknown_key",
            Self::Signature => "auth.bad_signature",
            Self::Issuer => "auth.wrong_issuer",
            Self::Audience => "auth.wrong_audience",
            Self::Expired => "auth.token_expired",
            Self::NotYet => "auth.token_not_yet_valid",
            Self::Subject => "auth.no_subject",
            Self::Inactive => "auth.token_inactive",
            Self::Scope => "auth.insufficient_scope",
            Self::Unavailable => "auth.provider_unavailable",
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

    /// What would let its bearer in.
    pub(crate) fn fix(self) -> &'static str {
        match self {
            Self::Malformed => {
                "send an access token of the issuer; for opaque ones, set `--oidc-introspection-url`"
            }
            Self::Kind => "send the access token that came with it",
            Self::Bound => "ask the issuer for a bearer token, without DPoP and client certificates",
            Self::Algorithm => "have the issuer sign with RS, PS, ES256, ES384 or EdDSA",
            Self::UnknownKey | Self::Signature => {
                "send a token of the issuer, signed with one of its present keys"
            }
            Self::Issuer => "send a token of the issuer in `--oidc-issuer`",
            Self::Audience => {
                "ask for a token for this resource, or set `--oidc-audience` to what its tokens say"
            }
            Self::Expired | Self::Inactive => "get a new token",
            Self::NotYet => "wait until it is valid, or set the clock",
            Self::Subject => "send a token that says whom it stands for",
            Self::Scope => "ask for a token with the scopes in the challenge",
            Self::Unavailable => "see to the identity provider",
        }
    }
}
