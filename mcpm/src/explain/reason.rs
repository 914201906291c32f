//! Every reason for which something is refused: its id, its layer, what it means, and what usually helps.
//!
//! It is the one place that has them. A layer refuses with a [`Reason`], so that an id which is not in the catalogue
//! cannot be given to anybody; `docs/reference/reasons.md` is made from it.

macro_rules! reasons {
    ($($layer:literal { $($(#[doc = $meaning:literal])+ $name:ident = $id:literal, $fix:literal;)+ })+) => {
        /// Why something is refused.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason { $($($(#[doc = $meaning])+ $name,)+)+ }

        impl Reason {
            /// Every reason, by layer, from the outermost to the server's own connections.
            pub const ALL: &'static [Self] = &[$($(Self::$name,)+)+];

            /// Returns its stable id, `layer.reason`.
            pub const fn id(self) -> &'static str {
                match self { $($(Self::$name => $id,)+)+ }
            }

            /// Returns the layer that refuses for it.
            pub const fn layer(self) -> &'static str {
                match self { $($(Self::$name => $layer,)+)+ }
            }

            /// Returns what it means.
            pub fn meaning(self) -> &'static str {
                let meaning = match self { $($(Self::$name => concat!($($meaning),+),)+)+ };
                meaning.trim()
            }

            /// Returns what usually lets the next one pass.
            pub const fn fix(self) -> &'static str {
                match self { $($(Self::$name => $fix,)+)+ }
            }
        }
    };
}

impl Reason {
    /// Whether it is given to those of whom nobody knows yet who they are. They can have as many refusals as they
    /// like, which must cost nobody else theirs.
    pub(crate) fn is_for_unauthenticated(self) -> bool {
        match self {
            // Whoever lacks a scope has shown a token that is theirs.
            Self::InsufficientScope => false,
            // It says the same to everybody.
            Self::AuditNotWritten => true,
            _ => matches!(self.layer(), "body_limit" | "origin" | "authenticate"),
        }
    }
}

reasons! {
    "body_limit" {
        /// The body of the request is larger than the proxy takes.
        BodyTooLarge = "body_limit.too_large", "send a smaller body";
    }
    "origin" {
        /// The request comes from a web page of another origin.
        OriginNotAllowed = "origin.not_allowed", "use a page of an allowed origin; if you trust the page, add its origin to option `allowed_origins`";
        /// The request calls the proxy by a name that is not its own, as a page does whose name was pointed here.
        HostNotAllowed = "origin.host_not_allowed",
            "call the proxy by the name or address it listens on; if the name is its own, add it to option `allowed_hosts`";
    }
    "authenticate" {
        /// The request has no token, and callers must say who they are.
        TokenMissing = "auth.token_missing", "send `Authorization: Bearer TOKEN`";
        /// The token is in the URL, where it ends up in logs; it is taken from the header alone.
        TokenInQuery = "auth.token_in_query", "send `Authorization: Bearer TOKEN`";
        /// The request has several tokens, or a header that holds none.
        AuthMalformed = "auth.malformed_request", "send one token, as `Authorization: Bearer TOKEN`";
        /// The token is of no form that can be checked here.
        TokenMalformed = "auth.token_malformed",
            "send an access token of the issuer; opaque ones need the issuer's endpoint in option `oidc_introspection_url`";
        /// The token is an ID token or of another kind, and not one that lets its bearer in.
        NotAnAccessToken = "auth.not_an_access_token", "send the access token that came with it";
        /// The token is bound to a key that its sender must show, which is not asked for here.
        TokenBound = "auth.token_bound",
            "ask the issuer for a bearer token, without DPoP and client certificates";
        /// The token is signed in a way that is not taken, or not at all.
        AlgorithmNotAllowed = "auth.algorithm_not_allowed",
            "have the issuer sign with RS, PS, ES256, ES384 or EdDSA";
        /// The issuer has no key of the name that the token says.
        UnknownKey = "auth.unknown_key", "send a token of the issuer, signed with one of its present keys";
        /// The token was changed, or signed with another key than it says.
        BadSignature = "auth.bad_signature", "send a token of the issuer, signed with one of its present keys";
        /// Somebody else issued the token.
        WrongIssuer = "auth.wrong_issuer", "send a token of the issuer in option `oidc_issuer`";
        /// The token is meant for another resource.
        WrongAudience = "auth.wrong_audience",
            "ask the issuer for a token whose audience is this resource";
        /// The token has expired, or does not say when it does.
        TokenExpired = "auth.token_expired", "get a new token";
        /// The token is not valid yet.
        TokenNotYetValid = "auth.token_not_yet_valid", "wait until it is valid, or set the clock";
        /// The token does not say whom it stands for.
        NoSubject = "auth.no_subject", "send a token that says whom it stands for";
        /// The identity provider says that the token is not valid any more.
        TokenInactive = "auth.token_inactive", "get a new token";
        /// The token lacks a scope of option `oidc_required_scopes`.
        InsufficientScope = "auth.insufficient_scope", "ask for a token with the scopes in the challenge";
        /// The identity provider cannot be asked, and nothing that was kept of it will do.
        ProviderUnavailable = "auth.provider_unavailable", "see to the identity provider";
    }
    "session_owner" {
        /// The session is not known, or another principal opened it.
        SessionUnknown = "session.unknown", "open a session with `initialize`";
    }
    "messages" {
        /// The body is no message, or one that others may read in another way, as with a field that stands twice.
        MessageUnclear = "messages.unclear", "send JSON-RPC messages, with each field once";
        /// The body is compressed, or in other characters than UTF-8, so that it cannot be looked into.
        MessageEncoded = "messages.encoded", "send the body in UTF-8, and not compressed";
        /// A header that repeats a part of the message says something else, or what the message must say is missing.
        MessageContradicted = "messages.contradicted",
            "have `Mcp-Method`, `Mcp-Name` and the like say what the message says";
        /// The server's answer cannot be read in one way only, is too large or broke off, so that nothing can be decided
        /// about it.
        AnswerUnclear = "messages.answer_unclear", "have the server answer with whole messages, each field once";
    }
    "limit" {
        /// All processes that the server may have are used by clients with other versions or capabilities.
        TooManyProcesses = "limit.processes",
            "end sessions that are not needed, or have clients declare the same version and capabilities";
        /// Too many calls of the caller, or of all callers, are waiting for an answer.
        TooManyCalls = "limit.calls", "wait for answers before calling again";
        /// The server does not read its input as fast as clients send.
        QueueFull = "limit.queue", "wait for answers before sending more, or send less at a time";
        /// The client's subscriptions are too many, or too long.
        TooManySubscriptions = "limit.subscriptions", "unsubscribe from resources that are not needed";
        /// The first message of a session is larger than any client needs.
        InitializeTooLarge = "limit.initialize", "send fewer capabilities and less about the client";
        /// What is held for all clients leaves no room for the body of this request, or for its answer.
        NoMemory = "limit.memory", "send a smaller body or ask for less, or try again later";
    }
    "audit" {
        /// What would be done cannot be recorded, and the audit log is to be complete.
        AuditNotWritten = "audit.not_written",
            "make room for the audit log";
    }
    "reach" {
        /// The request is for something of the server that is no MCP endpoint, about which no rule can decide.
        NotAnEndpoint = "reach.not_an_endpoint",
            "where it is the MCP endpoint, name its path in the target's URI";
        /// The request holds no message of MCP, such as a form, and rules decide about nothing else.
        NoMessage = "reach.no_message", "post a JSON-RPC message";
    }
    "tools" {
        /// The tool is hidden by the filter, is called by a name that clients do not see, or is named in no clear way.
        ToolNotListed = "tools.not_listed",
            "call a tool by the name that lists show; if clients are to use it, let it through with `tools`";
        /// The method does something with tools that the filter does not know.
        ToolsUnknownMethod = "tools.unknown_method", "use `tools/list` and `tools/call`";
    }
    "authorization" {
        /// No policy permits it.
        AuthorizationDenied = "authorization.denied", "if the caller is to do it, add a policy that permits it";
        /// A policy forbids it, whatever others permit.
        AuthorizationForbidden = "authorization.forbidden", "if the caller is to do it, change the policy that forbids it";
        /// A policy that might forbid it cannot be evaluated.
        AuthorizationUndecided = "authorization.undecided",
            "have policies ask for an attribute with `has` before they read it";
        /// The message does not say clearly what it wants.
        AuthorizationUnclear = "authorization.unclear",
            "send a message with each field once, and of its own type, and a URI without `..` and the like";
        /// The method is one that policies cannot decide about.
        AuthorizationUnknownMethod = "authorization.unknown_method",
            "use a method of the protocol";
        /// A policy depends on what the server says of the tool, and the server does not say it.
        AnnotationsUnknown = "authorization.annotations_unknown",
            "list the tools first, or write policies that do not depend on it";
    }
    "token_exchange" {
        /// The endpoint of the exchange does not take the caller's token, or not any more.
        ExchangeTokenNotAccepted = "exchange.token_not_accepted",
            "get a new token, or compare its kind, issuer and audience with what the endpoint takes";
        /// The endpoint of the exchange gives nobody, or not this caller, a token for the server.
        ExchangeRefused = "exchange.refused",
            "have the endpoint allow it for options `token_exchange_audience` and `token_exchange_scopes`";
        /// The endpoint of the exchange does not let the proxy exchange tokens.
        ExchangeClientRefused = "exchange.client_refused",
            "have the endpoint allow it for option `token_exchange_client_id`, and compare the secret";
        /// What came of the exchange is nothing that could be sent to the server.
        ExchangeUnusableToken = "exchange.unusable_token", "have the endpoint answer with a bearer token";
        /// The endpoint of the exchange cannot be asked.
        ExchangeUnavailable = "exchange.provider_unavailable",
            "see to the endpoint in option `token_exchange_url`; the log of the proxy says more";
        /// The server does not take the token that was exchanged for the caller's.
        ExchangeNotTaken = "exchange.not_taken_by_server",
            "compare options `token_exchange_audience` and `token_exchange_scopes` with what the server takes";
    }
    "isolation" {
        /// The permission profile allows the server no connection at all.
        NoNetwork = "egress.no_network",
            "if the server is to reach it, add the host to `network.outbound.allow_host` of a permission profile";
        /// The permission profile does not name the host.
        EgressHost = "egress.host_not_allowed",
            "if the server is to reach it, add the host to `network.outbound.allow_host` of a permission profile";
        /// The permission profile names the host, but not with that port.
        EgressPort = "egress.port_not_allowed",
            "if the server is to reach it, add the host and the port to `network.outbound.allow_host` of a permission profile";
        /// The connection leads to the machine by the engine's gateway.
        EgressGateway = "egress.runtime_gateway",
            "if the server is to reach this machine, set `allow_runtime_gateway` to `true`";
        /// Machines in clouds read credentials at that address.
        EgressMetadata = "egress.metadata_address",
            "find out why the server asks for credentials of this machine; a sound server need not reach them";
        /// The address is the machine's loopback.
        EgressLoopback = "egress.loopback_address",
            "if the server is to reach it, add the address itself to `network.outbound.allow_host` of a permission profile";
        /// The address is one of the machine's own.
        EgressOwn = "egress.own_address",
            "if the server is to reach it, add the address itself to `network.outbound.allow_host` of a permission profile";
        /// The address is of the machine's own link.
        EgressLinkLocal = "egress.link_local_address",
            "if the server is to reach it, add the address itself to `network.outbound.allow_host` of a permission profile";
        /// The address is of a private network.
        EgressPrivate = "egress.private_address",
            "if the server is to reach it, add the address itself to `network.outbound.allow_host` of a permission profile";
        /// Nobody is to be reached by such an address.
        EgressReserved = "egress.reserved_address",
            "if the server is to reach it, add the address itself to `network.outbound.allow_host` of a permission profile";
        /// The name in the TLS handshake is not that of the connection.
        EgressNameMismatch = "egress.server_name_mismatch",
            "connect to the name that the handshake asks for";
        /// The TLS handshake names nobody, so that it may be for any name of that address.
        EgressNameMissing = "egress.server_name_missing", "have the handshake say the name (SNI)";
        /// The connection went neither to the proxy nor to an allowed name, so that nothing could carry it.
        EgressDirect = "egress.direct_connection",
            "connect by name, or over the HTTP proxy that the environment names";
        /// Too many connections of the server are open.
        EgressTooMany = "egress.too_many_connections", "close connections before opening more";
    }
}

impl Reason {
    /// Returns the reason of that id.
    pub fn of_id(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.id() == id)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_reason_is_found_by_an_id_of_its_own_and_says_what_helps() {
        let ids: HashSet<_> = Reason::ALL.iter().map(|reason| reason.id()).collect();
        assert_eq!(ids.len(), Reason::ALL.len());
        for reason in Reason::ALL {
            assert_eq!(Reason::of_id(reason.id()), Some(*reason));
            // By the dot an id is told apart from that of one refusal.
            assert!(reason.id().contains('.'), "{reason:?}");
            assert!(reason.meaning().ends_with('.') && !reason.meaning().contains("  "), "{reason:?}");
            assert!(!reason.fix().is_empty() && !reason.fix().ends_with('.'), "{reason:?}");
        }
        assert_eq!(Reason::of_id("tools.not-listed"), None);
    }
}
