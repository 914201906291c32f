//! Bounds the size of request bodies.
//!
//! A body that says its size is refused before it is read; one that does not is cut off when it passes the
//! limit, and whoever reads it answers with [`too_large`].

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::{
    mcp::error_code,
    proxy::{
        layer::{Answer, Layer, Next},
        respond::{self, Request, Response},
    },
    transport::body::{Body, BodyError},
};

/// Largest body in bytes.
const LIMIT: u64 = 16 << 20;

/// The layer.
#[derive(Debug)]
pub(crate) struct BodyLimit {
    limit: u64,
}

impl Default for BodyLimit {
    fn default() -> Self {
        Self { limit: LIMIT }
    }
}

/// The answer to a body beyond the limit.
pub(crate) fn too_large() -> Response {
    let message = format!("the body is larger than {LIMIT} bytes");
    respond::error(StatusCode::PAYLOAD_TOO_LARGE, error_code::INVALID_REQUEST, &message, b"")
}

impl Layer for BodyLimit {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> Answer<'a> {
        let size = request.body().size_hint();
        if size.lower() > self.limit {
            return Box::pin(std::future::ready(too_large()));
        }
        if size.exact().is_some() {
            return next.handle(request);
        }
        let left = self.limit;
        next.handle(request.map(|body| Body::stream(Limited { body, left })))
    }
}

/// The body passed the limit.
#[derive(Debug)]
pub(crate) struct PastLimit;

impl std::fmt::Display for PastLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the body is too large")
    }
}

impl std::error::Error for PastLimit {}

struct Limited {
    body: Body,
    left: u64,
}

impl HttpBody for Limited {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            let size = frame.data_ref().map_or(0, |data| data.len() as u64);
            match self.left.checked_sub(size) {
                Some(left) => self.left = left,
                None => return Poll::Ready(Some(Err(Box::new(PastLimit)))),
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
