//! Bounds the size of request bodies.
//!
//! A body that says its size is refused before it is read; one that does not is cut off when it passes the
//! limit, and whoever reads it answers with [`untaken`].

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
        layer::{Layer, Next, ResponseFuture},
        respond::Request,
    },
};

/// Largest body in bytes.
const MAX_BODY_BYTES: u64 = 16 << 20;
/// How much of one that is refused is read for the id of its request.
const MAX_ID_SCAN_BYTES: usize = 64 << 10;
/// How long that may take: it is done for anybody, before anybody is asked who they are.
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
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        let size = request.body().size_hint();
        if size.lower() > self.limit {
            let past = BodyLimitExceeded(self.limit);
            return Box::pin(async move {
                // A client that asks before it sends the body has said nothing of it yet.
                let asks = request.headers().contains_key(header::EXPECT);
                let begun = if asks { BytesMut::new() } else { read_prefix(request.into_body()).await };
                body_errors::too_large(&past, &scan_request_id(&begun))
            });
        }
        if size.exact().is_some() {
            return next.handle(request);
        }
        let limit = self.limit;
        next.handle(request.map(|body| Body::stream(LimitedBody { body, left: limit, limit })))
    }
}

/// What has come of a body before long.
async fn read_prefix(mut body: Body) -> BytesMut {
    let (mut begun, deadline) = (BytesMut::new(), Instant::now() + ID_SCAN_TIMEOUT);
    while begun.len() < MAX_ID_SCAN_BYTES
        && let Ok(Ok(Some(piece))) = timeout_at(deadline, body.next_chunk()).await
    {
        begun.extend_from_slice(&piece);
    }
    begun
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

    /// A body of which nothing comes any more after its first piece.
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
