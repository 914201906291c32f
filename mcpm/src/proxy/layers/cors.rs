//! Sets CORS headers for allowed origins, and responds to preflight requests (Fetch, "CORS protocol").
//!
//! [`OriginCheck`](super::origin::OriginCheck) has already checked the origin. The proxy sets the headers in its own
//! responses and in those of the server: pages must be able to read errors, for example to find out where to log in.
//! The layer is only in the stack if origins are configured or callers are authenticated. Otherwise pages on loopback
//! origins get the server's CORS headers.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use crate::proxy::{
    layer::{Inspection, Layer, Next, ResponseFuture},
    respond::{self, Request, Response},
};

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, DELETE, OPTIONS");
/// Response headers that pages may read in addition to those always readable.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "Mcp-Session-Id, Mcp-Protocol-Version, Mcpm-Refusal, WWW-Authenticate, Retry-After",
);
/// How long a browser may cache a preflight response, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");
const ORIGIN: HeaderValue = HeaderValue::from_static("Origin");
/// CORS headers of the server that the proxy replaces or removes: pages send tokens explicitly, and need no
/// cookies.
const UPSTREAM_CORS_HEADERS: [HeaderName; 3] = [
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
];

/// The layer.
#[derive(Debug)]
pub(crate) struct Cors;

/// Whether a request is a preflight request, which has no credentials.
fn is_preflight(request: &Request) -> bool {
    *request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The preflight response: allows all requested headers.
fn preflight(asked: &HeaderMap, origin: HeaderValue) -> Response {
    let mut response = respond::empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    for requested in asked.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.append(header::ACCESS_CONTROL_ALLOW_HEADERS, requested.clone());
    }
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    headers.insert(header::VARY, HeaderValue::from_static("Origin, Access-Control-Request-Headers"));
    response
}

/// Allows the origin to read the response.
fn allow_origin(headers: &mut HeaderMap, origin: HeaderValue) {
    for name in UPSTREAM_CORS_HEADERS {
        headers.remove(name);
    }
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.append(header::VARY, ORIGIN);
}

impl Layer for Cors {
    fn inspect(&self, request: &mut Request) -> Inspection {
        match request.headers().contains_key(header::ORIGIN) {
            true => Inspection::Handle,
            false => Inspection::Pass,
        }
    }

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
