//! The body of a server's response.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::{connection::HttpConnection, error::ConnectionError, framing::Framing, pool::ConnectionPool};

/// A response body that returns its connection to the pool once it was received completely.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    framing: Framing,
    /// Bytes that were received but not consumed yet.
    buffered: Bytes,
    connection: Option<Box<HttpConnection>>,
    /// Whether the connection can be reused.
    keep_alive: bool,
    pool: Arc<ConnectionPool>,
}

impl ResponseBody {
    pub(super) fn new(
        framing: Framing,
        read: Bytes,
        connection: Box<HttpConnection>,
        keep_alive: bool,
        pool: &Arc<ConnectionPool>,
    ) -> Self {
        let mut received = Self {
            framing,
            buffered: read,
            connection: Some(connection),
            keep_alive,
            pool: Arc::clone(pool),
        };
        let size = received.buffered.len() as u64;
        if matches!(framing, Framing::Sized(left) if left <= size) {
            received.keep_alive &= framing == Framing::Sized(size);
            received.release_connection();
        }
        received
    }

    /// Returns the connection to the pool.
    fn release_connection(&mut self) {
        if let Some(connection) =
            self.connection.take().filter(|connection| self.keep_alive && connection.is_request_sent())
        {
            self.pool.put(connection);
        }
    }

    /// Polls for the next chunk, or the end.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ConnectionError>> {
        loop {
            let chunk = self.framing.take(&mut self.buffered)?;
            if self.framing.is_done() && self.connection.is_some() {
                // Unexpected bytes must not become the response to the next request.
                self.keep_alive &= self.buffered.is_empty();
                self.release_connection();
            }
            if chunk.is_some() || self.framing.is_done() {
                return Poll::Ready(Ok(chunk));
            }
            let Some(connection) = &mut self.connection else { return Poll::Ready(Ok(None)) };
            match connection.drive_upload(cx) {
                Err(error @ ConnectionError::RequestBody(_)) => return Poll::Ready(Err(error)),
                // The server may still send the rest of the response.
                Err(_) => self.keep_alive = false,
                Ok(()) => {}
            }
            self.buffered = ready!(connection.poll_read(cx))?;
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
        self.poll_chunk(cx).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)).transpose())
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
