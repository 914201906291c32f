//! Rejects TRACE and CONNECT, before authentication (RFC 9110 sections 9.3.6 and 9.3.8).
//!
//! A server's response to `TRACE` would contain the request with the headers that the proxy has added; `CONNECT`
//! would open a tunnel to any destination.

use http::Method;

use crate::proxy::{
    layer::{Layer, Next, ResponseFuture},
    respond::{self, Request},
};

/// The methods that MCP clients use.
const ALLOWED: &str = "GET, HEAD, POST, DELETE, OPTIONS";

/// The layer.
#[derive(Debug)]
pub(crate) struct Methods;

impl Layer for Methods {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        if matches!(*request.method(), Method::TRACE | Method::CONNECT) {
            return Box::pin(std::future::ready(respond::method_not_allowed(ALLOWED)));
        }
        next.handle(request)
    }
}
