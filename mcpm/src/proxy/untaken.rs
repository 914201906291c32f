//! Answers to requests whose bodies are not taken: too large, too slow, broken off.

use std::error::Error;

use ::http::StatusCode;

use super::{
    denial::Denial,
    respond::{self, Response},
};
use crate::{
    explain::Reason,
    mcp::{error_code, lane::Refusal, peek::id_in},
    transport::{
        body::{Broken, NoRoom, PastLimit},
        client_body::TooSlow,
        http,
    },
};

/// Answers a request whose body could not be read, under its id if that came.
pub(super) fn broken(broken: &Broken) -> Response {
    let id = id_in(&broken.begun);
    because_of(broken.cause.as_ref(), &id).unwrap_or_else(|| broke_off(&id))
}

/// Answers a request that failed for its own body, if `error` says so.
pub(super) fn because_of(error: &(dyn Error + 'static), id: &[u8]) -> Option<Response> {
    let mut cause = Some(error);
    let mut of_body = false;
    while let Some(error) = cause {
        if let Some(past) = error.downcast_ref::<PastLimit>() {
            return Some(too_large(past, id));
        }
        if let Some(slow) = error.downcast_ref::<TooSlow>() {
            let (status, code) = (StatusCode::REQUEST_TIMEOUT, error_code::INVALID_REQUEST);
            return Some(respond::error(status, code, &slow.to_string(), id));
        }
        if error.is::<NoRoom>() {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            let refusal = Refusal::new(status, error_code::INTERNAL_ERROR, error.to_string());
            return Some(respond::refuse(&refusal.reason(Reason::NoMemory), id));
        }
        of_body |= matches!(error.downcast_ref(), Some(http::Broken::Request(_)));
        cause = error.source();
    }
    of_body.then(|| broke_off(id))
}

fn broke_off(id: &[u8]) -> Response {
    respond::error(StatusCode::BAD_REQUEST, error_code::PARSE_ERROR, "the body broke off", id)
}

/// Answers a request whose body is beyond the limit.
pub(super) fn too_large(past: &PastLimit, id: &[u8]) -> Response {
    let (status, code) = (StatusCode::PAYLOAD_TOO_LARGE, error_code::INVALID_REQUEST);
    let denial = Denial::new(Reason::BodyTooLarge)
        .rule(format!("{} bytes", past.0))
        .fix(format!("send a body of at most {} bytes", past.0));
    respond::deny(status, code, &past.to_string(), id, denial)
}
