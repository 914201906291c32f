//! Sends the part of a request that the first write did not send: the rest of the head and the body, or a streamed
//! body.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use tokio::io::AsyncWrite as _;

use super::{error::ConnectionError, request_body::RequestBody, stream::Stream};

/// The part of a request that is still to be sent.
pub(super) struct Upload<B: ?Sized = dyn RequestBody> {
    /// Bytes that are written next.
    pending: Bytes,
    chunked: bool,
    /// Whether nothing follows `pending`.
    is_last: bool,
    body: B,
}

/// The request may contain credentials.
impl<B: ?Sized> std::fmt::Debug for Upload<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Upload(..)")
    }
}

impl<B: RequestBody> Upload<B> {
    pub(super) fn new(pending: Bytes, body: B, chunked: bool) -> Box<Self> {
        Box::new(Self { pending, chunked, is_last: false, body })
    }
}

impl Upload {
    /// Writes until the request is completely sent, or until it has to wait for the server or for the client.
    pub(super) fn poll(
        &mut self,
        stream: &mut Stream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), ConnectionError>> {
        let mut stream = Pin::new(stream);
        loop {
            while self.pending.has_remaining() {
                let written = ready!(stream.as_mut().poll_write(cx, &self.pending))?;
                if written == 0 {
                    return Poll::Ready(Err(io::Error::from(io::ErrorKind::WriteZero).into()));
                }
                self.pending.advance(written);
            }
            if self.is_last {
                return stream.poll_flush(cx).map_err(ConnectionError::Io);
            }
            let Poll::Ready(chunk) = self.body.poll_chunk(cx) else {
                // Written bytes are flushed before waiting for more, because the server may need them to continue.
                ready!(stream.poll_flush(cx))?;
                return Poll::Pending;
            };
            self.pending = match chunk {
                Some(Ok(data)) => self.encode_chunk(data),
                Some(Err(error)) => return Poll::Ready(Err(ConnectionError::RequestBody(error))),
                None => {
                    self.is_last = true;
                    if self.chunked { Bytes::from_static(b"0\r\n\r\n") } else { Bytes::new() }
                }
            };
        }
    }

    fn encode_chunk(&self, data: Bytes) -> Bytes {
        if !self.chunked || data.is_empty() {
            return data;
        }
        let size = format!("{:x}\r\n", data.len());
        [size.as_bytes(), &data[..], b"\r\n"].concat().into()
    }
}
