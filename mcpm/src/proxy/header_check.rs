//! Checks that the headers of a stateless request match its body (MCP 2026-07-28, "Standard Request Headers" and
//! "Custom headers from tool parameters"), because intermediaries make decisions based only on headers.

use http::{HeaderMap, HeaderName, StatusCode, header::AsHeaderName};
use serde_json::Value;

use crate::{
    mcp::{
        era::ModernMeta,
        error_code,
        fields::AmbiguousField,
        message::Message,
        param_headers::ParamHeader,
        request_headers::{MCP_METHOD, MCP_NAME, MCP_PROTOCOL_VERSION, decode_value, name_param},
    },
    stdio::mux::RpcError,
};

const METHOD_HEADER: HeaderName = HeaderName::from_static(MCP_METHOD);
const NAME_HEADER: HeaderName = HeaderName::from_static(MCP_NAME);

/// Checks the headers that every stateless request must have.
pub(super) fn check_required(
    headers: &HeaderMap,
    message: &Message,
    meta: Option<&ModernMeta<'_>>,
) -> Result<(), RpcError> {
    let missing = |what: &str| {
        Err(RpcError::new(
            StatusCode::BAD_REQUEST,
            error_code::INVALID_PARAMS,
            format!("`_meta` lacks {what}"),
        ))
    };
    let Some(meta) = meta else { return missing("the protocol version and the client's capabilities") };
    let Some(version) = meta.version() else { return missing("`io.modelcontextprotocol/protocolVersion`") };
    if meta.capabilities.is_none_or(|capabilities| !capabilities.get().starts_with('{')) {
        return missing("`io.modelcontextprotocol/clientCapabilities`");
    }
    expect_header(headers, MCP_PROTOCOL_VERSION, Some(&version))?;
    expect_header(headers, MCP_METHOD, Some(message.method()))?;
    if let Some(field) = name_param(message.method()) {
        let name = single_header(headers, MCP_NAME)?.map(decode).transpose()?;
        if name != param_text(message, field)? {
            return Err(mismatch(MCP_NAME));
        }
    }
    Ok(())
}

/// Checks optional headers, which must match the message if they are present.
pub(super) fn check_optional(headers: &HeaderMap, message: &Message) -> Result<(), RpcError> {
    let method = single_header(headers, &METHOD_HEADER)?;
    if method.is_some_and(|method| method != message.method()) {
        return Err(mismatch(MCP_METHOD));
    }
    let Some(name) = single_header(headers, &NAME_HEADER)?.map(decode).transpose()? else { return Ok(()) };
    let field_value =
        name_param(message.method()).map(|field| param_text(message, field)).transpose()?.flatten();
    if field_value.is_none_or(|field_value| field_value == name) { Ok(()) } else { Err(mismatch(MCP_NAME)) }
}

/// Checks the headers that repeat arguments of a tool.
pub(super) fn check_params(
    headers: &HeaderMap,
    message: &Message,
    mirrored: &[ParamHeader],
) -> Result<(), RpcError> {
    if mirrored.is_empty() {
        return Ok(());
    }
    let params: Value = serde_json::from_str(message.params()).unwrap_or_default();
    for ParamHeader { path, header } in mirrored {
        let value = path.iter().fold(&params["arguments"], |value, name| &value[name.as_str()]);
        let sent = single_header(headers, header)?.map(decode).transpose()?;
        let agrees = match (value, sent) {
            (Value::Null, None) => true,
            (Value::String(text), Some(sent)) => *text == sent,
            (Value::Bool(truth), Some(sent)) => truth.to_string() == sent,
            (Value::Number(number), Some(sent)) => same_number(&number.to_string(), &sent),
            // Arrays and objects cannot be written in a header.
            (Value::Array(_) | Value::Object(_), None) => true,
            _ => false,
        };
        if !agrees {
            return Err(mismatch(header));
        }
    }
    Ok(())
}

/// A string parameter.
fn param_text(message: &Message, field: &str) -> Result<Option<String>, RpcError> {
    let Some(fields) = message.params_fields() else { return Ok(None) };
    let ambiguous = |error: AmbiguousField| {
        RpcError::new(StatusCode::BAD_REQUEST, error_code::INVALID_PARAMS, error.to_string())
    };
    let text = fields.get_unique(field).map_err(ambiguous)?;
    Ok(text.and_then(|text| serde_json::from_str(text.get()).ok()))
}

fn expect_header(headers: &HeaderMap, name: &str, expected: Option<&str>) -> Result<(), RpcError> {
    if single_header(headers, name)? == expected { Ok(()) } else { Err(mismatch(name)) }
}

fn single_header<N: AsHeaderName + AsRef<str> + Copy>(
    headers: &HeaderMap,
    name: N,
) -> Result<Option<&str>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(mismatch(name.as_ref()));
    }
    value.to_str().map(|value| Some(value.trim_matches([' ', '\t']))).map_err(|_| mismatch(name.as_ref()))
}

/// Decodes a header value.
fn decode(value: &str) -> Result<String, RpcError> {
    decode_value(value).ok_or_else(|| {
        RpcError::new(
            StatusCode::BAD_REQUEST,
            error_code::HEADER_MISMATCH,
            "the base64 encoding of a header is invalid",
        )
    })
}

/// Whether two decimal numbers are equal: `42.0` equals `42`.
fn same_number(body: &str, sent: &str) -> bool {
    let plain = |text: &str| {
        let whole = text.split_once('.').filter(|(_, part)| part.bytes().all(|digit| digit == b'0'));
        whole.map_or(text, |(whole, _)| whole).to_owned()
    };
    !sent.is_empty() && plain(body) == plain(sent)
}

fn mismatch(name: &str) -> RpcError {
    let message = format!("Header mismatch: `{name}` does not match the body");
    RpcError::new(StatusCode::BAD_REQUEST, error_code::HEADER_MISMATCH, message)
}
