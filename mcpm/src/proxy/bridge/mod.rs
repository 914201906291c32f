//! Serves a stdio server over HTTP.
//!
//! [`streamable`] is `/mcp` in both eras, [`sse`] the deprecated pair `/sse` and `/messages`; [`stream`] turns what
//! the server says into events. Headers are checked against bodies by [`super::mirror`]. Whom a message concerns is decided
//! in [`crate::mcp`].

mod sse;
mod stream;
mod streamable;

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};

use super::{
    layer::{Answer, Endpoint},
    layers::telemetry::sent,
    public::Publicity,
    respond::{self, Request, Response},
    trail::Trail,
    untaken,
};
use crate::{
    alarm::Alarms,
    mcp::{error_code, router::Router},
    options::ProxyMode,
};

/// The endpoint in front of a stdio server.
#[derive(Debug)]
pub(crate) struct Bridge {
    router: Arc<Router>,
    mode: ProxyMode,
    publicity: Publicity,
    alarms: Alarms,
}

impl Bridge {
    pub(crate) fn new(router: Arc<Router>, mode: ProxyMode, publicity: Publicity) -> Self {
        Self { router, mode, publicity, alarms: Alarms::default() }
    }
}

impl Endpoint for Bridge {
    fn handle(&self, request: Request) -> Answer<'_> {
        if *request.method() != Method::POST {
            // It asks nothing of the server, and finds its stream or nothing.
            sent(request.extensions());
        }
        if let Some(trail) = request.extensions().get::<Trail>() {
            // It has what it needs from its environment.
            trail.sends(&HeaderMap::new(), &HeaderMap::new());
        }
        Box::pin(async move {
            match (self.mode, request.uri().path()) {
                (ProxyMode::StreamableHttp, "/mcp") => streamable::handle(self, request).await,
                (ProxyMode::Sse, "/sse") => sse::open(&self.router, &self.publicity, &request),
                (ProxyMode::Sse, "/messages") => sse::post(&self.router, request).await,
                (mode, _) => {
                    let place = if mode == ProxyMode::Sse { "/sse" } else { "/mcp" };
                    let message = format!("nothing is here; the server is at `{place}`");
                    respond::error(StatusCode::NOT_FOUND, error_code::INVALID_REQUEST, &message, b"")
                }
            }
        })
    }

    fn health(&self) -> Pin<Box<dyn Future<Output = Result<(), String>> + Send + '_>> {
        Box::pin(std::future::ready(self.router.health()))
    }
}

/// Reads a whole body; the stack has bounded it.
async fn read(request: Request) -> Result<(http::request::Parts, Bytes), Response> {
    let (parts, body) = request.into_parts();
    match body.whole(|| respond::body_account(&parts.extensions)).await {
        Ok(body) => Ok((parts, body)),
        Err(broken) => Err(untaken::broken(&broken)),
    }
}
