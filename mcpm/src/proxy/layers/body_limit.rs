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
    mcp::peek::id_in,
    proxy::{
        layer::{Answer, Layer, Next},
        respond::Request,
        untaken,
    },
    transport::body::{Body, BodyError, PastLimit},
};

/// Largest body in bytes.
const LIMIT: u64 = 16 << 20;
/// How much of one that is refused is read for the id of its request.
const LOOKED_AT: usize = 64 << 10;
/// How long that may take: it is done for anybody, before anybody is asked who they are.
const LOOKING: Duration = Duration::from_secs(2);

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

impl Layer for BodyLimit {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> Answer<'a> {
        let size = request.body().size_hint();
        if size.lower() > self.limit {
            let past = PastLimit(self.limit);
            return Box::pin(async move {
                // A client that asks before it sends the body has said nothing of it yet.
                let asks = request.headers().contains_key(header::EXPECT);
                let begun = if asks { BytesMut::new() } else { beginning(request.into_body()).await };
                untaken::too_large(&past, &id_in(&begun))
            });
        }
        if size.exact().is_some() {
            return next.handle(request);
        }
        let limit = self.limit;
        next.handle(request.map(|body| Body::stream(Limited { body, left: limit, limit })))
    }
}

/// What has come of a body before long.
async fn beginning(mut body: Body) -> BytesMut {
    let (mut begun, deadline) = (BytesMut::new(), Instant::now() + LOOKING);
    while begun.len() < LOOKED_AT
        && let Ok(Ok(Some(piece))) = timeout_at(deadline, body.piece()).await
    {
        begun.extend_from_slice(&piece);
    }
    begun
}

struct Limited {
    body: Body,
    left: u64,
    limit: u64,
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
                None => return Poll::Ready(Some(Err(Box::new(PastLimit(self.limit))))),
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
    async fn a_body_that_is_too_large_is_not_waited_for_for_long() {
        let begin = Instant::now();
        let begun = beginning(Body::stream(Stalls(Some(Bytes::from_static(b"{\"id\":1,"))))).await;
        assert_eq!((id_in(&begun), begun.len()), (Bytes::from_static(b"1"), 8));
        assert!(begin.elapsed() < LOOKING + Duration::from_secs(1));
    }
}
