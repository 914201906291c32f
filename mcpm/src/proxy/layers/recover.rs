//! Turns a panic into a 500, so that it costs one request and not the connection.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use http::StatusCode;

use crate::{
    mcp::error_code,
    proxy::{
        layer::{Answer, Layer, Next},
        respond::{self, Request},
    },
};

/// The layer.
#[derive(Debug)]
pub(crate) struct Recover;

impl Layer for Recover {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> Answer<'a> {
        Box::pin(async move {
            let answer = AssertUnwindSafe(async move { next.handle(request).await });
            answer.catch_unwind().await.unwrap_or_else(|_| {
                tracing::error!("a request met a defect in mcpm");
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                respond::error(status, error_code::INTERNAL_ERROR, "a defect in mcpm", b"")
            })
        })
    }
}
