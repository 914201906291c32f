//! The body of a server's answer.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::{connection::HttpConnection, error::ConnectionError, framing::Framing, pool::ConnectionPool};

/// A body that gives its connection back once all of it was read from there.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    framing: Framing,
    /// What was read and not taken yet.
    buffered: Bytes,
    connection: Option<Box<HttpConnection>>,
    /// Whether the connection can be used again.
    keep_alive: bool,
    pool: Arc<ConnectionPool>,
}

impl ResponseBody {
    pub(super) fn new(
        framing: Framing,
        read: Bytes,
        link: Box<HttpConnection>,
        lasts: bool,
        pool: &Arc<ConnectionPool>,
    ) -> Self {
        let mut received = Self {
            framing,
            buffered: read,
            connection: Some(link),
            keep_alive: lasts,
            pool: Arc::clone(pool),
        };
        let size = received.buffered.len() as u64;
        if matches!(framing, Framing::Sized(left) if left <= size) {
            received.keep_alive &= framing == Framing::Sized(size);
            received.release_connection();
        }
        received
    }

    /// Has the next request use the connection.
    fn release_connection(&mut self) {
        if let Some(link) = self.connection.take().filter(|link| self.keep_alive && link.is_request_sent()) {
            self.pool.put(link);
        }
    }

    /// The next piece, or the end.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ConnectionError>> {
        loop {
            let piece = self.framing.take(&mut self.buffered)?;
            if self.framing.is_done() && self.connection.is_some() {
                // What comes unasked is no answer to the next request.
                self.keep_alive &= self.buffered.is_empty();
                self.release_connection();
            }
            if piece.is_some() || self.framing.is_done() {
                return Poll::Ready(Ok(piece));
            }
            let Some(link) = &mut self.connection else { return Poll::Ready(Ok(None)) };
            match link.drive_upload(cx) {
                Err(error @ ConnectionError::RequestBody(_)) => return Poll::Ready(Err(error)),
                // The answer may go on.
                Err(_) => self.keep_alive = false,
                Ok(()) => {}
            }
            self.buffered = ready!(link.poll_read(cx))?;
            if self.buffered.is_empty() {
                self.connection = None;
                return Poll::Ready(match self.framing {
                    Framing::UntilClosed => Ok(None),
                    Framing::Sized(_) | Framing::Chunked(_) => Err(ConnectionError::Closed),
                });
            }
        }
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = ConnectionError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ConnectionError>>> {
        self.poll_chunk(cx).map(|piece| piece.map(|piece| piece.map(Frame::data)).transpose())
    }

    fn is_end_stream(&self) -> bool {
        self.framing.is_done()
    }

    fn size_hint(&self) -> SizeHint {
        match self.framing {
            Framing::Sized(left) => SizeHint::with_exact(left),
            _ if self.framing.is_done() => SizeHint::with_exact(0),
            Framing::UntilClosed | Framing::Chunked(_) => SizeHint::default(),
        }
    }
}
