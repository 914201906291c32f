//! Parses the messages in the body of a request.

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use serde_json::value::RawValue;

use crate::mcp::{
    era::{self, Era, ModernMeta},
    error_code,
    message::{Malformed, Message, MessageKind, batch, same_id},
};

const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The messages of a request, parsed once for all layers. The request's extensions contain them as an
/// `Arc<RequestMessages>`.
#[derive(Debug, Clone)]
pub(crate) struct RequestMessages {
    messages: Vec<Message>,
    batch: bool,
    era: Era,
}

impl RequestMessages {
    /// Parses a body: one message, or a batch.
    pub(crate) fn read(headers: &HeaderMap, body: Bytes) -> Result<Self, Malformed> {
        let batch = body.trim_ascii_start().starts_with(b"[");
        let messages = if batch { parse_batch(&body)? } else { vec![Message::parse(body)?] };
        let modern = messages.iter().any(|message| is_modern(headers, message));
        Ok(Self { messages, batch, era: if modern { Era::Modern } else { Era::Legacy } })
    }

    /// All messages; there is at least one.
    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Whether the body is a batch, which gets an array as its response.
    pub(crate) fn is_batch(&self) -> bool {
        self.batch
    }

    /// The message, if the body is not a batch.
    pub(crate) fn single(&self) -> Option<&Message> {
        self.messages.first().filter(|_| !self.batch)
    }

    /// The era whose rules apply to the response.
    pub(crate) fn era(&self) -> Era {
        self.era
    }

    /// The request that a response belongs to, if there is exactly one with its id.
    pub(super) fn request_for(&self, answer: &Message) -> Option<&Message> {
        if answer.kind() != MessageKind::Response {
            return None;
        }
        let id = answer.id_text();
        let mut same = self
            .messages
            .iter()
            .filter(|asked| asked.kind() == MessageKind::Request && same_id(asked.id_text(), id));
        same.next().filter(|_| same.next().is_none())
    }
}

/// Parses the messages of a batch.
fn parse_batch(body: &Bytes) -> Result<Vec<Message>, Malformed> {
    let texts = batch_of(body)?;
    if texts.is_empty() {
        let reason = "not an array of JSON-RPC messages: it is empty".to_owned();
        return Err(Malformed { code: error_code::INVALID_REQUEST, reason });
    }
    texts.iter().map(|text| Message::parse(body.slice_ref(text.get().as_bytes()))).collect()
}

/// The texts of the messages of a batch.
pub(in crate::proxy) fn batch_of(body: &[u8]) -> Result<Vec<&RawValue>, Malformed> {
    let text = std::str::from_utf8(body).map_err(|error| Malformed {
        code: error_code::PARSE_ERROR,
        reason: format!("not UTF-8: {error}"),
    })?;
    batch(text)
}

/// Whether a message belongs to the stateless era, according to its `_meta` or its version header.
pub(crate) fn is_modern(headers: &HeaderMap, message: &Message) -> bool {
    let by_header = headers
        .get(MCP_PROTOCOL_VERSION)
        .is_some_and(|version| version.as_bytes() >= era::FIRST_MODERN_VERSION.as_bytes());
    let by_meta = || ModernMeta::of(message).is_some_and(|meta| meta.version.is_some());
    (by_header && !headers.contains_key(MCP_SESSION_ID)) || message.method() == "server/discover" || by_meta()
}
