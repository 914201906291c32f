//! The body of a server's answer.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::{broken::Broken, framing::Framing, link::Link, pool::Pool};

/// A body that gives its connection back once all of it was read from there.
#[derive(Debug)]
pub(crate) struct Received {
    framing: Framing,
    /// What was read and not taken yet.
    read: Bytes,
    link: Option<Box<Link>>,
    /// Whether the connection can be used again.
    lasts: bool,
    pool: Arc<Pool>,
}

impl Received {
    pub(super) fn new(framing: Framing, read: Bytes, link: Box<Link>, lasts: bool, pool: &Arc<Pool>) -> Self {
        let mut received = Self { framing, read, link: Some(link), lasts, pool: Arc::clone(pool) };
        let size = received.read.len() as u64;
        if matches!(framing, Framing::Sized(left) if left <= size) {
            received.lasts &= framing == Framing::Sized(size);
            received.give_back();
        }
        received
    }

    /// Has the next request use the connection.
    fn give_back(&mut self) {
        if let Some(link) = self.link.take().filter(|link| self.lasts && link.is_free()) {
            self.pool.keep(link);
        }
    }

    /// The next piece, or the end.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broken>> {
        loop {
            let piece = self.framing.take(&mut self.read)?;
            if self.framing.is_over() && self.link.is_some() {
                // What comes unasked is no answer to the next request.
                self.lasts &= self.read.is_empty();
                self.give_back();
            }
            if piece.is_some() || self.framing.is_over() {
                return Poll::Ready(Ok(piece));
            }
            let Some(link) = &mut self.link else { return Poll::Ready(Ok(None)) };
            match link.send(cx) {
                Err(error @ Broken::Request(_)) => return Poll::Ready(Err(error)),
                // The answer may go on.
                Err(_) => self.lasts = false,
                Ok(()) => {}
            }
            self.read = ready!(link.poll_read(cx))?;
            if self.read.is_empty() {
                self.link = None;
                return Poll::Ready(match self.framing {
                    Framing::UntilClosed => Ok(None),
                    Framing::Sized(_) | Framing::Chunked(_) => Err(Broken::Closed),
                });
            }
        }
    }
}

impl HttpBody for Received {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        self.poll_piece(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)).transpose())
    }

    fn is_end_stream(&self) -> bool {
        self.framing.is_over()
    }

    fn size_hint(&self) -> SizeHint {
        match self.framing {
            Framing::Sized(left) => SizeHint::with_exact(left),
            _ if self.framing.is_over() => SizeHint::with_exact(0),
            Framing::UntilClosed | Framing::Chunked(_) => SizeHint::default(),
        }
    }
}
