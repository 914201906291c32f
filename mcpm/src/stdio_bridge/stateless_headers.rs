//! Creates the headers of a stateless request, which repeat parts of its body (MCP 2026-07-28, "Standard Request
//! Headers" and "Custom headers from tool parameters").

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::failure::Failure;
use crate::mcp::{
    era::{FIRST_MODERN_VERSION, ModernMeta},
    error_code,
    message::Message,
    param_headers::ParamHeader,
    request_headers::{MCP_METHOD, MCP_NAME, MCP_PROTOCOL_VERSION, encode_value, name_param},
};

/// Returns the protocol version in the `_meta` of a message, if it is stateless.
pub(super) fn stateless_version(message: &Message) -> Option<String> {
    let version = ModernMeta::of(message)?.version()?;
    (*version >= *FIRST_MODERN_VERSION).then_some(version)
}

/// Returns the tool that a request calls.
pub(super) fn called_tool(message: &Message) -> Option<String> {
    if message.method() != "tools/call" {
        return None;
    }
    let params: Value = serde_json::from_str(message.params()).ok()?;
    params["name"].as_str().map(str::to_owned)
}

/// Returns the headers of a message of this protocol version, including those of mirrored arguments.
///
/// # Errors
/// A method or version that is not a valid header value.
pub(super) fn stateless_headers(
    message: &Message,
    version: &str,
    mirrored: &[ParamHeader],
) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    let mut put = |name: &str, value: &str| {
        let invalid = || {
            Failure::new(
                error_code::INVALID_REQUEST,
                format!("the value of `{name}` is not a valid header value"),
            )
        };
        let name = HeaderName::try_from(name).map_err(|_| invalid())?;
        headers.insert(name, HeaderValue::try_from(value).map_err(|_| invalid())?);
        Ok::<_, Failure>(())
    };
    put(MCP_PROTOCOL_VERSION, version)?;
    put(MCP_METHOD, message.method())?;
    let name = name_param(message.method());
    if name.is_none() && mirrored.is_empty() {
        return Ok(headers);
    }
    let params: Value = serde_json::from_str(message.params()).unwrap_or_default();
    if let Some(name) = name.and_then(|field| params[field].as_str()) {
        put(MCP_NAME, &encode_value(name))?;
    }
    for ParamHeader { path, header } in mirrored {
        let value = path.iter().fold(&params["arguments"], |value, name| &value[name.as_str()]);
        let text = match value {
            Value::String(text) => encode_value(text),
            Value::Bool(value) => value.to_string(),
            Value::Number(number) => number.to_string(),
            // These values cannot be written in a header.
            Value::Null | Value::Array(_) | Value::Object(_) => continue,
        };
        put(header, &text)?;
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_repeat_the_body() {
        let text = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"größe","arguments":
            {"region":" x","deep":{"n":7},"on":true,"none":null},
            "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let message = Message::parse(text.into()).expect("a request");
        let header = |path: &[&str], header: &str| ParamHeader {
            path: path.iter().map(|name| (*name).to_owned()).collect(),
            header: header.to_owned(),
        };
        let mirrored = [
            header(&["region"], "mcp-param-region"),
            header(&["deep", "n"], "mcp-param-n"),
            header(&["on"], "mcp-param-on"),
            header(&["none"], "mcp-param-none"),
        ];
        let version = stateless_version(&message).expect("stateless");
        assert_eq!(called_tool(&message).as_deref(), Some("größe"));
        let headers = stateless_headers(&message, &version, &mirrored).expect("headers");
        let mut found: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        found.sort_unstable();
        assert_eq!(
            found,
            [
                ("mcp-method", &b"tools/call"[..]),
                ("mcp-name", b"=?base64?Z3LDtsOfZQ==?="),
                ("mcp-param-n", b"7"),
                ("mcp-param-on", b"true"),
                ("mcp-param-region", b"=?base64?IHg=?="),
                ("mcp-protocol-version", b"2026-07-28"),
            ]
        );
    }
}
