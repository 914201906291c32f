//! Follows an answer to its end.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::request_telemetry::{RequestOutcome, RequestTelemetry, SentBody};
use crate::proxy::{
    body::{Body, BodyError},
    respond::Response,
};

/// A request without an answer. When it is dropped so, its client has gone, or a layer panicked.
pub(super) struct ResponseGuard(Option<Arc<RequestTelemetry>>);

impl ResponseGuard {
    pub(super) fn new(journey: Arc<RequestTelemetry>) -> Self {
        Self(Some(journey))
    }

    /// Takes the answer, and follows its body.
    pub(super) fn on_response(mut self, response: Response) -> Response {
        let Some(journey) = self.0.take() else { return response };
        journey.on_response(&response);
        if let Body::Full(bytes) = response.body() {
            let size = bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
            journey.finish(RequestOutcome::Complete, SentBody { size, first_byte_at: None });
            return response;
        }
        response.map(|body| {
            let expected = body.size_hint().exact();
            let flow = SentBody::default();
            Body::stream(CountingBody { body, expected, sent: flow, journey: Some(journey) })
        })
    }
}

impl Drop for ResponseGuard {
    fn drop(&mut self) {
        if let Some(journey) = self.0.take() {
            let ended =
                if std::thread::panicking() { RequestOutcome::Panicked } else { RequestOutcome::ClientGone };
            journey.finish(ended, SentBody::default());
        }
    }
}

/// A body on its way to the client.
struct CountingBody {
    body: Body,
    expected: Option<u64>,
    sent: SentBody,
    journey: Option<Arc<RequestTelemetry>>,
}

impl CountingBody {
    fn finish(&mut self, ended: RequestOutcome) {
        if let Some(journey) = self.journey.take() {
            journey.finish(ended, self.sent);
        }
    }
}

impl HttpBody for CountingBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let size = frame.data_ref().map_or(0, Bytes::len) as u64;
                if size > 0 {
                    this.sent.first_byte_at.get_or_insert_with(Instant::now);
                }
                this.sent.size += size;
            }
            Poll::Ready(Some(Err(_))) => this.finish(RequestOutcome::Truncated),
            Poll::Ready(None) => this.finish(RequestOutcome::Complete),
            Poll::Pending => {}
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

impl Drop for CountingBody {
    fn drop(&mut self) {
        // Whoever has all of the bytes that were announced asks for no more.
        let whole = self.body.is_end_stream() || self.expected == Some(self.sent.size);
        self.finish(if whole { RequestOutcome::Complete } else { RequestOutcome::ClientGone });
    }
}
