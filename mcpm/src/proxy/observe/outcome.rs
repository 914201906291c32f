//! How a request ends: the head of its response, and whether the body was complete.

use std::time::Instant;

use http::{StatusCode, header};
use http_body::Body as _;

use super::facts::MCP_SESSION_ID;
use crate::proxy::{
    denial::Denial,
    messages::{MAX_MESSAGE_BYTES, is_encoded},
    respond::{Response, is_event_stream},
};

/// The head of a response.
#[derive(Debug)]
pub(super) struct ResponseHead {
    #[cfg_attr(not(feature = "telemetry"), expect(dead_code, reason = "only spans have times"))]
    pub(super) at: Instant,
    pub(super) status: StatusCode,
    /// Why the proxy denied the request, if it did.
    pub(super) denial: Option<Denial>,
    pub(super) is_events: bool,
    /// Whether the messages in the body could be parsed.
    pub(super) was_inspected: bool,
    /// Size of the body, if known in advance.
    pub(super) size: Option<u64>,
    /// The session id in the response, if there is one.
    pub(super) session: Option<String>,
}

impl ResponseHead {
    pub(super) fn of(response: &Response) -> Self {
        let headers = response.headers();
        let size = response.body().size_hint().exact();
        Self {
            at: Instant::now(),
            status: response.status(),
            denial: response.extensions().get::<Denial>().cloned(),
            is_events: headers.get(header::CONTENT_TYPE).is_some_and(is_event_stream),
            was_inspected: !is_encoded(headers) && size.is_none_or(|size| size <= MAX_MESSAGE_BYTES as u64),
            size,
            session: headers.get(MCP_SESSION_ID).and_then(|id| id.to_str().ok()).map(str::to_owned),
        }
    }
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestOutcome {
    /// The client got the whole response.
    Complete,
    /// The response was interrupted.
    Truncated,
    /// The client disconnected before the end of the response.
    ClientGone,
    /// The proxy panicked, which is a defect.
    Panicked,
}

/// The part of a response's body that was sent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SentBody {
    pub(super) size: u64,
    /// When the first byte was sent.
    pub(super) first_byte_at: Option<Instant>,
}
