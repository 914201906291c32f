//! The error that a client gets in place of the server's response.

use bytes::Bytes;
use http::StatusCode;

use crate::{Error, auth::outgoing::TokenUnavailable, mcp::error_code, stdio::mux::error_response};

/// The error for a message that the memory budget has no room for.
pub(super) const NO_ROOM: &str = "the memory budget has no room for the message; try again later";

/// Why the server did not respond to a message.
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

    /// A request that was cancelled before the server executed it. It gets no response.
    pub(super) fn cancelled() -> Self {
        Self::server("the request was cancelled")
    }

    /// An error status in a response whose body is not a JSON-RPC error.
    pub(super) fn status(status: StatusCode) -> Self {
        let hint = match status {
            StatusCode::UNAUTHORIZED => {
                ": the server requires authentication; set `remote_auth`, or a header with a token"
            }
            StatusCode::FORBIDDEN => ": the request is not allowed",
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => {
                ": the server has no MCP endpoint at this URL"
            }
            StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => {
                ": use the URL that the server redirects to"
            }
            _ => "",
        };
        Self::server(format!("the server responded with HTTP {status}{hint}"))
    }

    /// The JSON-RPC response to the request with this id, which is given as JSON.
    pub(super) fn response(&self, id: &[u8]) -> Bytes {
        error_response(id, self.code, &self.text).freeze()
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<TokenUnavailable> for Failure {
    fn from(unavailable: TokenUnavailable) -> Self {
        Self::server(match unavailable {
            TokenUnavailable::LoginRequired => {
                "the server requires a login, which was not completed in time; send the request again"
            }
            TokenUnavailable::Unavailable | TokenUnavailable::Rejected => unavailable.message(),
        })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::server(error.to_string())
    }
}
