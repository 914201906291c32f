//! Limits the size of request bodies.
//!
//! If `Content-Length` is above the limit, the request is rejected, and at most the beginning of its body is read, for
//! the request's id. A body of unknown length fails when it exceeds the limit, and [`body_errors`] creates the
//! response.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::header;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, timeout_at};

use crate::{
    mcp::request_id::scan_request_id,
    proxy::{
        body::{Body, BodyError, BodyLimitExceeded},
        body_errors,
        layer::{Inspection, Layer, Next, ResponseFuture},
        respond::Request,
    },
};

/// Maximum size of a body in bytes.
const MAX_BODY_BYTES: u64 = 16 << 20;
/// How much of a rejected body is read for the id of its request.
const MAX_ID_SCAN_BYTES: usize = 64 << 10;
/// Timeout for reading that part, which is short because it is also read from unauthenticated callers.
const ID_SCAN_TIMEOUT: Duration = Duration::from_secs(2);

/// The layer.
#[derive(Debug)]
pub(crate) struct BodyLimit {
    limit: u64,
}

impl Default for BodyLimit {
    fn default() -> Self {
        Self { limit: MAX_BODY_BYTES }
    }
}

impl Layer for BodyLimit {
    fn inspect(&self, request: &mut Request) -> Inspection {
        let (size, limit) = (request.body().size_hint(), self.limit);
        if size.lower() > limit {
            return Inspection::Handle;
        }
        if size.exact().is_none() {
            let body = std::mem::replace(request.body_mut(), Body::empty());
            *request.body_mut() = Body::stream(LimitedBody { body, left: limit, limit });
        }
        Inspection::Pass
    }

    fn handle<'a>(&'a self, request: Request, _next: Next<'a>) -> ResponseFuture<'a> {
        let past = BodyLimitExceeded(self.limit);
        Box::pin(async move {
            // A client that waits for `100 Continue` has sent nothing of the body yet.
            let expects_continue = request.headers().contains_key(header::EXPECT);
            let prefix =
                if expects_continue { BytesMut::new() } else { read_prefix(request.into_body()).await };
            body_errors::too_large(&past, &scan_request_id(&prefix))
        })
    }
}

/// Reads the beginning of a body within the timeout.
async fn read_prefix(mut body: Body) -> BytesMut {
    let (mut prefix, deadline) = (BytesMut::new(), Instant::now() + ID_SCAN_TIMEOUT);
    while prefix.len() < MAX_ID_SCAN_BYTES
        && let Ok(Ok(Some(piece))) = timeout_at(deadline, body.next_chunk()).await
    {
        prefix.extend_from_slice(&piece);
    }
    prefix
}

struct LimitedBody {
    body: Body,
    left: u64,
    limit: u64,
}

impl HttpBody for LimitedBody {
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
                None => return Poll::Ready(Some(Err(Box::new(BodyLimitExceeded(self.limit))))),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A body that stalls after its first chunk.
    struct Stalls(Option<Bytes>);

    impl HttpBody for Stalls {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            self.0.take().map_or(Poll::Pending, |piece| Poll::Ready(Some(Ok(Frame::data(piece)))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reading_an_oversized_body_is_bounded_in_time() {
        let begin = Instant::now();
        let begun = read_prefix(Body::stream(Stalls(Some(Bytes::from_static(b"{\"id\":1,"))))).await;
        assert_eq!((scan_request_id(&begun), begun.len()), (Bytes::from_static(b"1"), 8));
        assert!(begin.elapsed() < ID_SCAN_TIMEOUT + Duration::from_secs(1));
    }
}
