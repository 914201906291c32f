//! The error that a client gets in place of the server's response.

use bytes::Bytes;
use http::StatusCode;

use crate::{Error, mcp::error_code, stdio::mux::error_response};

/// Why a message was not answered by the server.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    code: i64,
    text: String,
}

impl Failure {
    pub(super) fn new(code: i64, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// A failure of the server or of the connection to it.
    pub(super) fn server(text: impl Into<String>) -> Self {
        Self::new(error_code::INTERNAL_ERROR, text)
    }

    /// A response whose status says that the request failed, and whose body is not a JSON-RPC error.
    pub(super) fn status(status: StatusCode) -> Self {
        let hint = match status {
            StatusCode::UNAUTHORIZED => ": it requires a token, which a header can carry",
            StatusCode::FORBIDDEN => ": the request is not allowed",
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => ": there is no MCP endpoint at its URL",
            _ => "",
        };
        Self::server(format!("the server responded with HTTP {status}{hint}"))
    }

    /// The JSON-RPC response to the request with an id, which is JSON.
    pub(super) fn response(&self, id: &[u8]) -> Bytes {
        error_response(id, self.code, &self.text).freeze()
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::server(error.to_string())
    }
}
