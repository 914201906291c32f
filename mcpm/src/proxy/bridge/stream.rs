//! Converts a server's messages to an SSE stream, and the failure of a stream to an error response.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response as HttpResponse, StatusCode, header};
use http_body::{Body as HttpBody, Frame};
use tokio::time::{Instant, Sleep};

use crate::{
    explain::Reason,
    mcp::{error_code, sse},
    proxy::{
        body::{Body, BodyError},
        respond::{self, EVENT_STREAM, Response},
    },
    stdio::{
        mux::{CancelOnDrop, RpcError},
        replay_stream::{MessageReader, StreamEnd, StreamItem},
    },
};

/// Interval of comments on an idle stream.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// How events get their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbering {
    /// No ids: the stream cannot be resumed.
    None,
    /// The number of the stream and the position in it.
    Numbered,
    /// As with `Numbered`, and the stream starts with an empty event that has an id.
    Primed,
}

/// An SSE body with the messages of a [`MessageReader`], and comments while it is idle.
pub(super) struct SseBody {
    reader: MessageReader,
    /// Cancels the call when the body is dropped.
    guard: Option<CancelOnDrop>,
    /// An event that is written before the others.
    first: Option<Bytes>,
    numbering: Numbering,
    keep_alive: Pin<Box<Sleep>>,
    ended: bool,
    /// Called when the stream has ended or is dropped.
    on_close: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl SseBody {
    pub(super) fn new(reader: MessageReader, guard: Option<CancelOnDrop>, numbering: Numbering) -> Self {
        let first = (numbering == Numbering::Primed).then(|| sse::priming_event(reader.stream().number(), 0));
        if numbering != Numbering::None {
            reader.set_resumable();
        }
        let silence = Box::pin(tokio::time::sleep(KEEP_ALIVE_INTERVAL));
        Self { reader, guard, first, numbering, keep_alive: silence, ended: false, on_close: None }
    }

    /// Writes an event before the others.
    pub(super) fn with_first_event(mut self, event: Bytes) -> Self {
        self.first = Some(event);
        self
    }

    /// Puts back a message that was read to decide the form of the response.
    pub(super) fn with_first_message(mut self, position: u64, bytes: &Bytes) -> Self {
        let event = self.event(position, bytes);
        self.first = Some(match self.first.take() {
            Some(first) => [first, event].concat().into(),
            None => event,
        });
        self
    }

    /// Calls `over` when the client has disconnected or the stream has ended.
    pub(super) fn on_close(mut self, over: Arc<dyn Fn() + Send + Sync>) -> Self {
        self.on_close = Some(over);
        self
    }

    /// The response with this body.
    pub(super) fn response(self) -> Response {
        let mut response = HttpResponse::new(Body::stream(self));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, EVENT_STREAM);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        response
    }

    fn event(&self, position: u64, bytes: &Bytes) -> Bytes {
        let id = (self.numbering != Numbering::None).then(|| (self.reader.stream().number(), position));
        self.reader.reserve(sse::message(bytes, id))
    }
}

impl HttpBody for SseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        let bytes = match self.reader.poll_next(cx) {
            Poll::Ready(StreamItem::Message { position: place, bytes, .. }) => self.event(place, &bytes),
            Poll::Ready(StreamItem::End(end)) => {
                self.ended = true;
                let request = self.reader.stream().request();
                match failure_response_message(&end, request).filter(|_| !request.is_empty()) {
                    Some(answer) => sse::message(&answer, None),
                    None => return Poll::Ready(None),
                }
            }
            Poll::Pending => {
                if self.keep_alive.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                Bytes::from_static(sse::KEEP_ALIVE)
            }
        };
        self.keep_alive.as_mut().reset(Instant::now() + KEEP_ALIVE_INTERVAL);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}

impl Drop for SseBody {
    fn drop(&mut self) {
        if let Some(over) = &self.on_close {
            over();
        }
        // Dropping the guard cancels a call that has no response yet.
        drop(self.guard.take());
    }
}

/// The error for a stream that ended without the response; `None` if no error is sent.
fn failure(end: &StreamEnd) -> Option<RpcError> {
    let failed = |status, text: &str| RpcError::new(status, error_code::INTERNAL_ERROR, text);
    let no_room = |status, text| failed(status, text).reason(Reason::NoMemory);
    Some(match end {
        StreamEnd::Complete | StreamEnd::Cancelled | StreamEnd::Superseded => return None,
        StreamEnd::ServerEnded(reason) => failed(StatusCode::BAD_GATEWAY, reason),
        StreamEnd::Overflow => no_room(StatusCode::BAD_GATEWAY, "the client did not read fast enough"),
        StreamEnd::NoRoom => {
            let text = "the memory budget currently has no room for a response of this size";
            no_room(StatusCode::SERVICE_UNAVAILABLE, text)
        }
        StreamEnd::GivenUp => {
            no_room(StatusCode::BAD_GATEWAY, "the response was dropped to make room for newer responses")
        }
        StreamEnd::TimedOut => failed(StatusCode::GATEWAY_TIMEOUT, "the server did not respond in time"),
    })
}

/// The error response on a stream that ended without a response; `None` if no error is sent.
pub(super) fn failure_response_message(end: &StreamEnd, request: &[u8]) -> Option<Bytes> {
    failure(end).map(|error| error.answer(request))
}

/// The HTTP response to a request whose stream ended without a response.
pub(super) fn failure_http_response(end: &StreamEnd, request: &[u8]) -> Response {
    match failure(end) {
        Some(refusal) => respond::message_error(&refusal, request),
        // A cancelled request gets no response (MCP, "Cancellation").
        None => respond::empty(StatusCode::ACCEPTED),
    }
}
