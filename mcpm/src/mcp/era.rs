//! The two eras of the protocol: with a handshake and sessions, or stateless since 2026-07-28.

use bytes::BytesMut;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{error_code, message::Message};

/// An era of the protocol. A server's process is used for one era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// Handshake and sessions: 2025-11-25 and older.
    Legacy,
    /// Stateless: 2026-07-28 and newer.
    Modern,
}

/// The first version without a handshake; versions are dates and compare as text.
pub(crate) const FIRST_MODERN_VERSION: &str = "2026-07-28";
/// The assumed version of a legacy client that does not send one (MCP 2025-06-18, "Protocol Version Header").
pub(crate) const DEFAULT_LEGACY_VERSION: &str = "2025-03-26";
/// The last version that allowed several messages in one array.
pub(crate) const LAST_BATCHING_VERSION: &str = "2025-03-26";
/// The first version whose clients accept a stream that begins with an empty event.
pub(crate) const FIRST_PRIMING_VERSION: &str = "2025-11-25";
/// Versions with a handshake.
pub(crate) const LEGACY_VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The fields of a request's `_meta` that identify the era.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ModernMeta<'a> {
    /// The protocol version.
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    pub(crate) version: Option<&'a RawValue>,
    /// The capabilities of the client.
    #[serde(borrow, default, rename = "io.modelcontextprotocol/clientCapabilities")]
    pub(crate) capabilities: Option<&'a RawValue>,
}

impl<'a> ModernMeta<'a> {
    /// Parses the fields from a message's params, if `_meta` is an object.
    pub(crate) fn of(message: &'a Message) -> Option<Self> {
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(borrow, default, rename = "_meta")]
            meta: Option<ModernMeta<'a>>,
        }
        if !message.may_have_meta() {
            return None;
        }
        serde_json::from_str::<Params<'a>>(message.params()).ok()?.meta
    }

    /// Returns the version, if it is a string.
    pub(crate) fn version(&self) -> Option<String> {
        serde_json::from_str(self.version?.get()).ok()
    }
}

/// Methods that the stateless era removed (MCP 2026-07-28, changelog).
pub(crate) fn removed_in_modern(method: &str) -> bool {
    matches!(
        method,
        "initialize" | "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe"
    )
}

/// Returns the client capability that a server request needs.
pub(crate) fn capability_for(method: &str) -> Option<&'static str> {
    match method.split('/').next() {
        Some("sampling") => Some("sampling"),
        Some("elicitation") => Some("elicitation"),
        Some("roots") => Some("roots"),
        _ => None,
    }
}

/// Creates mcpm's own `server/discover`.
pub(crate) fn discover_request(id: u64) -> BytesMut {
    let params = serde_json::json!({ "_meta": own_meta() });
    request(id, "server/discover", &params)
}

/// Creates the multiplexer's own `tools/list`, for the arguments that are mirrored in headers.
pub(crate) fn tools_request(id: u64, cursor: Option<&str>) -> BytesMut {
    let mut params = serde_json::json!({ "_meta": own_meta() });
    if let Some(cursor) = cursor {
        params["cursor"] = cursor.into();
    }
    request(id, "tools/list", &params)
}

/// Creates mcpm's own `tools/list` of the older era.
#[cfg(feature = "login")]
pub(crate) fn tools_list_request(id: u64) -> BytesMut {
    request(id, "tools/list", &serde_json::json!({}))
}

/// Creates mcpm's own `initialize`, for a server that responds to nothing else.
pub(crate) fn initialize_request(id: u64) -> BytesMut {
    let params = serde_json::json!({
        "protocolVersion": LEGACY_VERSIONS[LEGACY_VERSIONS.len() - 1],
        "capabilities": {},
        "clientInfo": client_info(),
    });
    request(id, "initialize", &params)
}

/// Returns the era that a response to `server/discover` shows. Older versions in its list do not show that the server
/// supports the older era.
pub(crate) fn era_from_discover(answer: &Message) -> Era {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Discovered {
        supported_versions: Vec<String>,
    }
    let modern = serde_json::from_str::<Discovered>(answer.result()).is_ok_and(|found| {
        found.supported_versions.iter().any(|version| version.as_str() >= FIRST_MODERN_VERSION)
    });
    if modern || answer.error_code() == Some(error_code::UNSUPPORTED_VERSION) {
        Era::Modern
    } else {
        Era::Legacy
    }
}

/// Returns the era that a response to `initialize` shows, if the server did not respond to `server/discover` before.
pub(crate) fn era_from_initialize(answer: &Message) -> Era {
    if answer.error_code() == Some(error_code::UNSUPPORTED_VERSION) { Era::Modern } else { Era::Legacy }
}

fn own_meta() -> serde_json::Value {
    serde_json::json!({
        "io.modelcontextprotocol/protocolVersion": FIRST_MODERN_VERSION,
        "io.modelcontextprotocol/clientInfo": client_info(),
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn client_info() -> serde_json::Value {
    serde_json::json!({ "name": "mcpm", "version": env!("CARGO_PKG_VERSION") })
}

fn request(id: u64, method: &str, params: &serde_json::Value) -> BytesMut {
    let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
    BytesMut::from(text.as_bytes())
}
