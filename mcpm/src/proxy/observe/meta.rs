//! Writes the trace context into `_meta` of a request (SEP-414), for stdio servers, which get no headers.
//!
//! The context is inserted if `params` is an object, and replaces an existing `traceparent` and `tracestate` if they
//! are strings. All other bytes stay the same. Batches and notifications are not changed.

use bytes::Bytes;
use http::{HeaderValue, header};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    mcp::message::{Message, MessageKind, Span, splice},
    proxy::{body::Body, messages::RequestMessages, respond::Request},
    telemetry::TraceContext,
};

#[derive(Deserialize)]
struct RequestParams<'a> {
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct TraceMeta<'a> {
    #[serde(borrow, default)]
    traceparent: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tracestate: Option<&'a RawValue>,
}

/// Returns a single request with the trace context in it; `None` if it is not changed.
pub(super) fn with_trace_context(messages: &RequestMessages, context: &TraceContext) -> Option<Bytes> {
    let message = messages.single().filter(|message| message.kind() == MessageKind::Request)?;
    let parent = serde_json::to_string(context.traceparent()?).ok()?;
    let state = context.tracestate().map(serde_json::to_string).transpose().ok()?;
    let params = message.params();
    if !params.starts_with('{') {
        return None;
    }
    // Params with duplicate keys are left unchanged.
    let read: RequestParams<'_> = serde_json::from_str(params).ok()?;
    let mut edits: Vec<(Span, String)> = Vec::new();
    match read.meta {
        None => {
            let mut fields = format!(r#""traceparent":{parent}"#);
            if let Some(state) = &state {
                fields += &format!(r#","tracestate":{state}"#);
            }
            edits.push(insert_fields(message, params, params, &format!(r#""_meta":{{{fields}}}"#))?);
        }
        Some(meta) if meta.get().starts_with('{') => {
            let fields: TraceMeta<'_> = serde_json::from_str(meta.get()).ok()?;
            let mut added = Vec::new();
            match fields.traceparent {
                Some(there) if there.get().starts_with('"') => edits.push((message.span_of(there), parent)),
                Some(_) => return None,
                None => added.push(format!(r#""traceparent":{parent}"#)),
            }
            match (fields.tracestate, state) {
                (Some(there), Some(state)) if there.get().starts_with('"') => {
                    edits.push((message.span_of(there), state));
                }
                (Some(there), None) if there.get().starts_with('"') => {
                    edits.push((message.span_of(there), "\"\"".to_owned()));
                }
                (Some(_), _) => return None,
                (None, Some(state)) => added.push(format!(r#""tracestate":{state}"#)),
                (None, None) => {}
            }
            if !added.is_empty() {
                edits.push(insert_fields(message, params, meta.get(), &added.join(","))?);
            }
        }
        Some(_) => return None,
    }
    let mut edits: Vec<(Span, &[u8])> =
        edits.iter().map(|(span, text)| (span.clone(), text.as_bytes())).collect();
    Some(splice(message.bytes(), &mut edits).freeze())
}

/// The edit that inserts fields at the beginning of an object in the params.
fn insert_fields(message: &Message, params: &str, object: &str, fields: &str) -> Option<(Span, String)> {
    let params_at = (params.as_ptr() as usize).checked_sub(message.bytes().as_ptr() as usize)?;
    let at = params_at + (object.as_ptr() as usize).checked_sub(params.as_ptr() as usize)? + 1;
    let is_empty = object[1..].trim_start().starts_with('}');
    Some((at..at, if is_empty { fields.to_owned() } else { format!("{fields},") }))
}

/// Replaces the body of a request.
pub(super) fn set_body(request: &mut Request, body: Bytes) {
    let headers = request.headers_mut();
    if headers.contains_key(header::CONTENT_LENGTH) {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    *request.body_mut() = Body::from(body);
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn carrier(state: Option<&str>) -> TraceContext {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", PARENT.parse().expect("a value"));
        if let Some(state) = state {
            headers.insert("tracestate", state.parse().expect("a value"));
        }
        TraceContext::from_headers(&headers)
    }

    fn with_context(params: &str, state: Option<&str>) -> Option<String> {
        let text = format!(r#" {{"id":1.0 ,"method":"a","params":{params},"jsonrpc":"2.0"}}"#);
        let asked = RequestMessages::read(&HeaderMap::new(), Bytes::from(text)).expect("a message");
        let placed = with_trace_context(&asked, &carrier(state))?;
        let text = String::from_utf8(placed.to_vec()).expect("text");
        let inner = text.strip_prefix(r#" {"id":1.0 ,"method":"a","params":"#).expect("the same beginning");
        Some(inner.strip_suffix(r#","jsonrpc":"2.0"}"#).expect("the same end").to_owned())
    }

    #[test]
    fn trace_context_is_spliced_in_and_other_bytes_stay() {
        let parent = format!(r#""traceparent":"{PARENT}""#);
        for (params, expected) in [
            ("{}", format!(r#"{{"_meta":{{{parent}}}}}"#)),
            ("{ }", format!(r#"{{"_meta":{{{parent}}} }}"#)),
            (r#"{ "a" : 1.0}"#, format!(r#"{{"_meta":{{{parent}}}, "a" : 1.0}}"#)),
            (r#"{"_meta":{}}"#, format!(r#"{{"_meta":{{{parent}}}}}"#)),
            (r#"{"_meta":{ "x":[ ]}}"#, format!(r#"{{"_meta":{{{parent}, "x":[ ]}}}}"#)),
            (
                r#"{"_meta":{"x":1,"traceparent": "y" }}"#,
                format!(r#"{{"_meta":{{"x":1,"traceparent": "{PARENT}" }}}}"#),
            ),
            (
                r#"{"_meta":{"traceparent":"y","tracestate":"a=1"}}"#,
                format!(r#"{{"_meta":{{{parent},"tracestate":""}}}}"#),
            ),
        ] {
            assert_eq!(with_context(params, None).as_deref(), Some(expected.as_str()), "{params}");
        }
        assert_eq!(
            with_context(r#"{"_meta":{"x":1}}"#, Some("b=2")),
            Some(format!(r#"{{"_meta":{{{parent},"tracestate":"b=2","x":1}}}}"#))
        );
    }

    #[test]
    fn other_forms_of_params_are_left_unchanged() {
        for params in [
            "[]",
            r#"{"_meta":7}"#,
            r#"{"_meta":{"traceparent":7}}"#,
            r#"{"_meta":{},"_meta":{}}"#,
            r#"{"_meta":{"traceparent":"a","traceparent":"b"}}"#,
        ] {
            assert_eq!(with_context(params, None), None, "{params}");
        }
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#,
            r#"{"jsonrpc":"2.0","method":"a","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"[{"jsonrpc":"2.0","id":1,"method":"a","params":{}}]"#,
        ] {
            let asked = RequestMessages::read(&HeaderMap::new(), Bytes::from(text)).expect("messages");
            assert_eq!(with_trace_context(&asked, &carrier(None)), None, "{text}");
        }
    }
}
