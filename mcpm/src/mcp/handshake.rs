//! The `initialize` handshake that several legacy clients share with one stdio server.
//!
//! A pipe carries one handshake, clients bring one each, and what the server may ask of a client hangs on it.
//! So a process is shared by clients that say the same: the first one's handshake goes to the server as it is,
//! a later one gets the same answer. After a restart the handshake is played again.

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use super::message::{Message, Span, result_answer, splice};

/// What the bridge reads of an `initialize` request.
#[derive(Debug, Clone)]
pub(crate) struct Initialize {
    message: Message,
    version: String,
    version_span: Span,
    capabilities: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow)]
    protocol_version: &'a RawValue,
    #[serde(borrow)]
    capabilities: &'a RawValue,
}

impl Initialize {
    /// Reads the request's parameters, or says what is wrong with them.
    pub(crate) fn read(message: Message) -> Result<Self, String> {
        let params: Params<'_> = serde_json::from_str(message.params()).map_err(|error| error.to_string())?;
        let version = serde_json::from_str(params.protocol_version.get())
            .map_err(|_| "`protocolVersion` is not a string")?;
        let capabilities =
            serde_json::from_str(params.capabilities.get()).map_err(|_| "`capabilities` is not an object")?;
        let version_span = message.span_of(params.protocol_version);
        Ok(Self { version, version_span, capabilities, message })
    }

    pub(crate) fn message(&self) -> &Message {
        &self.message
    }

    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    pub(crate) fn capabilities(&self) -> &Map<String, Value> {
        &self.capabilities
    }

    /// Whether another client asks for the same version and can do the same things.
    pub(crate) fn same_client_shape(&self, other: &Self) -> bool {
        self.version == other.version && self.capabilities == other.capabilities
    }

    /// Whether a server may ask its client for something.
    pub(crate) fn can_be_asked(&self) -> bool {
        ["sampling", "elicitation", "roots"]
            .iter()
            .any(|capability| self.capabilities.contains_key(*capability))
    }

    /// The request with another id and version. What stays the same keeps its bytes.
    pub(crate) fn rewritten(&self, id: &str, version: &str) -> BytesMut {
        let version_text = Value::from(version).to_string();
        let mut edits: Vec<(Span, &[u8])> = vec![(self.message.id_span(), id.as_bytes())];
        if version != self.version {
            edits.push((self.version_span.clone(), version_text.as_bytes()));
        }
        splice(self.message.bytes(), &mut edits)
    }
}

/// What the server was told, and what it answered.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    /// The request it was built from, to be played again after a restart.
    pub(crate) request: Initialize,
    /// The version it chose.
    pub(crate) version: String,
    /// The `result` of its answer.
    pub(crate) result: Bytes,
    /// Whether `notifications/initialized` went out.
    pub(crate) initialized: bool,
}

impl Told {
    /// The answer for another client's `initialize`.
    pub(crate) fn answer(&self, id: &[u8]) -> Bytes {
        result_answer(id, &self.result)
    }
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
}
