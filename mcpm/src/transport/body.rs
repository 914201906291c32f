//! The bodies that pass through the proxy: they stream, and nothing here buffers one whole.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::{client_body::ClientBody, http::ResponseBody};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::memory::{Account, ReservedBuffer, warn_no_room};

/// Why a body broke off.
pub(crate) type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// A body that was to be read whole and broke off.
#[derive(Debug)]
pub(crate) struct IncompleteBody {
    /// What had come until then.
    pub(crate) prefix: Bytes,
    pub(crate) cause: BodyError,
}

/// A body passed the limit.
#[derive(Debug)]
pub(crate) struct BodyLimitExceeded(pub(crate) u64);

impl std::fmt::Display for BodyLimitExceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the body is larger than {} bytes", self.0)
    }
}

impl std::error::Error for BodyLimitExceeded {}

/// What is held already leaves no room for the body.
#[derive(Debug)]
pub(crate) struct MemoryExhausted;

impl std::fmt::Display for MemoryExhausted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("too much is held for other requests to take a body of this size now")
    }
}

impl std::error::Error for MemoryExhausted {}

impl MemoryExhausted {
    fn after(begun: Bytes) -> IncompleteBody {
        warn_no_room("a body was not taken");
        IncompleteBody { prefix: begun, cause: Box::new(Self) }
    }
}

/// A body of one of the kinds that occur, so that the common ones cost no allocation.
pub(crate) enum Body {
    /// All of it, or nothing any more.
    Full(Option<Bytes>),
    /// From a client.
    Client(ClientBody),
    /// From a server behind.
    Upstream(ResponseBody),
    /// Made here.
    Stream(Pin<Box<dyn HttpBody<Data = Bytes, Error = BodyError> + Send>>),
}

impl Body {
    pub(crate) fn empty() -> Self {
        Self::Full(None)
    }

    /// Reads all of it; whoever calls this has bounded it. A large one stays booked, on the account that is asked for
    /// then, as long as its bytes are referenced.
    pub(crate) async fn collect(
        mut self,
        account: impl FnOnce() -> Arc<Account>,
    ) -> Result<Bytes, IncompleteBody> {
        // Nearly always it comes in one piece, which needs no copy.
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
                Ok(Some(piece)) => piece,
                Ok(None) => return Ok(joined.freeze()),
                Err(cause) => return Err(IncompleteBody { prefix: joined.freeze(), cause }),
            }
        }
    }

    /// Reads at least `most` bytes, unless it ends before or there is no room for them, and returns them with the body
    /// as it was, which is [`Full`](Self::Full) when it was read to its end.
    pub(crate) async fn peek(
        mut self,
        most: usize,
        account: Arc<Account>,
    ) -> Result<(Bytes, Self), IncompleteBody> {
        if let Self::Full(all) = &self {
            return Ok((all.clone().unwrap_or_default(), self));
        }
        let mut begun = ReservedBuffer::new(account);
        while begun.len() < most {
            match self.next_chunk().await {
                Ok(Some(piece)) => {
                    if !begun.append(&piece) {
                        warn_no_room("a body was not looked at");
                        let begun = begun.freeze();
                        let rest =
                            Self::stream(PrefixedBody { begun: Some(piece), failed: None, rest: self });
                        let whole = PrefixedBody { begun: Some(begun.clone()), failed: None, rest };
                        return Ok((begun, Self::stream(whole)));
                    }
                }
                Ok(None) => {
                    let begun = begun.freeze();
                    return Ok((begun.clone(), Self::from(begun)));
                }
                Err(cause) => return Err(IncompleteBody { prefix: begun.freeze(), cause }),
            }
        }
        let begun = begun.freeze();
        Ok((begun.clone(), Self::stream(PrefixedBody { begun: Some(begun), failed: None, rest: self })))
    }

    /// The next piece, trailers left out.
    pub(crate) async fn next_chunk(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            match poll_fn(|cx| Pin::new(&mut *self).poll_frame(cx)).await.transpose()?.map(Frame::into_data) {
                Some(Ok(piece)) => return Ok(Some(piece)),
                Some(Err(_)) => {}
                None => return Ok(None),
            }
        }
    }

    pub(crate) fn stream(body: impl HttpBody<Data = Bytes, Error = BodyError> + Send + 'static) -> Self {
        Self::Stream(Box::pin(body))
    }
}

/// A body whose beginning was read already.
struct PrefixedBody {
    begun: Option<Bytes>,
    /// How it broke off after that.
    failed: Option<BodyError>,
    rest: Body,
}

impl HttpBody for PrefixedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(begun) = self.begun.take() {
            return Poll::Ready(Some(Ok(Frame::data(begun))));
        }
        match self.failed.take() {
            Some(error) => Poll::Ready(Some(Err(error))),
            None => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }

    fn size_hint(&self) -> SizeHint {
        let begun = self.begun.as_ref().map_or(0, |begun| begun.len() as u64);
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(begun + rest.lower());
        if let Some(upper) = rest.upper() {
            hint.set_upper(begun + upper);
        }
        hint
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Body(..)")
    }
}

impl From<IncompleteBody> for Body {
    fn from(IncompleteBody { prefix: begun, cause }: IncompleteBody) -> Self {
        Self::stream(PrefixedBody { begun: Some(begun), failed: Some(cause), rest: Self::empty() })
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
