//! A connection to a server, which is used by one request at a time; the task of that request reads and writes it.

use std::{
    future::poll_fn,
    io::{self, IoSlice},
    mem::MaybeUninit,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::HeaderMap;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use super::{
    error::ConnectionError,
    head::{RequestHead, ResponseHead},
    request_body::{RequestBody, UnsentBody},
    stream::Stream,
    upload::Upload,
};

/// Size of the read buffer in bytes.
const READ_BUFFER_BYTES: usize = 16 << 10;

/// A connection to a server.
#[derive(Debug)]
pub(super) struct HttpConnection {
    stream: Stream,
    /// The part of the request that is still to be sent. It is rarely needed, because most requests are sent completely
    /// with one call.
    upload: Option<Box<Upload>>,
}

/// Why a request got no response.
pub(super) enum SendError<B> {
    /// Nothing of the request was sent; contains its body.
    Unsent(UnsentBody<B>, io::Error),
    /// The request was sent, completely or in part, and nothing was received. The server may have processed it.
    NoResponse(ConnectionError),
    /// The exchange failed later, or it is unknown how much was sent. The server may have processed the request.
    Interrupted(ConnectionError),
}

impl HttpConnection {
    /// Creates a connection from a stream that was not used yet.
    pub(super) fn new(stream: Stream) -> Box<Self> {
        Box::new(Self { stream, upload: None })
    }

    /// Sends a request and waits for the head of its response, whose headers are stored in `spare`.
    pub(super) async fn exchange<B: RequestBody>(
        &mut self,
        head: &RequestHead,
        body: UnsentBody<B>,
        spare: &mut HeaderMap,
    ) -> Result<ResponseHead, SendError<B>> {
        self.write_request(head, body).await?;
        let mut read = Bytes::new();
        let mut failed = None;
        poll_fn(|cx| {
            loop {
                match self.drive_upload(cx) {
                    Err(error @ ConnectionError::RequestBody(_)) => {
                        return Poll::Ready(Err(SendError::Interrupted(error)));
                    }
                    // A server that rejects the body may have responded before it closed the connection.
                    Err(error) => failed = Some(error),
                    Ok(()) => {}
                }
                let chunk = match self.poll_read(cx) {
                    Poll::Ready(Ok(chunk)) if !chunk.is_empty() => chunk,
                    Poll::Ready(ended) => {
                        let error = ended.map_or_else(ConnectionError::Io, |_| ConnectionError::Closed);
                        let error = failed.take().unwrap_or(error);
                        let failure =
                            if read.is_empty() { SendError::NoResponse } else { SendError::Interrupted };
                        return Poll::Ready(Err(failure(error)));
                    }
                    Poll::Pending => return Poll::Pending,
                };
                read = if read.is_empty() { chunk } else { [&read[..], &chunk[..]].concat().into() };
                if let Some(mut response) =
                    ResponseHead::read(&mut read, head.method(), spare).map_err(SendError::Interrupted)?
                {
                    // A malformed body should be detected here, if possible, because the status was not sent to the
                    // client yet.
                    response.framing.check(&response.rest).map_err(SendError::Interrupted)?;
                    response.keep_alive &= failed.is_none();
                    return Poll::Ready(Ok(response));
                }
            }
        })
        .await
    }

    /// Writes the head and the bytes of the body that are in memory, with one system call if that accepts all of them.
    async fn write_request<B: RequestBody>(
        &mut self,
        head: &RequestHead,
        body: UnsentBody<B>,
    ) -> Result<(), SendError<B>> {
        let (full, stream) = match body {
            UnsentBody::Full(bytes) => (bytes, None),
            UnsentBody::Stream(body) => (Bytes::new(), Some(body)),
        };
        let slices = [IoSlice::new(head.text()), IoSlice::new(&full)];
        let written = poll_fn(|cx| Pin::new(&mut self.stream).poll_write_vectored(cx, &slices)).await;
        let error = match written {
            Ok(written) if written > 0 => {
                self.queue_remainder(head, &full, stream, written);
                return Ok(());
            }
            Ok(_) => io::ErrorKind::WriteZero.into(),
            // TLS may have sent a part of the request before it failed.
            Err(error) if self.stream.buffers() => return Err(SendError::Interrupted(error.into())),
            Err(error) => error,
        };
        Err(SendError::Unsent(stream.map_or(UnsentBody::Full(full), UnsentBody::Stream), error))
    }

    /// Queues the unwritten rest of the head and of the body in memory, and the streamed body.
    fn queue_remainder<B: RequestBody>(
        &mut self,
        head: &RequestHead,
        full: &[u8],
        stream: Option<B>,
        written: usize,
    ) {
        let text = head.text();
        let is_all = stream.is_none() && written == text.len() + full.len();
        if !is_all || self.stream.buffers() {
            let left = [&text[written.min(text.len())..], &full[written.saturating_sub(text.len())..]];
            let left = Bytes::from(left.concat());
            self.upload = Some(match stream {
                Some(body) => Upload::new(left, body, head.is_chunked()),
                None => Upload::new(left, Bytes::new(), false),
            });
        }
    }

    /// Continues to send the request, if it is not completely sent yet.
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

    /// Reads the bytes that are available; none if the server has closed the connection.
    ///
    /// They are copied to a buffer of their own size, so that an idle connection holds no memory.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let mut buffer = [const { MaybeUninit::uninit() }; READ_BUFFER_BYTES];
        let mut buffer = ReadBuf::uninit(&mut buffer);
        let read = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
        read.map_ok(|()| Bytes::copy_from_slice(buffer.filled()))
    }

    /// Whether the request was completely sent.
    pub(super) fn is_request_sent(&self) -> bool {
        self.upload.is_none()
    }

    /// Whether the server keeps the connection open and has sent nothing on it.
    pub(super) fn is_open_and_idle(&mut self) -> bool {
        // If the task's coop budget is used up, tokio would return `Pending` even for a closed connection.
        let read = pin!(tokio::task::unconstrained(poll_fn(|cx| self.poll_read(cx))));
        read.poll(&mut Context::from_waker(Waker::noop())).is_pending()
    }
}
