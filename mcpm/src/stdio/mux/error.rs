//! JSON-RPC errors of the multiplexer.

use bytes::{Bytes, BytesMut};

use crate::{explain::Reason, mcp::error_code};

/// A JSON-RPC error with the HTTP status of its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    pub(crate) status: http::StatusCode,
    pub(crate) code: i64,
    pub(crate) message: String,
    /// The limit that was reached, if the error is about a limit.
    pub(crate) reason: Option<Reason>,
}

impl RpcError {
    pub(crate) fn new(status: http::StatusCode, code: i64, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), reason: None }
    }

    /// Sets the limit that was reached.
    pub(crate) fn reason(self, reason: Reason) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// Serializes the error response to the request with this id.
    pub(crate) fn answer(&self, id: &[u8]) -> Bytes {
        let data = self.reason.map(|reason| serde_json::json!({ "reason": reason.id() }).to_string());
        error_response_with_data(id, self.code, &self.message, data.as_deref()).freeze()
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(http::StatusCode::SERVICE_UNAVAILABLE, error_code::INTERNAL_ERROR, message)
    }

    pub(crate) fn unknown_session() -> Self {
        Self::new(http::StatusCode::NOT_FOUND, error_code::SESSION_NOT_FOUND, "session not found")
    }
}

/// Serializes a JSON-RPC error response. `id` is JSON; if it is empty, the id is `null`.
pub(crate) fn error_response(id: &[u8], code: i64, message: &str) -> BytesMut {
    error_response_with_data(id, code, message, None)
}

/// Serializes a JSON-RPC error response with `data`, which is JSON.
pub(crate) fn error_response_with_data(id: &[u8], code: i64, message: &str, data: Option<&str>) -> BytesMut {
    let message = serde_json::Value::from(message);
    let mut out = BytesMut::from(&b"{\"jsonrpc\":\"2.0\",\"id\":"[..]);
    out.extend_from_slice(if id.is_empty() { b"null" } else { id });
    out.extend_from_slice(format!(r#","error":{{"code":{code},"message":{message}"#).as_bytes());
    if let Some(data) = data {
        out.extend_from_slice(format!(r#","data":{data}"#).as_bytes());
    }
    out.extend_from_slice(b"}}");
    out
}
