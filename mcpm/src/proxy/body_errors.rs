//! Creates the responses to requests whose bodies are too large, sent too slowly or incomplete, or find no room in the
//! memory budget.

use std::error::Error;

use ::http::StatusCode;

use super::{
    body::{BodyLimitExceeded, BodyTooSlow, IncompleteBody, MemoryExhausted},
    denial::Denial,
    respond::{self, Response},
};
use crate::{
    explain::Reason,
    mcp::{error_code, request_id::scan_request_id},
    stdio::mux::RpcError,
    transport::http,
};

/// Responds to a request whose body could not be read, with its id if that was received.
pub(super) fn unreadable_body(broken: &IncompleteBody) -> Response {
    let id = scan_request_id(&broken.prefix);
    response_for(broken.cause.as_ref(), &id).unwrap_or_else(|| incomplete_body(&id))
}

/// Responds to a request that failed because of its body; `None` if `error` has another cause.
pub(super) fn response_for(error: &(dyn Error + 'static), id: &[u8]) -> Option<Response> {
    let mut cause = Some(error);
    let mut of_body = false;
    while let Some(error) = cause {
        if let Some(past) = error.downcast_ref::<BodyLimitExceeded>() {
            return Some(too_large(past, id));
        }
        if let Some(slow) = error.downcast_ref::<BodyTooSlow>() {
            let (status, code) = (StatusCode::REQUEST_TIMEOUT, error_code::INVALID_REQUEST);
            return Some(respond::error(status, code, &slow.to_string(), id));
        }
        if error.is::<MemoryExhausted>() {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            let response = RpcError::new(status, error_code::INTERNAL_ERROR, error.to_string());
            return Some(respond::message_error(&response.reason(Reason::NoMemory), id));
        }
        of_body |= matches!(error.downcast_ref(), Some(http::ConnectionError::RequestBody(_)));
        cause = error.source();
    }
    of_body.then(|| incomplete_body(id))
}

fn incomplete_body(id: &[u8]) -> Response {
    respond::error(StatusCode::BAD_REQUEST, error_code::PARSE_ERROR, "the body is incomplete", id)
}

/// Responds to a request whose body exceeds the limit.
pub(super) fn too_large(past: &BodyLimitExceeded, id: &[u8]) -> Response {
    let (status, code) = (StatusCode::PAYLOAD_TOO_LARGE, error_code::INVALID_REQUEST);
    let denial = Denial::new(Reason::BodyTooLarge)
        .rule(format!("{} bytes", past.0))
        .fix(format!("send a body of at most {} bytes", past.0));
    respond::deny(status, code, &past.to_string(), id, denial)
}
