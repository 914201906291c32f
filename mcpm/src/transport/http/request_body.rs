//! The bodies of requests.

use std::task::{Context, Poll};

use bytes::Bytes;

use super::error::BodyError;

/// A request body.
pub(crate) trait RequestBody: Send + 'static {
    /// Returns the exact length of the body, if it is known.
    fn size(&self) -> Option<u64>;

    /// Takes the whole body, if all of it is in memory. Such a body is sent together with the head.
    fn take_full(&mut self) -> Option<Bytes>;

    /// Polls for the next chunk of the body.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>>;
}

impl RequestBody for Bytes {
    fn size(&self) -> Option<u64> {
        Some(self.len() as u64)
    }

    fn take_full(&mut self) -> Option<Bytes> {
        Some(std::mem::take(self))
    }

    fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        Poll::Ready((!self.is_empty()).then(|| Ok(std::mem::take(self))))
    }
}

/// A request body of which nothing was sent yet.
pub(super) enum UnsentBody<B> {
    /// All bytes of the body.
    Full(Bytes),
    /// Bytes that are sent as they arrive.
    Stream(B),
}

impl<B: RequestBody> From<B> for UnsentBody<B> {
    fn from(mut body: B) -> Self {
        match body.take_full() {
            Some(bytes) => Self::Full(bytes),
            None => Self::Stream(body),
        }
    }
}
