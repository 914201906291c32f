//! The bodies of requests and responses. A body is streamed, unless a layer or an endpoint reads it completely.

mod client;
mod error;
mod prefixed;

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

pub(crate) use {
    client::{BodyTooSlow, ClientBody},
    error::{BodyError, BodyLimitExceeded, IncompleteBody, MemoryExhausted},
};

use prefixed::PrefixedBody;

use crate::{
    memory::{Account, ReservedBuffer, is_small, warn_no_room},
    transport::http::{RequestBody, ResponseBody},
};

/// A body. The common kinds are variants of their own, so that they need no allocation.
pub(crate) enum Body {
    /// All bytes that are left.
    Full(Option<Bytes>),
    /// The body of a client's request.
    Client(ClientBody),
    /// The body of a server's response.
    Upstream(ResponseBody),
    /// Any other body.
    Stream(Pin<Box<dyn HttpBody<Data = Bytes, Error = BodyError> + Send>>),
}

impl Body {
    pub(crate) fn empty() -> Self {
        Self::Full(None)
    }

    /// Reads the whole body; the caller has limited its size. A body of several chunks stays charged to the account
    /// that `account` returns, as long as its bytes are referenced.
    pub(crate) async fn collect(
        mut self,
        account: impl FnOnce() -> Arc<Account>,
    ) -> Result<Bytes, IncompleteBody> {
        // Nearly always the body arrives in one chunk, which needs no copy.
        let first = match self.next_chunk().await {
            Ok(Some(first)) => first,
            Ok(None) => return Ok(Bytes::new()),
            Err(cause) => return Err(IncompleteBody { prefix: Bytes::new(), cause }),
        };
        let mut next = match self.next_chunk().await {
            Ok(None) => return Ok(first),
            Ok(Some(second)) => second,
            Err(cause) => return Err(IncompleteBody { prefix: first, cause }),
        };
        let mut joined = ReservedBuffer::new(account());
        if !joined.append(&first) {
            return Err(MemoryExhausted::after(first));
        }
        drop(first);
        loop {
            if !joined.append(&next) {
                return Err(MemoryExhausted::after(joined.freeze()));
            }
            next = match self.next_chunk().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => return Ok(joined.freeze()),
                Err(cause) => return Err(IncompleteBody { prefix: joined.freeze(), cause }),
            }
        }
    }

    /// Reads at least `min` bytes, or fewer if the body ends earlier or the memory budget has no room for them. Returns
    /// these bytes and the unchanged body, which is [`Full`](Self::Full) if it was read to its end. A body of several
    /// chunks, or a large one, stays charged to the account that `account` returns.
    pub(crate) async fn peek(
        mut self,
        min: usize,
        account: impl FnOnce() -> Arc<Account>,
    ) -> Result<(Bytes, Self), IncompleteBody> {
        if let Self::Full(all) = &self {
            return Ok((all.clone().unwrap_or_default(), self));
        }
        let mut chunk = match self.next_chunk().await {
            // Most responses are one small chunk, which needs no copy. The bytes of a request would retain the read
            // buffer of their connection until the response.
            Ok(Some(only))
                if matches!(self, Self::Upstream(_)) && self.is_end_stream() && is_small(&only) =>
            {
                return Ok((only.clone(), Self::from(only)));
            }
            Ok(Some(first)) => first,
            Ok(None) => return Ok((Bytes::new(), Self::empty())),
            Err(cause) => return Err(IncompleteBody { prefix: Bytes::new(), cause }),
        };
        let mut prefix = ReservedBuffer::new(account());
        loop {
            if !prefix.append(&chunk) {
                warn_no_room("a body was not inspected");
                let prefix = prefix.freeze();
                let rest = Self::stream(PrefixedBody::new(chunk, self));
                return Ok((prefix.clone(), Self::stream(PrefixedBody::new(prefix, rest))));
            }
            if prefix.len() >= min {
                let prefix = prefix.freeze();
                return Ok((prefix.clone(), Self::stream(PrefixedBody::new(prefix, self))));
            }
            chunk = match self.next_chunk().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => {
                    let prefix = prefix.freeze();
                    return Ok((prefix.clone(), Self::from(prefix)));
                }
                Err(cause) => return Err(IncompleteBody { prefix: prefix.freeze(), cause }),
            };
        }
    }

    /// Returns the next chunk, without trailers.
    pub(crate) async fn next_chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        poll_fn(|cx| self.poll_chunk(cx)).await.transpose()
    }

    pub(crate) fn stream(body: impl HttpBody<Data = Bytes, Error = BodyError> + Send + 'static) -> Self {
        Self::Stream(Box::pin(body))
    }
}

impl RequestBody for Body {
    fn size(&self) -> Option<u64> {
        self.size_hint().exact()
    }

    fn take_full(&mut self) -> Option<Bytes> {
        match self {
            Self::Full(bytes) => Some(bytes.take().unwrap_or_default()),
            Self::Client(_) | Self::Upstream(_) | Self::Stream(_) => None,
        }
    }

    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        loop {
            match ready!(Pin::new(&mut *self).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(chunk) = frame.into_data() {
                        return Poll::Ready(Some(Ok(chunk)));
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Body(..)")
    }
}

impl From<IncompleteBody> for Body {
    fn from(IncompleteBody { prefix, cause }: IncompleteBody) -> Self {
        Self::stream(PrefixedBody::failing(prefix, cause, Self::empty()))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::Full((!bytes.is_empty()).then_some(bytes))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Client(body) => Pin::new(body).poll_frame(cx),
            Self::Upstream(body) => Pin::new(body).poll_frame(cx).map_err(Into::into),
            Self::Stream(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.is_none(),
            Self::Client(body) => body.is_end_stream(),
            Self::Upstream(body) => body.is_end_stream(),
            Self::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Client(body) => body.size_hint(),
            Self::Upstream(body) => body.size_hint(),
            Self::Stream(body) => body.size_hint(),
        }
    }
}
