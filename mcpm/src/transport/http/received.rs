//! The body of a server's answer.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;

use super::{link::Link, pool::Pool};

/// A body that gives its connection back once it was read to the end.
#[derive(Debug)]
pub(crate) struct Received {
    body: Incoming,
    link: Option<Box<Link>>,
    pool: Arc<Pool>,
}

impl Received {
    pub(super) fn new(body: Incoming, link: Box<Link>, pool: Arc<Pool>) -> Self {
        let mut received = Self { body, link: Some(link), pool };
        if received.body.is_end_stream() {
            received.keep_link();
        }
        received
    }

    fn keep_link(&mut self) {
        if let Some(link) = self.link.take() {
            self.pool.keep(link);
        }
    }
}

impl HttpBody for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self { body, link, .. } = &mut *self;
        let polled = match link {
            Some(link) => link.poll(cx, |cx| Pin::new(&mut *body).poll_frame(cx)),
            None => Pin::new(body).poll_frame(cx),
        };
        let over = match &polled {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(_))) => self.body.is_end_stream(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => false,
        };
        if over {
            self.keep_link();
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
