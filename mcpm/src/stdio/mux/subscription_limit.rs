//! Limits the resources that one session, or one caller with `subscriptions/listen` requests, subscribes to.

use http::StatusCode;

use super::error::RpcError;
use crate::{explain::Reason, mcp::error_code};

/// Maximum number of resources that a client subscribes to.
const MAX_SUBSCRIBED_URIS: usize = 1000;
/// Maximum total size of their URIs in bytes.
pub(super) const MAX_SUBSCRIBED_URI_BYTES: usize = 256 << 10;

/// Checks the number and size of the URIs that one client subscribes to. They are limited because they are kept in
/// memory, and sent again when a process is restarted or another client listens.
pub(super) fn check_uris<'a>(uris: impl Iterator<Item = &'a String>) -> Result<(), RpcError> {
    let (count, bytes) = uris.fold((0, 0), |(count, bytes), uri| (count + 1, bytes + uri.len()));
    if count <= MAX_SUBSCRIBED_URIS && bytes <= MAX_SUBSCRIBED_URI_BYTES {
        return Ok(());
    }
    let text = format!(
        "a client can subscribe to at most {MAX_SUBSCRIBED_URIS} resources, with URIs of {} KiB in total",
        MAX_SUBSCRIBED_URI_BYTES >> 10
    );
    Err(too_many_subscriptions(text))
}

pub(super) fn too_many_subscriptions(text: impl Into<String>) -> RpcError {
    let error = RpcError::new(StatusCode::TOO_MANY_REQUESTS, error_code::INVALID_REQUEST, text);
    error.reason(Reason::TooManySubscriptions)
}
