//! The `initialize` handshake that several legacy clients share with one stdio server.
//!
//! A process accepts only one handshake, but each client sends one. The capabilities in the handshake determine which
//! requests the server may send to the client. So normally only clients with the same protocol version and capabilities
//! share a process: the handshake of the first client is sent to the server with another id and progress token, and
//! later clients get the same result. After a restart of the process, the handshake is replayed.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use crate::mcp::message::{Message, Span, result_response, shortened, splice};

/// Maximum size of an `initialize` request in bytes, which is kept as long as its process.
pub(crate) const MAX_INITIALIZE_BYTES: usize = 256 << 10;

/// Maximum size of the response to `initialize` in bytes, which is kept as long as its process, and copied for each
/// client.
pub(crate) const MAX_RESULT_BYTES: usize = 1 << 20;

/// The kinds of requests that a client accepts from the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClientCapabilities {
    sampling: bool,
    elicitation: bool,
    roots: bool,
}

impl ClientCapabilities {
    fn of(declared: &Map<String, Value>) -> Self {
        let has = |name| declared.contains_key(name);
        Self { sampling: has("sampling"), elicitation: has("elicitation"), roots: has("roots") }
    }

    /// Whether the client declared a capability, by its name in `capabilities`.
    pub(crate) fn has(self, name: &str) -> bool {
        match name {
            "sampling" => self.sampling,
            "elicitation" => self.elicitation,
            "roots" => self.roots,
            _ => false,
        }
    }

    /// Whether the client declared any of these capabilities.
    pub(crate) fn any(self) -> bool {
        self != Self::default()
    }
}

/// The parsed fields of an `initialize` request.
#[derive(Debug, Clone)]
pub(crate) struct Initialize {
    message: Message,
    version: String,
    version_span: Span,
    token_span: Option<Span>,
    capabilities: Arc<Map<String, Value>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeRequestParams<'a> {
    #[serde(borrow)]
    protocol_version: &'a RawValue,
    #[serde(borrow)]
    capabilities: &'a RawValue,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<InitializeMeta<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeMeta<'a> {
    #[serde(borrow, default)]
    progress_token: Option<&'a RawValue>,
}

impl Initialize {
    /// Parses the parameters of the request. The error describes what is wrong with them.
    pub(crate) fn read(message: Message) -> Result<Self, String> {
        let params: InitializeRequestParams<'_> =
            serde_json::from_str(message.params()).map_err(|error| shortened(&error))?;
        let version = serde_json::from_str(params.protocol_version.get())
            .map_err(|_| "`protocolVersion` is not a string")?;
        let capabilities: Map<String, Value> =
            serde_json::from_str(params.capabilities.get()).map_err(|_| "`capabilities` is not an object")?;
        let version_span = message.span_of(params.protocol_version);
        let token = params.meta.and_then(|meta| meta.progress_token);
        let token_span = token.map(|token| message.span_of(token));
        // A copy, because the original would retain the whole read buffer of its connection.
        let message = message.into_owned();
        Ok(Self { version, version_span, token_span, capabilities: Arc::new(capabilities), message })
    }

    pub(crate) fn message(&self) -> &Message {
        &self.message
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// Returns the capabilities of the client.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::of(&self.capabilities)
    }

    /// Whether another client requests the same version and has the same capabilities.
    pub(crate) fn has_same_parameters(&self, other: &Self) -> bool {
        self.version == other.version && self.capabilities == other.capabilities
    }

    /// Whether a process that was initialized with these parameters can serve a client with `other`: both have the same
    /// version, and the client has no capability that the process does not know of. The client never gets a request
    /// that it cannot handle.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.version == other.version
            && other.capabilities.iter().all(|(name, value)| self.capabilities.get(name) == Some(value))
    }

    /// Returns the request with another id and version, and with the id as the progress token, because the client's
    /// own token may be the same as that of another client's call. All other bytes stay the same.
    pub(crate) fn rewritten(&self, id: &str, version: &str) -> BytesMut {
        let version_text = Value::from(version).to_string();
        let mut edits: Vec<(Span, &[u8])> = vec![(self.message.id_span(), id.as_bytes())];
        if version != self.version {
            edits.push((self.version_span.clone(), version_text.as_bytes()));
        }
        edits.extend(self.token_span.clone().map(|span| (span, id.as_bytes())));
        splice(self.message.bytes(), &mut edits)
    }
}

/// A completed handshake.
#[derive(Debug, Clone)]
pub(crate) struct CompletedHandshake {
    /// The request, for a replay after a restart.
    pub(crate) request: Initialize,
    /// The version that the server selected.
    pub(crate) version: String,
    /// The `result` of the response.
    pub(crate) result: Bytes,
    /// Whether `notifications/initialized` was sent.
    pub(crate) initialized_sent: bool,
}

impl CompletedHandshake {
    /// Returns the response to another client's `initialize`.
    pub(crate) fn response_for(&self, id: &[u8]) -> Bytes {
        result_response(id, &self.result)
    }
}

/// Whether a server's response is too large to be kept.
pub(crate) fn is_too_large(answer: &Message) -> bool {
    answer.bytes().len() > MAX_RESULT_BYTES
}

/// Returns the protocol version in an `initialize` result.
pub(crate) fn chosen_version(result: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Chosen {
        protocol_version: String,
    }
    serde_json::from_str::<Chosen>(result).ok().map(|chosen| chosen.protocol_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewritten_request_keeps_what_it_does_not_change() {
        let text = r#"{"method":"initialize","params":{"x":1.0,"capabilities":{"roots":{}},"protocolVersion":"2025-11-25"},"jsonrpc":"2.0","id":"a"}"#;
        let read =
            Initialize::read(Message::parse(Bytes::from(text)).expect("a message")).expect("an initialize");
        let changed = read.rewritten("7", "2025-06-18");
        let expected = text.replace("\"a\"", "7").replace("2025-11-25", "2025-06-18");
        assert_eq!(changed, expected.as_bytes());
    }

    #[test]
    fn a_progress_token_is_replaced_by_the_id() {
        let text = r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"1","capabilities":{},"_meta":{"progressToken":3}}}"#;
        let read =
            Initialize::read(Message::parse(Bytes::from(text)).expect("a message")).expect("an initialize");
        assert_eq!(read.rewritten("7", "1"), text.replace("\"a\"", "7").replace(":3}", ":7}").as_bytes());
    }

    #[test]
    fn a_process_covers_clients_that_can_do_less() {
        let read = |version: &str, capabilities: &str| {
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{capabilities}}}}}"#
            );
            Initialize::read(Message::parse(text.into()).expect("a message")).expect("an initialize")
        };
        let told = read("1", r#"{"roots":{"listChanged":true},"sampling":{}}"#);
        for (version, capabilities, covered) in [
            ("1", "{}", true),
            ("1", r#"{"sampling":{}}"#, true),
            ("1", r#"{"roots":{"listChanged":true}}"#, true),
            ("1", r#"{"roots":{}}"#, false),
            ("1", r#"{"elicitation":{}}"#, false),
            ("2", "{}", false),
        ] {
            assert_eq!(told.covers(&read(version, capabilities)), covered, "{version} {capabilities}");
        }
    }
}
