//! What of a request does not go out with its head.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use http_body::Body as _;
use tokio::io::AsyncWrite as _;

use super::{error::ConnectionError, stream::Stream};
use crate::transport::body::Body;

/// The rest of a request.
pub(super) struct Upload {
    /// To be written now.
    pending: Bytes,
    body: Body,
    chunked: bool,
    /// Whether `front` is all.
    is_last: bool,
}

/// What is to be written may hold credentials.
impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Upload(..)")
    }
}

impl Upload {
    pub(super) fn new(front: Bytes, body: Body, chunked: bool) -> Self {
        Self { pending: front, body, chunked, is_last: false }
    }

    /// Writes until all is written, or the server or the client has to be waited for.
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
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
                // The server may need what it has to go on.
                ready!(stream.poll_flush(cx))?;
                return Poll::Pending;
            };
            self.pending = match frame {
                Some(Ok(frame)) => frame.into_data().map(|data| self.encode_chunk(data)).unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Err(ConnectionError::RequestBody(error))),
                None => {
                    self.is_last = true;
                    if self.chunked { Bytes::from_static(b"0\r\n\r\n") } else { Bytes::new() }
                }
            };
        }
    }

    /// A piece of the body as it is written.
    fn encode_chunk(&self, data: Bytes) -> Bytes {
        if !self.chunked || data.is_empty() {
            return data;
        }
        let size = format!("{:x}\r\n", data.len());
        [size.as_bytes(), &data[..], b"\r\n"].concat().into()
    }
}
