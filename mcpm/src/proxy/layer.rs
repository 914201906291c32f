//! What a layer of the stack is.

use std::{future::Future, pin::Pin};

use http::StatusCode;

use super::{
    last_seen::LastExchange,
    respond::{self, Request, Response},
    server_check::{Finding, Passed},
};

/// An answer to come.
pub(crate) type ResponseFuture<'a> = Pin<Box<dyn Future<Output = Response> + Send + 'a>>;

/// One thing that is done to every request, or to its answer.
pub(crate) trait Layer: Send + Sync {
    /// Answers the request itself, or lets `next` do it.
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a>;
}

/// What answers a request that all layers let through.
pub(crate) trait Endpoint: Send + Sync {
    /// Answers the request.
    fn handle(&self, request: Request) -> ResponseFuture<'_>;
    /// The server's own path, where it has another than clients of the proxy use.
    fn path(&self) -> &str {
        "/"
    }
    /// Tells whether the server behind can be used, and if not, why.
    fn health(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>>;
    /// The last exchange with a server that speaks HTTP.
    fn last_exchange(&self) -> Option<LastExchange> {
        None
    }
    /// Checks with one MCP exchange that a server behind that speaks HTTP is an MCP server.
    fn check(&self) -> Pin<Box<dyn Future<Output = Result<Passed, Finding>> + Send + '_>> {
        Box::pin(std::future::ready(Ok(Passed::Mcp)))
    }
}

/// The endpoint of a stack whose layers answer everything that there is.
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

/// The layers further in, and the endpoint.
#[derive(Clone, Copy)]
pub(crate) struct Next<'a> {
    layers: &'a [Box<dyn Layer>],
    endpoint: &'a dyn Endpoint,
}

impl<'a> Next<'a> {
    pub(super) fn new(layers: &'a [Box<dyn Layer>], endpoint: &'a dyn Endpoint) -> Self {
        Self { layers, endpoint }
    }

    /// Lets the rest of the stack answer.
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
