//! Refuses the methods that are about the connection and not about anything on the server (RFC 9110 sections 9.3.6 and
//! 9.3.8).
//!
//! A server that answers `TRACE` says again what it was sent, with the headers that the proxy has put in; one that takes
//! `CONNECT` lets a caller through to wherever it likes.

use http::Method;

use crate::proxy::{
    layer::{Layer, Next, ResponseFuture},
    respond::{self, Request},
};

/// What there is for clients of MCP.
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
