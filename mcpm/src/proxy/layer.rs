//! The traits of layers and endpoints.

use std::{future::Future, pin::Pin};

use http::StatusCode;

use super::{
    check_outcome::{Finding, Passed},
    last_seen::LastExchange,
    respond::{self, Request, Response},
};

/// A future response.
pub(crate) type ResponseFuture<'a> = Pin<Box<dyn Future<Output = Response> + Send + 'a>>;

/// A layer of the stack: handles each request, and may change its response.
pub(crate) trait Layer: Send + Sync {
    /// Responds to the request, or passes it to `next`.
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a>;
}

/// The end of the stack, which responds to requests that all layers pass on.
pub(crate) trait Endpoint: Send + Sync {
    /// Responds to the request.
    fn handle(&self, request: Request) -> ResponseFuture<'_>;
    /// The server's own path, if it differs from the one that clients use.
    fn path(&self) -> &str {
        "/"
    }
    /// Returns whether the server can be used, or the reason why not.
    fn health(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>>;
    /// The last exchange with an HTTP server.
    fn last_exchange(&self) -> Option<LastExchange> {
        None
    }
    /// Checks an HTTP server with one MCP exchange.
    fn check(&self) -> Pin<Box<dyn Future<Output = Result<Passed, Finding>> + Send + '_>> {
        Box::pin(std::future::ready(Ok(Passed::Mcp)))
    }
}

/// The endpoint of a stack whose layers handle all existing paths.
pub(super) struct NotFound;

impl Endpoint for NotFound {
    fn handle(&self, _: Request) -> ResponseFuture<'_> {
        Box::pin(std::future::ready(respond::empty(StatusCode::NOT_FOUND)))
    }

    fn path(&self) -> &str {
        "/"
    }

    fn health(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The inner layers and the endpoint.
#[derive(Clone, Copy)]
pub(crate) struct Next<'a> {
    layers: &'a [Box<dyn Layer>],
    endpoint: &'a dyn Endpoint,
}

impl<'a> Next<'a> {
    pub(super) fn new(layers: &'a [Box<dyn Layer>], endpoint: &'a dyn Endpoint) -> Self {
        Self { layers, endpoint }
    }

    /// Passes the request to the rest of the stack.
    pub(crate) fn handle(self, request: Request) -> ResponseFuture<'a> {
        match self.layers.split_first() {
            Some((layer, layers)) => layer.handle(request, Self { layers, ..self }),
            None => self.endpoint.handle(request),
        }
    }

    /// The endpoint's health.
    pub(crate) async fn health(self) -> Result<(), String> {
        self.endpoint.health().await
    }

    /// The endpoint's last exchange with its server.
    pub(crate) fn last_exchange(self) -> Option<LastExchange> {
        self.endpoint.last_exchange()
    }
}
