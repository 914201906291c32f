//! The parts of MCP that a proxy needs: messages, request ids, SSE events and protocol eras.
//!
//! This module opens no sockets and depends neither on HTTP nor on processes. With these types, `stdio` multiplexes a
//! server process among clients, and the proxy's layers parse the messages that they decide about.

pub(crate) mod era;
pub(crate) mod event_reader;
pub(crate) mod fields;
pub(crate) mod message;
pub(crate) mod methods;
pub(crate) mod outline;
pub(crate) mod param_headers;
pub(crate) mod request_headers;
pub(crate) mod request_id;
mod scan;
pub(crate) mod sse;

/// JSON-RPC error codes of mcpm's own responses (JSON-RPC 2.0 section 5.1; MCP 2026-07-28 error codes).
pub(crate) mod error_code {
    /// The bytes are not JSON.
    pub(crate) const PARSE_ERROR: i64 = -32700;
    /// The JSON is not a valid request.
    pub(crate) const INVALID_REQUEST: i64 = -32600;
    /// The method does not exist.
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    /// A parameter is missing or wrong.
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    /// The proxy or the server behind it failed.
    pub(crate) const INTERNAL_ERROR: i64 = -32603;
    /// The session is unknown; clients open a new one.
    pub(crate) const SESSION_NOT_FOUND: i64 = -32001;
    /// A mirrored header contradicts the body.
    pub(crate) const HEADER_MISMATCH: i64 = -32020;
    /// The protocol version is not supported.
    pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;
}
