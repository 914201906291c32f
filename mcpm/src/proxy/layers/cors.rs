//! Lets pages of a browser read what they may ask for (Fetch, "CORS protocol").
//!
//! Which pages those are was decided before, by [`Origin`](super::origin::Origin). The proxy answers for itself and for
//! the server: a page that may call the one may call the other, and a browser must be able to read refusals, or it
//! never learns where to log in. It stands in the stack only where somebody has said who may come: with origins that
//! are named, or with callers who are asked who they are. Elsewhere a page of this machine gets what the server says.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::proxy::{
    layer::{Layer, Next, ResponseFuture},
    respond::{self, Request, Response},
};

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, DELETE, OPTIONS");
/// What pages need beyond what they may read of every answer.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "Mcp-Session-Id, Mcp-Protocol-Version, Mcpm-Refusal, WWW-Authenticate, Retry-After",
);
/// How long a browser need not ask again, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
const ORIGIN: HeaderValue = HeaderValue::from_static("Origin");
/// What a server behind may say, and the proxy says in its place or not at all: pages send tokens by themselves, and need
/// no cookies for it.
const UPSTREAM_CORS_HEADERS: [HeaderName; 3] = [
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
];

/// The layer.
#[derive(Debug)]
pub(crate) struct Cors;

/// Whether a browser asks if a page may ask, which it does without credentials.
fn is_preflight(request: &Request) -> bool {
    *request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight request: the page may, with whatever headers it wants to send.
fn preflight(asked: &HeaderMap, origin: HeaderValue) -> Response {
    let mut response = respond::empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    for wanted in asked.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.append(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    headers.insert(header::VARY, HeaderValue::from_static("Origin, Access-Control-Request-Headers"));
    response
}

/// Says that a page may read an answer.
fn allow_origin(headers: &mut HeaderMap, origin: HeaderValue) {
    for name in UPSTREAM_CORS_HEADERS {
        headers.remove(name);
    }
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(header::VARY, ORIGIN);
}

impl Layer for Cors {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        let Some(origin) = request.headers().get(header::ORIGIN).cloned() else {
            return next.handle(request);
        };
        if is_preflight(&request) {
            return Box::pin(std::future::ready(preflight(request.headers(), origin)));
        }
        Box::pin(async move {
            let mut response = next.handle(request).await;
            allow_origin(response.headers_mut(), origin);
            response
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cors_headers_of_the_server_are_replaced() {
        let mut headers = HeaderMap::new();
        for name in UPSTREAM_CORS_HEADERS {
            headers.append(name, HeaderValue::from_static("true"));
        }
        headers.append("access-control-allow-credentials", HeaderValue::from_static("true"));
        allow_origin(&mut headers, HeaderValue::from_static("https://page.example"));
        assert_eq!(headers.get("access-control-allow-credentials"), None);
        assert_eq!(headers.get_all("access-control-allow-origin").iter().count(), 1);
        assert_eq!(headers["access-control-allow-origin"], "https://page.example");
    }
}
