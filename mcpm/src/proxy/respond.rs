//! Creates the responses that the proxy itself sends, such as errors and denials.

use std::sync::Arc;

use bytes::Bytes;
use http::{Extensions, HeaderName, HeaderValue, Response as HttpResponse, StatusCode, header};

use super::denial::Denial;
use crate::{
    mcp::error_code,
    memory::{Account, LazyAccount, Payer},
    proxy::body::Body,
    stdio::{
        mux::{RpcError, error_response, error_response_with_data},
        owner::Owner,
    },
};

/// A request in the stack.
pub(crate) type Request = http::Request<Body>;
/// A response in the stack.
pub(crate) type Response = HttpResponse<Body>;

/// Whether a `Content-Type` is that of server-sent events.
pub(super) fn is_event_stream(value: &HeaderValue) -> bool {
    let value = value.as_bytes().trim_ascii_start();
    value
        .get(..EVENT_STREAM_TYPE.len())
        .is_some_and(|kind| kind.eq_ignore_ascii_case(EVENT_STREAM_TYPE.as_bytes()))
}

/// Seconds after which a client may retry while the server restarts.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(crate) const EVENT_STREAM: HeaderValue = HeaderValue::from_static(EVENT_STREAM_TYPE);
const EVENT_STREAM_TYPE: &str = "text/event-stream";

/// The id of a denial, for clients that do not read the body.
const MCPM_REFUSAL: HeaderName = HeaderName::from_static("mcpm-refusal");

/// The memory account of a request's body.
pub(crate) fn body_account(extensions: &Extensions) -> Arc<Account> {
    Account::of(payer(extensions).unwrap_or(Payer::Unknown))
}

/// The memory account of a response; without a known caller, each response has its own.
pub(crate) fn answer_account(extensions: &Extensions) -> LazyAccount {
    LazyAccount::new(payer(extensions))
}

fn payer(extensions: &Extensions) -> Option<Payer> {
    let person = extensions.get::<Owner>().map(|owner| Payer::Person(Arc::clone(owner.caller_key())));
    person.or_else(|| extensions.get().cloned())
}

/// A response without a body.
pub(crate) fn empty(status: StatusCode) -> Response {
    let mut response = HttpResponse::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// A JSON response.
pub(crate) fn json(status: StatusCode, body: Bytes) -> Response {
    let mut response = HttpResponse::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

/// A JSON-RPC error; `id` is the request's in JSON, or empty if unknown.
pub(crate) fn error(status: StatusCode, code: i64, message: &str, id: &[u8]) -> Response {
    let mut response = json(status, error_response(id, code, message).freeze());
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
    }
    response
}

/// Denies a request: the response is a JSON-RPC error with the ids of the reason and the denial, and the denial is
/// in its extensions for outer layers.
pub(crate) fn deny(status: StatusCode, code: i64, message: &str, id: &[u8], denial: Denial) -> Response {
    let mut response =
        json(status, error_response_with_data(id, code, message, Some(&denial.error_data())).freeze());
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
    }
    if let Ok(refusal) = HeaderValue::from_str(denial.id.as_str()) {
        response.headers_mut().insert(MCPM_REFUSAL, refusal);
    }
    response.extensions_mut().insert(denial);
    response
}

/// Why a request failed, for the log. Peers can cause any number of failures, so the log has a rate limit for each
/// kind.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(super) kind: &'static str,
    pub(super) message: String,
}

/// Marks a response to be logged as a failure.
pub(super) fn log_failure(response: &mut Response, kind: &'static str, message: impl Into<String>) {
    response.extensions_mut().insert(Failure { kind, message: message.into() });
}

/// The response to a rejected message.
pub(crate) fn message_error(error: &RpcError, id: &[u8]) -> Response {
    let mut response = json(error.status, error.answer(id));
    if matches!(error.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
    }
    if let Some(reason) = error.reason {
        log_failure(&mut response, reason.id(), &*error.message);
    }
    response
}

/// 405 with the allowed methods (RFC 9110 section 15.5.6).
pub(crate) fn method_not_allowed(allowed: &'static str) -> Response {
    let mut response =
        error(StatusCode::METHOD_NOT_ALLOWED, error_code::INVALID_REQUEST, "method not allowed", b"");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::Reason;

    #[tokio::test]
    async fn a_denial_is_in_the_response_and_its_extensions() {
        let denial = Denial::new(Reason::OriginNotAllowed).rule("none").fix("allow it");
        let response = deny(StatusCode::FORBIDDEN, error_code::INVALID_REQUEST, "no", b"7", denial.clone());
        assert_eq!(response.extensions().get::<Denial>(), Some(&denial));
        assert_eq!(response.headers()[MCPM_REFUSAL], denial.id.as_str());
        let answer: serde_json::Value =
            serde_json::from_slice(&response.into_body().collect(Account::new).await.expect("a body"))
                .expect("JSON");
        let expected = serde_json::json!({
            "jsonrpc": "2.0", "id": 7,
            "error": {
                "code": -32600, "message": "no",
                "data": { "reason": "origin.not_allowed", "refusal": denial.id.as_str() },
            },
        });
        assert_eq!(answer, expected);
    }
}
