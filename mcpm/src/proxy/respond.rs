//! Answers that the proxy gives itself.

use bytes::Bytes;
use http::{HeaderValue, Response as HttpResponse, StatusCode, header};

use crate::{
    mcp::{
        error_code,
        lane::{Refusal, error_answer},
    },
    transport::body::Body,
};

/// A request on its way through the stack.
pub(crate) type Request = http::Request<Body>;
/// An answer on its way back.
pub(crate) type Response = HttpResponse<Body>;

/// Seconds after which a client may try again while the server restarts.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(crate) const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = HttpResponse::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// A JSON answer.
pub(crate) fn json(status: StatusCode, body: Bytes) -> Response {
    let mut response = HttpResponse::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

/// A JSON-RPC error; `id` as its asker wrote it, or empty when it is not known.
pub(crate) fn error(status: StatusCode, code: i64, message: &str, id: &[u8]) -> Response {
    let mut response = json(status, error_answer(id, code, message).freeze());
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
    }
    response
}

/// The answer to a message that is not taken.
pub(crate) fn refuse(refusal: &Refusal, id: &[u8]) -> Response {
    error(refusal.status, refusal.code, &refusal.message, id)
}

/// 405 with the methods there are (RFC 9110 section 15.5.6).
pub(crate) fn method_not_allowed(allowed: &'static str) -> Response {
    let mut response =
        error(StatusCode::METHOD_NOT_ALLOWED, error_code::INVALID_REQUEST, "method not allowed here", b"");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}
