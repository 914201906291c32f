//! Lists all reasons for denials: the id, layer, meaning and usual fix of each.
//!
//! Every denial has a [`Reason`], so clients get only ids from this list. `docs/reference/reasons.md` is generated from
//! the list.

use crate::Error;

macro_rules! reasons {
    ($($layer:literal { $($(#[doc = $meaning:literal])+ $name:ident = $id:literal, $fix:literal;)+ })+) => {
        /// The reason for a denial.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason { $($($(#[doc = $meaning])+ $name,)+)+ }

        impl Reason {
            /// All reasons by layer, from the outermost layer to the server's own connections.
            pub const ALL: &'static [Self] = &[$($(Self::$name,)+)+];

            /// Returns the stable id, `layer.reason`.
            pub const fn id(self) -> &'static str {
                match self { $($(Self::$name => $id,)+)+ }
            }

            /// Returns the layer that denies for this reason.
            pub const fn layer(self) -> &'static str {
                match self { $($(Self::$name => $layer,)+)+ }
            }

            /// Returns what the reason means.
            pub fn meaning(self) -> &'static str {
                let meaning = match self { $($(Self::$name => concat!($($meaning),+),)+)+ };
                meaning.trim()
            }

            /// Returns what usually helps.
            pub const fn fix(self) -> &'static str {
                match self { $($(Self::$name => $fix,)+)+ }
            }
        }
    };
}

impl Error {
    /// Adds the id of a reason, for [`explain`](super::explain()).
    #[must_use]
    pub(crate) fn reason(self, reason: Reason) -> Self {
        self.with("reason", reason.id())
    }

    /// Returns whether that reason was added.
    #[cfg(any(feature = "login", test))]
    pub(crate) fn has_reason(&self, reason: Reason) -> bool {
        self.context().any(|(key, value)| key == "reason" && value == reason.id())
    }
}

impl Reason {
    /// Returns whether unauthenticated callers can cause the denial. They can cause any number of denials, which must
    /// not evict the denials of other callers from the log.
    pub(crate) fn is_for_unauthenticated(self) -> bool {
        match self {
            // A caller whose token lacks a scope is authenticated.
            Self::InsufficientScope => false,
            // The reason is the same for all callers.
            Self::AuditNotWritten => true,
            _ => matches!(self.layer(), "body_limit" | "origin" | "authenticate"),
        }
    }
}

reasons! {
    "body_limit" {
        /// The request body is larger than the limit.
        BodyTooLarge = "body_limit.too_large", "send a smaller body";
    }
    "origin" {
        /// The request comes from a web page of another origin.
        OriginNotAllowed = "origin.not_allowed", "use a page of an allowed origin; if you trust the page, add its origin to option `allowed_origins`";
        /// The `Host` of the request is not a name of the proxy, as in a DNS rebinding attack.
        HostNotAllowed = "origin.host_not_allowed",
            "use the name or address that the proxy listens on; if the name belongs to the proxy, add it to option `allowed_hosts`";
    }
    "authenticate" {
        /// The request has no token, and authentication is required.
        TokenMissing = "auth.token_missing", "send `Authorization: Bearer TOKEN`";
        /// The token is in the URL, where it could be logged; only the `Authorization` header is accepted.
        TokenInQuery = "auth.token_in_query", "send `Authorization: Bearer TOKEN`";
        /// The request has several tokens, or a malformed `Authorization` header.
        AuthMalformed = "auth.malformed_request", "send one token, as `Authorization: Bearer TOKEN`";
        /// The token is not a JWT, and no introspection endpoint is configured.
        TokenMalformed = "auth.token_malformed",
            "send an access token of the issuer; opaque tokens require an introspection endpoint in option `oidc_introspection_url`";
        /// The token is not an access token but, for example, an ID token.
        NotAnAccessToken = "auth.not_an_access_token",
            "send the access token that was issued together with this token";
        /// The token is sender-constrained (bound to a key), which is not supported.
        TokenBound = "auth.token_bound",
            "request a bearer token from the issuer, without DPoP and client certificates";
        /// The signature algorithm of the token is not accepted, or the token is not signed.
        AlgorithmNotAllowed = "auth.algorithm_not_allowed",
            "configure the issuer to sign with an RS or PS algorithm, ES256, ES384 or EdDSA";
        /// The issuer has no key with the `kid` of the token.
        UnknownKey = "auth.unknown_key", "send a token of the issuer, signed with one of its current keys";
        /// The token was modified, or signed with a different key than the one that its `kid` names.
        BadSignature = "auth.bad_signature", "send a token of the issuer, signed with one of its current keys";
        /// The token was issued by another issuer.
        WrongIssuer = "auth.wrong_issuer", "send a token from the issuer in option `oidc_issuer`";
        /// The token is meant for another audience.
        WrongAudience = "auth.wrong_audience",
            "request a token for this resource from the issuer";
        /// The token has expired, or has no `exp` claim.
        TokenExpired = "auth.token_expired", "get a new token";
        /// The token is not valid yet.
        TokenNotYetValid = "auth.token_not_yet_valid", "wait until the token is valid, or synchronize the clocks";
        /// The token has no `sub` claim.
        NoSubject = "auth.no_subject", "send a token with a `sub` claim";
        /// The identity provider reports that the token is not active.
        TokenInactive = "auth.token_inactive", "get a new token";
        /// The token lacks a scope that option `oidc_required_scopes` requires.
        InsufficientScope = "auth.insufficient_scope", "request a token with the scopes in the challenge";
        /// A request to the identity provider failed, and no cached result applies.
        ProviderUnavailable = "auth.provider_unavailable",
            "check that the identity provider works, and that the proxy can connect to it";
    }
    "session_owner" {
        /// The session does not exist, or belongs to another principal.
        SessionUnknown = "session.unknown", "open a session with `initialize`";
    }
    "messages" {
        /// The body is not a JSON-RPC message, or is ambiguous, for example because a field occurs twice.
        MessageUnclear = "messages.unclear", "send JSON-RPC messages, with each field once";
        /// The body is compressed or not UTF-8, so it cannot be inspected.
        MessageEncoded = "messages.encoded", "send the body uncompressed and in UTF-8";
        /// A header that repeats part of the message contradicts it, or a required field of the message is
        /// missing.
        MessageContradicted = "messages.contradicted",
            "make `Mcp-Method`, `Mcp-Name` and similar headers match the message";
        /// The server's response is ambiguous, too large or incomplete, so no filter or policy can be applied.
        AnswerUnclear = "messages.answer_unclear", "make the server respond with complete messages, with each field once";
    }
    "limit" {
        /// The server has the maximum number of processes, and all are in use by clients with other protocol
        /// versions or capabilities.
        TooManyProcesses = "limit.processes",
            "end unused sessions, or make clients declare the same version and capabilities";
        /// Too many calls of this caller, or of all callers together, are waiting for a response.
        TooManyCalls = "limit.calls", "wait for responses before calling again";
        /// The server reads its input more slowly than clients send.
        QueueFull = "limit.queue", "wait for responses before sending more, or send less at a time";
        /// The client has too many subscriptions, or their URIs are too long.
        TooManySubscriptions = "limit.subscriptions", "unsubscribe from unused resources";
        /// The `initialize` message is too large.
        InitializeTooLarge = "limit.initialize", "declare fewer capabilities, and send a shorter `clientInfo`";
        /// The memory budget for all clients has no room for the body of this request, or for its response.
        NoMemory = "limit.memory", "send a smaller body, request less data, or try again later";
    }
    "outgoing" {
        /// The remote server requires a login, and no login exists, or the login is no longer valid.
        LoginRequired = "outgoing.login_required", "log in with `mcpm login NAME`, or restart the proxy in a terminal";
        /// The login to the remote server has expired, and the authorization server cannot be reached to renew it.
        TokenNotRenewed = "outgoing.not_renewed", "wait until the authorization server can be reached";
        /// The remote server or its authorization server names a URL that is not allowed: it is not encrypted, has
        /// another scheme, or is on a less public network than the server.
        LoginUrlDenied = "outgoing.url_denied", "ask the operator of the server to correct its metadata; do not log in";
        /// The metadata for the login, or the response to the login, belongs to another resource or issuer, so a token
        /// could be sent to the wrong server.
        LoginMixUp = "outgoing.mix_up", "ask the operator of the server to correct its metadata; do not log in";
        /// The metadata for the login, or a response during the login, is too large, too slow or invalid.
        LoginResponseUnusable = "outgoing.response_unusable",
            "check the authorization server, or set its URLs with `remote_auth_authorize_url` and `remote_auth_token_url`";
        /// The authorization server does not support PKCE with S256, so others could use a stolen authorization code.
        PkceMissing = "outgoing.pkce_missing", "ask the operator of the authorization server to support PKCE with S256";
        /// The authorization server does not issue tokens for a scope that the login requested.
        ScopeDenied = "outgoing.scope_denied",
            "check option `remote_auth_scopes`, and log in again: the new login does not request the scopes \
             that the remote server asked for";
        /// The remote server rejects the token, even after it was renewed.
        TokenRejected = "outgoing.token_rejected", "check the account and its permissions on the remote server, and log in again";
    }
    "audit" {
        /// The request cannot be recorded, and the audit log is configured to fail closed.
        AuditNotWritten = "audit.not_written",
            "make sure that the audit log can be written";
    }
    "reach" {
        /// The path is not an MCP endpoint, so tool filters and policies cannot be applied.
        NotAnEndpoint = "reach.not_an_endpoint",
            "if the path is that of the MCP endpoint, set it in the target URI";
        /// The request contains no MCP message, so tool filters and policies cannot be applied.
        NoMessage = "reach.no_message", "post a JSON-RPC message";
    }
    "tools" {
        /// The tool is hidden by the filter, is called by a name that clients do not see, or its name is
        /// ambiguous.
        ToolNotListed = "tools.not_listed",
            "call a tool by its name in the tool list; if clients should use it, allow it with option `tools`";
        /// The method starts with `tools/`, but the tool filter does not know it.
        ToolsUnknownMethod = "tools.unknown_method", "use `tools/list` and `tools/call`";
    }
    "authorization" {
        /// No policy permits the request.
        AuthorizationDenied = "authorization.denied", "if the caller should be allowed, add a policy that permits it";
        /// A policy forbids the request, even if another policy permits it.
        AuthorizationForbidden = "authorization.forbidden", "if the caller should be allowed, change the policy that forbids it";
        /// The evaluation of a policy that might forbid the request failed.
        AuthorizationUndecided = "authorization.undecided",
            "make policies test for an attribute with `has` before they read it";
        /// The message is ambiguous.
        AuthorizationUnclear = "authorization.unclear",
            "send each field once, with the correct type, and URIs without segments such as `..`";
        /// The method is unknown, so policies cannot authorize it.
        AuthorizationUnknownMethod = "authorization.unknown_method",
            "use a method of the protocol";
        /// A policy depends on annotations of the tool, which the server has not sent.
        AnnotationsUnknown = "authorization.annotations_unknown",
            "list the tools first, or write policies that do not read annotations";
    }
    "token_exchange" {
        /// The token endpoint does not accept the caller's token.
        ExchangeTokenNotAccepted = "exchange.token_not_accepted",
            "get a new token, or compare the type, issuer and audience of the token with those that the endpoint \
             accepts";
        /// The token endpoint does not issue a token for the server, or not for this caller.
        ExchangeRefused = "exchange.refused",
            "configure the endpoint to allow the exchange for options `token_exchange_audience` and \
             `token_exchange_scopes`";
        /// The token endpoint does not allow the proxy to exchange tokens.
        ExchangeClientRefused = "exchange.client_refused",
            "configure the endpoint to allow the exchange for option `token_exchange_client_id`, and check the secret";
        /// The token exchange returned no token that could be sent to the server.
        ExchangeUnusableToken = "exchange.unusable_token", "configure the endpoint to return a bearer token";
        /// A request to the token endpoint failed.
        ExchangeUnavailable = "exchange.provider_unavailable",
            "check the endpoint in option `token_exchange_url`; the log of the proxy has details";
        /// The server does not accept the exchanged token.
        ExchangeNotTaken = "exchange.not_taken_by_server",
            "compare options `token_exchange_audience` and `token_exchange_scopes` with what the server accepts";
    }
    "isolation" {
        /// The permission profile allows the server no connections.
        NoNetwork = "egress.no_network",
            "if the server should connect to this host, add the host to `network.outbound.allow_host` of \
             a permission profile";
        /// The permission profile does not allow the host.
        EgressHost = "egress.host_not_allowed",
            "if the server should connect to this host, add the host to `network.outbound.allow_host` of \
             a permission profile";
        /// The permission profile allows the host, but not the port.
        EgressPort = "egress.port_not_allowed",
            "if the server should connect to this port, add the host and the port to `network.outbound.allow_host` of \
             a permission profile";
        /// The address is the engine's gateway, through which this machine can be reached.
        EgressGateway = "egress.runtime_gateway",
            "if the server should connect to this machine, set `allow_runtime_gateway` to `true`";
        /// The address is that of a cloud metadata service, which provides the credentials of the machine.
        EgressMetadata = "egress.metadata_address",
            "find out why the server requests credentials of this machine; legitimate servers do not need them";
        /// The address is a loopback address of this machine.
        EgressLoopback = "egress.loopback_address",
            "if the server should connect to this address, add the address itself to `network.outbound.allow_host` of \
             a permission profile";
        /// The address belongs to this machine.
        EgressOwn = "egress.own_address",
            "if the server should connect to this address, add the address itself to `network.outbound.allow_host` of \
             a permission profile";
        /// The address is link-local.
        EgressLinkLocal = "egress.link_local_address",
            "if the server should connect to this address, add the address itself to `network.outbound.allow_host` of \
             a permission profile";
        /// The address is in a private network.
        EgressPrivate = "egress.private_address",
            "if the server should connect to this address, add the address itself to `network.outbound.allow_host` of \
             a permission profile";
        /// The address is reserved.
        EgressReserved = "egress.reserved_address",
            "if the server should connect to this address, add the address itself to `network.outbound.allow_host` of \
             a permission profile";
        /// The TLS handshake, or the first plain HTTP request, names a different host than the connection was for.
        EgressNameMismatch = "egress.server_name_mismatch",
            "connect to the host that the handshake or request names";
        /// The TLS handshake or the request has no host name, so it could be for any host at that address.
        EgressNameMissing = "egress.server_name_missing", "send the name of the host (SNI or `Host`)";
        /// The connection was neither to the proxy nor to an allowed name, so it cannot be forwarded.
        EgressDirect = "egress.direct_connection",
            "connect by name, or through the HTTP proxy in the server's environment";
        /// The server has too many open connections.
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
            // The dot distinguishes the id of a reason from that of a denial.
            assert!(reason.id().contains('.'), "{reason:?}");
            assert!(reason.meaning().ends_with('.') && !reason.meaning().contains("  "), "{reason:?}");
            assert!(!reason.fix().is_empty() && !reason.fix().ends_with('.'), "{reason:?}");
        }
        assert_eq!(Reason::of_id("tools.not-listed"), None);
    }
}
