//! The headers that repeat parts of a stateless request (MCP 2026-07-28, "Standard Request Headers").

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// The header with the protocol version, in both eras.
pub(crate) const MCP_PROTOCOL_VERSION: &str = "mcp-protocol-version";
/// The header that repeats the method.
pub(crate) const MCP_METHOD: &str = "mcp-method";
/// The header that repeats the parameter of [`name_param`].
pub(crate) const MCP_NAME: &str = "mcp-name";

/// The start and the end of an encoded value. A value is encoded if it is not allowed in a header, or looks encoded.
const ENCODED_START: &str = "=?base64?";
const ENCODED_END: &str = "?=";

/// The parameter that `Mcp-Name` repeats.
pub(crate) fn name_param(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// Encodes a value for a header: as `=?base64?...?=`, unless it is visible ASCII without spaces at its ends.
pub(crate) fn encode_value(value: &str) -> String {
    let is_visible = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let is_padded = value.starts_with(' ') || value.ends_with(' ');
    let looks_encoded = value.starts_with(ENCODED_START) && value.ends_with(ENCODED_END);
    if is_visible && !is_padded && !looks_encoded {
        return value.to_owned();
    }
    format!("{ENCODED_START}{}{ENCODED_END}", STANDARD.encode(value))
}

/// Decodes a header's value; `None` if its base64 encoding is invalid.
pub(crate) fn decode_value(value: &str) -> Option<String> {
    let encoded = value.strip_prefix(ENCODED_START).and_then(|rest| rest.strip_suffix(ENCODED_END));
    let Some(encoded) = encoded else { return Some(value.to_owned()) };
    STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_no_header_can_carry_are_encoded() {
        for (value, header) in [
            ("plain text", "plain text"),
            ("", ""),
            ("file:///a%20b", "file:///a%20b"),
            (" a", "=?base64?IGE=?="),
            ("a\tb", "=?base64?YQli?="),
            ("a\nb", "=?base64?YQpi?="),
            ("Grüße", "=?base64?R3LDvMOfZQ==?="),
            ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
        ] {
            assert_eq!(encode_value(value), header);
            assert_eq!(decode_value(header).as_deref(), Some(value));
        }
        assert_eq!(decode_value("=?base64?YQ?="), None);
    }
}
