//! The bridge: serves a stdio server over HTTP.
//!
//! Depending on the proxy mode, [`streamable`] handles requests to `/mcp` in both eras, or [`sse`] handles requests to
//! the deprecated `/sse` and `/messages`. [`stream`] converts the server's messages to SSE events.
//! [`super::header_check`] compares headers with bodies, and [`crate::stdio`] routes messages to processes.

mod sse;
mod stream;
mod streamable;

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{Extensions, HeaderMap, Method, StatusCode};

use super::{
    body_errors,
    external_url::ExternalUrlConfig,
    layer::{Endpoint, ResponseFuture},
    messages::RequestMessages,
    observe::{Exchange, mark_sent},
    respond::{self, Request, Response},
};
use crate::{
    mcp::{
        error_code,
        message::{Malformed, Message},
    },
    options::ProxyMode,
    stdio::router::Router,
    timers::CoarseTimers,
};

/// The endpoint for a stdio server.
#[derive(Debug)]
pub(crate) struct Bridge {
    router: Arc<Router>,
    mode: ProxyMode,
    publicity: ExternalUrlConfig,
    alarms: CoarseTimers,
}

impl Bridge {
    pub(crate) fn new(router: Arc<Router>, mode: ProxyMode, publicity: ExternalUrlConfig) -> Self {
        Self { router, mode, publicity, alarms: CoarseTimers::default() }
    }
}

impl Endpoint for Bridge {
    fn handle(&self, request: Request) -> ResponseFuture<'_> {
        if *request.method() != Method::POST {
            // A GET sends nothing to the server.
            mark_sent(request.extensions());
        }
        if let Some(exchange) = Exchange::of(request.extensions()) {
            // A stdio server gets its credentials from its environment.
            exchange.set_outgoing_headers(&HeaderMap::new(), &HeaderMap::new());
        }
        Box::pin(async move {
            match (self.mode, request.uri().path()) {
                (ProxyMode::StreamableHttp, "/mcp") => streamable::handle(self, request).await,
                (ProxyMode::Sse, "/sse") => sse::open(&self.router, &self.publicity, &request),
                (ProxyMode::Sse, "/messages") => sse::post(&self.router, request).await,
                (mode, _) => {
                    let path = if mode == ProxyMode::Sse { "/sse" } else { "/mcp" };
                    let message = format!("not found; the MCP endpoint is `{path}`");
                    respond::error(StatusCode::NOT_FOUND, error_code::INVALID_REQUEST, &message, b"")
                }
            }
        })
    }

    fn health(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(std::future::ready(self.router.health()))
    }
}

/// Parses the message in a body, unless a layer has already parsed the same bytes.
fn parse_message(extensions: &Extensions, body: &Bytes) -> Result<Message, Malformed> {
    let parsed = extensions.get::<Arc<RequestMessages>>().and_then(|messages| messages.single());
    // A layer may have replaced the body after it was parsed.
    let is_same =
        |message: &&Message| message.bytes().as_ptr() == body.as_ptr() && message.bytes().len() == body.len();
    match parsed.filter(is_same) {
        Some(message) => Ok(message.clone()),
        None => Message::parse(body.clone()),
    }
}

/// Reads a whole body; the stack has bounded it.
async fn read(request: Request) -> Result<(http::request::Parts, Bytes), Response> {
    let (parts, body) = request.into_parts();
    match body.collect(|| respond::body_account(&parts.extensions)).await {
        Ok(body) => Ok((parts, body)),
        Err(broken) => Err(body_errors::unreadable_body(&broken)),
    }
}
