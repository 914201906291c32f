//! The errors that reading the body of a request or a response can return.

use std::fmt;

use bytes::Bytes;

use crate::memory::warn_no_room;
pub(crate) use crate::transport::http::BodyError;

/// A body failed before it was read to its end.
#[derive(Debug)]
pub(crate) struct IncompleteBody {
    /// The bytes received before that.
    pub(crate) prefix: Bytes,
    pub(crate) cause: BodyError,
}

/// A body is larger than the limit, in bytes.
#[derive(Debug)]
pub(crate) struct BodyLimitExceeded(pub(crate) u64);

impl fmt::Display for BodyLimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the body is larger than {} bytes", self.0)
    }
}

impl std::error::Error for BodyLimitExceeded {}

/// The memory budget has no room for the body.
#[derive(Debug)]
pub(crate) struct MemoryExhausted;

impl fmt::Display for MemoryExhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the memory budget has no room for a body of this size; try again later")
    }
}

impl std::error::Error for MemoryExhausted {}

impl MemoryExhausted {
    pub(super) fn after(prefix: Bytes) -> IncompleteBody {
        warn_no_room("a body was rejected");
        IncompleteBody { prefix, cause: Box::new(Self) }
    }
}
