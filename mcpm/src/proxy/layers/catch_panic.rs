//! Turns a panic into a 500, so that it costs one request and not the connection.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use http::StatusCode;

use crate::{
    mcp::error_code,
    proxy::{
        layer::{Layer, Next, ResponseFuture},
        respond::{self, Request, Response},
    },
};

/// The layer.
#[derive(Debug)]
pub(crate) struct CatchPanic;

impl Layer for CatchPanic {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        let answer = std::panic::catch_unwind(AssertUnwindSafe(|| next.handle(request)));
        Box::pin(async move {
            match answer {
                Ok(answer) => {
                    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| internal_error())
                }
                Err(_) => internal_error(),
            }
        })
    }
}

fn internal_error() -> Response {
    tracing::error!("a request met a defect in mcpm");
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    respond::error(status, error_code::INTERNAL_ERROR, "a defect in mcpm", b"")
}
