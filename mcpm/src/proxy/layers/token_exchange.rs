//! Replaces the caller's token with one for the server (RFC 8693).
//!
//! The layer [`authenticate`](super::authenticate) has removed the caller's token from the headers; only the request's
//! [`Principal`] still contains it. Without an exchanged token, the request is not forwarded.

use std::sync::Arc;

use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{self, Entry},
};

use super::authenticate::Authenticator;
use crate::{
    auth::{
        exchange::{ExchangeError, TokenExchanger},
        incoming::Principal,
    },
    explain::Reason,
    mcp::error_code,
    proxy::{
        denial::Denial,
        hop_by_hop::{is_underscore_variant, strip},
        layer::{Layer, Next, ResponseFuture},
        messages::RequestMessages,
        observe::Exchange,
        respond::{self, Request, Response},
    },
};

/// The layer.
#[derive(Debug)]
pub(crate) struct TokenExchange {
    exchange: TokenExchanger,
    authenticator: Arc<Authenticator>,
}

impl TokenExchange {
    pub(crate) fn new(exchange: TokenExchanger, authenticator: Arc<Authenticator>) -> Self {
        Self { exchange, authenticator }
    }

    async fn exchange(&self, mut request: Request, next: Next<'_>) -> Response {
        let Some(principal) = request.extensions().get::<Arc<Principal>>().cloned() else {
            // Only a defect can cause a request without a principal.
            return self.deny(&request, ExchangeError::Unavailable);
        };
        // Boxed, because most of it is only needed in the rare case of a request to the endpoint.
        let token = match Box::pin(self.exchange.token(&principal)).await {
            Ok(token) => token,
            Err(failure) => return self.deny(&request, failure),
        };
        set_token(request.headers_mut(), self.exchange.header(), &token);
        if let Some(exchange) = Exchange::of(request.extensions()) {
            exchange.set_exchanged_token(self.exchange.header(), &token);
        }
        let messages = request.extensions().get::<Arc<RequestMessages>>().cloned();
        let mut response = next.handle(request).await;
        if is_accepted(&mut response) {
            return response;
        }
        self.exchange.forget(&principal, &token);
        token_rejected(messages.as_deref())
    }

    fn deny(&self, request: &Request, failure: ExchangeError) -> Response {
        let denial = Denial::new(failure.reason());
        let id = id(request.extensions().get::<Arc<RequestMessages>>().map(Arc::as_ref));
        let message = failure.message();
        match failure {
            ExchangeError::TokenNotAccepted => {
                let (status, error) = (StatusCode::UNAUTHORIZED, Some("invalid_token"));
                self.authenticator.challenge(status, error, message, request.headers(), denial)
            }
            ExchangeError::Denied => {
                respond::deny(StatusCode::FORBIDDEN, error_code::INVALID_REQUEST, message, &id, denial)
            }
            ExchangeError::ClientRejected | ExchangeError::UnusableToken | ExchangeError::Unavailable => {
                let status = StatusCode::SERVICE_UNAVAILABLE;
                respond::deny(status, error_code::INTERNAL_ERROR, message, &id, denial)
            }
        }
    }
}

/// Sets the header with the token and replaces the client's header of this name. The server gets the token even if the
/// client declares that header as hop-by-hop.
fn set_token(headers: &mut HeaderMap, name: &HeaderName, token: &HeaderValue) {
    strip(headers, |sent| is_underscore_variant(sent, |sent| sent == name.as_str()));
    headers.insert(name, token.clone());
}

/// Whether the server accepted the token. Its bearer challenge is removed, because it is not meant for the client.
fn is_accepted(response: &mut Response) -> bool {
    let status = response.status();
    let challenged = match response.headers_mut().entry(header::WWW_AUTHENTICATE) {
        Entry::Occupied(values) => values.remove_entry_mult().1.any(|values| is_bearer(&values)),
        Entry::Vacant(_) => false,
    };
    status != StatusCode::UNAUTHORIZED && !(status == StatusCode::FORBIDDEN && challenged)
}

/// Whether one of several challenges is for a bearer token (RFC 9110 section 11.6.1).
fn is_bearer(challenges: &HeaderValue) -> bool {
    const BEARER: &[u8] = b"bearer";
    challenges.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii).any(|challenge| {
        let (scheme, rest) = challenge.split_at(BEARER.len().min(challenge.len()));
        scheme.eq_ignore_ascii_case(BEARER) && rest.first().is_none_or(u8::is_ascii_whitespace)
    })
}

/// The response when the server rejects the exchanged token. It does not contain the server's challenge: the
/// client would discard its valid token and log in with an issuer that the proxy does not accept.
fn token_rejected(messages: Option<&RequestMessages>) -> Response {
    let denial = Denial::new(Reason::ExchangeNotTaken);
    let message = "the server does not accept the exchanged token";
    respond::deny(StatusCode::BAD_GATEWAY, error_code::INTERNAL_ERROR, message, &id(messages), denial)
}

/// The id of the request, if it was parsed.
fn id(messages: Option<&RequestMessages>) -> Vec<u8> {
    let single =
        messages.filter(|messages| !messages.is_batch()).and_then(|messages| messages.messages().first());
    single.map(|message| message.id_text().to_vec()).unwrap_or_default()
}

impl Layer for TokenExchange {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        Box::pin(self.exchange(request, next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_of_the_server_are_not_forwarded() {
        const SCOPE: &str = "Bearer error=\"insufficient_scope\", scope=\"more\"";
        for (status, challenges, expected) in [
            (200, &[][..], true),
            (200, &[SCOPE], true),
            (404, &[SCOPE], true),
            (401, &[], false),
            (401, &["Basic realm=\"x\""], false),
            (403, &[], true),
            (403, &["Basic realm=\"bearer\"", "Bearers x"], true),
            (403, &[SCOPE], false),
            (403, &["bearer"], false),
            (403, &["Basic realm=\"x\"", SCOPE], false),
            (403, &["Basic realm=\"x\", BEARER scope=\"more\""], false),
        ] {
            let mut response = respond::empty(StatusCode::from_u16(status).expect("a status"));
            for challenge in challenges {
                let challenge = HeaderValue::from_static(challenge);
                response.headers_mut().append(header::WWW_AUTHENTICATE, challenge);
            }
            assert_eq!(is_accepted(&mut response), expected, "{status} {challenges:?}");
            assert!(!response.headers().contains_key(header::WWW_AUTHENTICATE), "{status} {challenges:?}");
        }
    }

    #[test]
    fn underscore_variants_of_the_token_header_are_removed() {
        let token = HeaderValue::from_static("other");
        let mut headers = HeaderMap::new();
        headers.insert("x_upstream-token", HeaderValue::from_static("mine"));
        headers.insert("x_other", HeaderValue::from_static("stays"));
        set_token(&mut headers, &HeaderName::from_static("x-upstream-token"), &token);
        let left: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(left, [("x_other", &b"stays"[..]), ("x-upstream-token", b"other")]);
    }

    #[test]
    fn a_connection_header_cannot_remove_the_token() {
        let token = HeaderValue::from_static("Bearer other");
        for name in [header::AUTHORIZATION, HeaderName::from_static("x-upstream-token")] {
            for named in [name.as_str().to_owned(), format!("close, {}", name.as_str().to_uppercase())] {
                let mut headers = HeaderMap::new();
                headers.insert(header::CONNECTION, named.parse().expect("a value"));
                headers.insert(&name, HeaderValue::from_static("mine"));
                set_token(&mut headers, &name, &token);
                // The endpoint does the same before it sends the request.
                strip(&mut headers, |_| false);
                assert_eq!(headers.get_all(&name).iter().collect::<Vec<_>>(), [&token], "{named}");
            }
        }
    }
}
