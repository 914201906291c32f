//! Defines the traits that the proxy's layers and endpoints implement.

use std::{future::Future, pin::Pin};

use http::StatusCode;

use super::{
    check_outcome::{Finding, Passed},
    last_seen::LastExchange,
    respond::{self, Request, Response},
};

/// A future response.
pub(crate) type ResponseFuture<'a> = Pin<Box<dyn Future<Output = Response> + Send + 'a>>;

/// A layer of the stack: inspects or handles each request, and may change its response.
pub(crate) trait Layer: Send + Sync {
    /// Decides what becomes of the request, which it may change. Most layers need no more; passing a request by value
    /// from layer to layer, and boxing a future, takes longer than their decisions.
    fn inspect(&self, request: &mut Request) -> Inspection {
        let _ = request;
        Inspection::Handle
    }

    /// Responds to the request, or passes it to `next`.
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        next.handle(request)
    }
}

/// What becomes of a request in a layer.
pub(crate) enum Inspection {
    /// The next layer gets it.
    Pass,
    /// This is the response.
    Respond(Box<Response>),
    /// The layer has to [`handle`](Layer::handle) it.
    Handle,
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
    pub(crate) fn handle(mut self, mut request: Request) -> ResponseFuture<'a> {
        while let Some((layer, layers)) = self.layers.split_first() {
            self.layers = layers;
            match layer.inspect(&mut request) {
                Inspection::Pass => {}
                Inspection::Respond(response) => return Box::pin(std::future::ready(*response)),
                Inspection::Handle => return layer.handle(request, self),
            }
        }
        self.endpoint.handle(request)
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
