//! Rejects TRACE and CONNECT, before authentication (RFC 9110 sections 9.3.6 and 9.3.8).
//!
//! A server's response to `TRACE` would contain the request with the headers that the proxy has added; `CONNECT`
//! would open a tunnel to any destination.

use http::Method;

use crate::proxy::{
    layer::{Inspection, Layer},
    respond::{self, Request},
};

/// The methods that MCP clients use.
const ALLOWED: &str = "GET, HEAD, POST, DELETE, OPTIONS";

/// The layer.
#[derive(Debug)]
pub(crate) struct Methods;

impl Layer for Methods {
    fn inspect(&self, request: &mut Request) -> Inspection {
        match *request.method() {
            Method::TRACE | Method::CONNECT => {
                Inspection::Respond(Box::new(respond::method_not_allowed(ALLOWED)))
            }
            _ => Inspection::Pass,
        }
    }
}
