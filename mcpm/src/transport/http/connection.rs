//! One connection to a server, used by one request at a time, whose own task reads and writes it.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    mem::MaybeUninit,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use super::{
    error::ConnectionError,
    head::{RequestHead, ResponseHead},
    stream::Stream,
    upload::Upload,
};
use crate::transport::body::Body;

/// How much is read at a time.
const READ_BUFFER_BYTES: usize = 16 << 10;

/// A connection.
#[derive(Debug)]
pub(super) struct HttpConnection {
    stream: Stream,
    /// What is still to be sent. Nearly always a request goes out at once and whole.
    upload: Option<Box<Upload>>,
}

/// Why a request got no answer.
pub(super) enum SendError {
    /// Nothing of it was sent. This is its body.
    Unsent(Body, io::Error),
    /// It was sent, whole or in part, and nothing came back. The server may have taken it.
    NoResponse(ConnectionError),
    /// The server may have taken it.
    Interrupted(ConnectionError),
}

impl HttpConnection {
    /// Takes over a stream on which nothing was said.
    pub(super) fn new(stream: Stream) -> Box<Self> {
        Box::new(Self { stream, upload: None })
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn exchange(
        &mut self,
        head: &RequestHead,
        body: Body,
    ) -> Result<ResponseHead, SendError> {
        self.write_request(head, body).await?;
        let mut read = Bytes::new();
        let mut failed = None;
        poll_fn(|cx| {
            loop {
                match self.drive_upload(cx) {
                    Err(error @ ConnectionError::RequestBody(_)) => {
                        return Poll::Ready(Err(SendError::Interrupted(error)));
                    }
                    // A server that does not want the body may have said so before it closed.
                    Err(error) => failed = Some(error),
                    Ok(()) => {}
                }
                let piece = match self.poll_read(cx) {
                    Poll::Ready(Ok(piece)) if !piece.is_empty() => piece,
                    Poll::Ready(ended) => {
                        let error = ended.map_or_else(ConnectionError::Io, |_| ConnectionError::Closed);
                        let error = failed.take().unwrap_or(error);
                        let failure =
                            if read.is_empty() { SendError::NoResponse } else { SendError::Interrupted };
                        return Poll::Ready(Err(failure(error)));
                    }
                    Poll::Pending => return Poll::Pending,
                };
                read = if read.is_empty() { piece } else { [&read[..], &piece[..]].concat().into() };
                if let Some(mut answer) =
                    ResponseHead::read(&mut read, head.method()).map_err(SendError::Interrupted)?
                {
                    // What came right behind the head is looked at while the status can still be another.
                    answer.framing.check(&answer.rest).map_err(SendError::Interrupted)?;
                    answer.keep_alive &= failed.is_none();
                    return Poll::Ready(Ok(answer));
                }
            }
        })
        .await
    }

    /// Sends what there is of a request, in one call to the system where that takes it.
    async fn write_request(&mut self, head: &RequestHead, mut body: Body) -> Result<(), SendError> {
        let whole = match &mut body {
            Body::Full(whole) => whole.take().unwrap_or_default(),
            _ => Bytes::new(),
        };
        let pieces = [IoSlice::new(head.text()), IoSlice::new(&whole)];
        let written = poll_fn(|cx| Pin::new(&mut self.stream).poll_write_vectored(cx, &pieces)).await;
        let error = match written {
            Ok(written) if written > 0 => {
                self.queue_remainder(head, &whole, body, written);
                return Ok(());
            }
            Ok(_) => io::ErrorKind::WriteZero.into(),
            // TLS may have sent some of it before it failed.
            Err(error) if self.stream.buffers() => return Err(SendError::Interrupted(error.into())),
            Err(error) => error,
        };
        let body = if whole.is_empty() { body } else { whole.into() };
        Err(SendError::Unsent(body, error))
    }

    /// Keeps what was not written of a head, of the bytes behind it, and of a body.
    fn queue_remainder(&mut self, head: &RequestHead, whole: &[u8], body: Body, written: usize) {
        let text = head.text();
        let is_all = matches!(body, Body::Full(_)) && written == text.len() + whole.len();
        if !is_all || self.stream.buffers() {
            let left = [&text[written.min(text.len())..], &whole[written.saturating_sub(text.len())..]];
            self.upload = Some(Box::new(Upload::new(left.concat().into(), body, head.is_chunked())));
        }
    }

    /// Sends on, if there is more to be sent.
    pub(super) fn drive_upload(&mut self, cx: &mut Context<'_>) -> Result<(), ConnectionError> {
        let Some(upload) = &mut self.upload else { return Ok(()) };
        match upload.poll(&mut self.stream, cx) {
            Poll::Ready(sent) => {
                self.upload = None;
                sent
            }
            Poll::Pending => Ok(()),
        }
    }

    /// Reads what there is; nothing when the server has closed the connection.
    ///
    /// What was read gets memory of its own size, so that a connection that waits holds none.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let mut buffer = [const { MaybeUninit::uninit() }; READ_BUFFER_BYTES];
        let mut buffer = ReadBuf::uninit(&mut buffer);
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
        read.map_ok(|()| Bytes::copy_from_slice(buffer.filled()))
    }

    /// Whether all was sent.
    pub(super) fn is_request_sent(&self) -> bool {
        self.upload.is_none()
    }

    /// Whether the server keeps it open and says nothing on it.
    pub(super) fn is_open_and_idle(&mut self) -> bool {
        // A task that has used up its turn would be told that nothing is there to read.
        let read = pin!(tokio::task::unconstrained(poll_fn(|cx| self.poll_read(cx))));
        read.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }
}
