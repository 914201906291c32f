//! The `initialize` handshake that several legacy clients share with one stdio server.
//!
//! A pipe carries one handshake, clients bring one each, and what the server may ask of a client hangs on it.
//! So a process is shared by clients that say the same: the first one's handshake goes to the server as it is,
//! a later one gets the same answer. After a restart the handshake is played again.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use crate::mcp::message::{Message, Span, result_response, shortened, splice};

/// Largest `initialize` request in bytes: it is kept as long as the process that got it.
pub(crate) const MAX_INITIALIZE_BYTES: usize = 256 << 10;

/// Largest answer of a server to `initialize` in bytes: it is kept as long as the process, and copied for each client.
pub(crate) const MAX_RESULT_BYTES: usize = 1 << 20;

/// What a server may ask of a client.
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

    /// Whether the client declared one of them, by its name in `capabilities`.
    pub(crate) fn has(self, name: &str) -> bool {
        match name {
            "sampling" => self.sampling,
            "elicitation" => self.elicitation,
            "roots" => self.roots,
            _ => false,
        }
    }

    /// Whether the client declared any of them.
    pub(crate) fn any(self) -> bool {
        self != Self::default()
    }
}

/// What the bridge reads of an `initialize` request.
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
    /// Reads the request's parameters, or says what is wrong with them.
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
        // A copy, since it would keep the whole buffer of the connection that it came on.
        let message = message.into_owned();
        Ok(Self { version, version_span, token_span, capabilities: Arc::new(capabilities), message })
    }

    pub(crate) fn message(&self) -> &Message {
        &self.message
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// What a server may ask of the client.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::of(&self.capabilities)
    }

    /// Whether another client asks for the same version and can do the same things.
    pub(crate) fn has_same_parameters(&self, other: &Self) -> bool {
        self.version == other.version && self.capabilities == other.capabilities
    }

    /// Whether a process that was told this serves a client that says `other` as well: it speaks the same version, and
    /// was told of everything that the client can do. What the client cannot do is never asked of it.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        self.version == other.version
            && other.capabilities.iter().all(|(name, value)| self.capabilities.get(name) == Some(value))
    }

    /// The request with another id and version, and with the id for a progress token: the client's own token could be
    /// one that another client's call has. What stays the same keeps its bytes.
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

/// What the server was told, and what it answered.
#[derive(Debug, Clone)]
pub(crate) struct CompletedHandshake {
    /// The request it was built from, to be played again after a restart.
    pub(crate) request: Initialize,
    /// The version it chose.
    pub(crate) version: String,
    /// The `result` of its answer.
    pub(crate) result: Bytes,
    /// Whether `notifications/initialized` went out.
    pub(crate) initialized_sent: bool,
}

impl CompletedHandshake {
    /// The answer for another client's `initialize`.
    pub(crate) fn response_for(&self, id: &[u8]) -> Bytes {
        result_response(id, &self.result)
    }
}

/// Whether a server's answer is too large to be kept.
pub(crate) fn is_too_large(answer: &Message) -> bool {
    answer.bytes().len() > MAX_RESULT_BYTES
}

/// Reads the protocol version out of an `initialize` result.
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
