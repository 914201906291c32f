//! Joins the first bytes of a body, which were already read, and the rest of it into one body.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::error::BodyError;

/// A body whose first bytes were read already.
pub(super) struct PrefixedBody<B> {
    prefix: Option<Bytes>,
    /// The error after the prefix, if the body failed there.
    error: Option<BodyError>,
    rest: B,
}

impl<B> PrefixedBody<B> {
    pub(super) fn new(prefix: Bytes, rest: B) -> Self {
        Self { prefix: Some(prefix), error: None, rest }
    }

    /// Creates a body that fails after its prefix.
    pub(super) fn failing(prefix: Bytes, error: BodyError, rest: B) -> Self {
        Self { prefix: Some(prefix), error: Some(error), rest }
    }
}

impl<B: Body<Data = Bytes, Error = BodyError> + Unpin> Body for PrefixedBody<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(prefix) = self.prefix.take() {
            return Poll::Ready(Some(Ok(Frame::data(prefix))));
        }
        match self.error.take() {
            Some(error) => Poll::Ready(Some(Err(error))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let prefix = self.prefix.as_ref().map_or(0, |prefix| prefix.len() as u64);
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(prefix + rest.lower());
        if let Some(upper) = rest.upper() {
            hint.set_upper(prefix + upper);
        }
        hint
    }
}
