//! Answers that the proxy gives itself.

use std::sync::Arc;

use bytes::Bytes;
use http::{Extensions, HeaderName, HeaderValue, Response as HttpResponse, StatusCode, header};

use super::denial::Denial;
use crate::{
    mcp::error_code,
    memory::{Account, Payer},
    proxy::body::Body,
    stdio::{
        mux::{RpcError, error_response, error_response_with_data},
        owner::Owner,
    },
};

/// A request on its way through the stack.
pub(crate) type Request = http::Request<Body>;
/// An answer on its way back.
pub(crate) type Response = HttpResponse<Body>;

/// Seconds after which a client may try again while the server restarts.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(crate) const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Names a refusal, to those who do not read the body.
const MCPM_REFUSAL: HeaderName = HeaderName::from_static("mcpm-refusal");

/// The account on which a request's body is booked.
pub(crate) fn body_account(extensions: &Extensions) -> Arc<Account> {
    Account::of(payer(extensions).unwrap_or(Payer::Unknown))
}

/// The account on which an answer is booked; of a caller whom nothing tells from others, each has its own.
pub(crate) fn answer_account(extensions: &Extensions) -> Arc<Account> {
    payer(extensions).map_or_else(Account::new, Account::of)
}

fn payer(extensions: &Extensions) -> Option<Payer> {
    let person = extensions.get::<Owner>().map(|owner| Payer::Person(Arc::clone(owner.caller_key())));
    person.or_else(|| extensions.get().cloned())
}

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
    let mut response = json(status, error_response(id, code, message).freeze());
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
    }
    response
}

/// Refuses a request for a reason that has an id: a JSON-RPC error that names it, and the reason itself for the
/// layers further out.
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

/// Why a request failed, for the log. Peers can cause it in any number, so the log has a limit for each kind.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(super) kind: &'static str,
    pub(super) message: String,
}

/// Has the log say why a request failed.
pub(super) fn log_failure(response: &mut Response, kind: &'static str, message: impl Into<String>) {
    response.extensions_mut().insert(Failure { kind, message: message.into() });
}

/// The answer to a message that is not taken.
pub(crate) fn message_error(refusal: &RpcError, id: &[u8]) -> Response {
    let mut response = json(refusal.status, refusal.answer(id));
    if matches!(refusal.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
        response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
    }
    if let Some(reason) = refusal.reason {
        log_failure(&mut response, reason.id(), &*refusal.message);
    }
    response
}

/// 405 with the methods there are (RFC 9110 section 15.5.6).
pub(crate) fn method_not_allowed(allowed: &'static str) -> Response {
    let mut response =
        error(StatusCode::METHOD_NOT_ALLOWED, error_code::INVALID_REQUEST, "method not allowed here", b"");
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
