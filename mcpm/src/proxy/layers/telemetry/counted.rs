//! Follows an answer to its end.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::journey::{Ended, Flow, Journey};
use crate::{
    proxy::respond::Response,
    transport::body::{Body, BodyError},
};

/// A request without an answer. When it is dropped so, its client has gone, or a layer panicked.
pub(super) struct Unanswered(Option<Arc<Journey>>);

impl Unanswered {
    pub(super) fn new(journey: Arc<Journey>) -> Self {
        Self(Some(journey))
    }

    /// Takes the answer, and follows its body.
    pub(super) fn answered(mut self, response: Response) -> Response {
        let Some(journey) = self.0.take() else { return response };
        journey.answered(&response);
        if let Body::Full(bytes) = response.body() {
            let size = bytes.as_ref().map_or(0, |bytes| bytes.len() as u64);
            journey.finish(Ended::Whole, Flow { size, first: None });
            return response;
        }
        response.map(|body| {
            let expected = body.size_hint().exact();
            let flow = Flow::default();
            Body::stream(Counted { body, expected, flow, journey: Some(journey) })
        })
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(journey) = self.0.take() {
            let ended = if std::thread::panicking() { Ended::Panicked } else { Ended::Gone };
            journey.finish(ended, Flow::default());
        }
    }
}

/// A body on its way to the client.
struct Counted {
    body: Body,
    expected: Option<u64>,
    flow: Flow,
    journey: Option<Arc<Journey>>,
}

impl Counted {
    fn finish(&mut self, ended: Ended) {
        if let Some(journey) = self.journey.take() {
            journey.finish(ended, self.flow);
        }
    }
}

impl HttpBody for Counted {
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
                    this.flow.first.get_or_insert_with(Instant::now);
                }
                this.flow.size += size;
            }
            Poll::Ready(Some(Err(_))) => this.finish(Ended::Broken),
            Poll::Ready(None) => this.finish(Ended::Whole),
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

impl Drop for Counted {
    fn drop(&mut self) {
        // Whoever has all of the bytes that were announced asks for no more.
        let whole = self.body.is_end_stream() || self.expected == Some(self.flow.size);
        self.finish(if whole { Ended::Whole } else { Ended::Gone });
    }
}
