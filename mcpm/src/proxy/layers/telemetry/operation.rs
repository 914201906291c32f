//! One message of a request, as far as it is measured.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use url::Url;

use crate::{
    mcp::message::{Message, MessageKind, same_id},
    telemetry::{cut, mcp_method},
};

/// What a message is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OperationTarget {
    Tool(String),
    Prompt(String),
    /// Without what may be secret in it.
    Resource(String),
    None,
}

/// How a request or a notification ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OperationOutcome {
    pub(super) code: Option<i64>,
    /// Whether the call of a tool was answered with an error of the tool's.
    pub(super) is_tool_error: bool,
    /// Seconds.
    pub(super) duration_seconds: f64,
}

/// A request or a notification of MCP.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) method: String,
    /// The method, if it is a known one.
    pub(super) label: &'static str,
    pub(super) target: OperationTarget,
    /// As it was written; empty for a notification.
    pub(super) id: Vec<u8>,
    pub(super) outcome: Option<OperationOutcome>,
}

/// What an `initialize` says.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct InitializeParams {
    pub(super) protocol_version: Option<String>,
    client_info: ClientInfo,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClientInfo {
    name: Option<String>,
}

impl InitializeParams {
    pub(super) fn of(message: &Message) -> Self {
        serde_json::from_str(message.params()).unwrap_or_default()
    }

    pub(super) fn client(&self) -> Option<&str> {
        self.client_info.name.as_deref().map(cut)
    }
}

impl Operation {
    /// What a message asks for; an answer asks for nothing.
    pub(super) fn of(message: &Message) -> Option<Self> {
        if message.kind() == MessageKind::Response {
            return None;
        }
        Some(Self {
            method: cut(message.method()).to_owned(),
            label: mcp_method(message.method()),
            target: OperationTarget::of(message),
            id: message.id_text().to_vec(),
            outcome: None,
        })
    }

    /// Whether an answer can come.
    pub(super) fn is_request(&self) -> bool {
        !self.id.is_empty()
    }

    /// Whether it is the one that a message asked for.
    pub(super) fn matches(&self, asked: &Message) -> bool {
        self.is_request() && same_id(&self.id, asked.id_text())
    }

    /// The id as a span has it.
    pub(super) fn display_id(&self) -> String {
        let text = String::from_utf8_lossy(&self.id);
        cut(text.trim_matches('"')).to_owned()
    }

    /// The name of a span: of few values, and the target is the caller's to choose.
    pub(super) fn span_name(&self) -> Cow<'static, str> {
        match &self.target {
            OperationTarget::Tool(name) | OperationTarget::Prompt(name) => {
                format!("{} {name}", self.label).into()
            }
            OperationTarget::Resource(_) | OperationTarget::None => self.label.into(),
        }
    }
}

impl OperationTarget {
    fn of(message: &Message) -> Self {
        #[derive(Deserialize)]
        struct TargetParams<'a> {
            #[serde(borrow, default)]
            name: Option<Cow<'a, str>>,
            #[serde(borrow, default)]
            uri: Option<Cow<'a, str>>,
        }
        let method = message.method();
        if !matches!(method, "tools/call" | "prompts/get") && !method.starts_with("resources/") {
            return Self::None;
        }
        let Ok(params) = serde_json::from_str::<TargetParams<'_>>(message.params()) else {
            return Self::None;
        };
        match (method, params.name, params.uri) {
            ("tools/call", Some(name), _) => Self::Tool(cut(&name).to_owned()),
            ("prompts/get", Some(name), _) => Self::Prompt(cut(&name).to_owned()),
            ("resources/read" | "resources/subscribe" | "resources/unsubscribe", _, Some(uri)) => {
                Self::Resource(cut(&redact_uri(&uri)).to_owned())
            }
            _ => Self::None,
        }
    }
}

impl OperationOutcome {
    /// How an answer ends what was asked.
    pub(super) fn of(answer: &Message, is_tool_call: bool, took: f64) -> Self {
        let is_tool_error = is_tool_call && is_tool_error(answer.result());
        Self { code: answer.error_code(), is_tool_error, duration_seconds: took }
    }
}

/// Whether the result of a call says that the tool failed.
fn is_tool_error(result: &str) -> bool {
    #[derive(Deserialize)]
    struct CallResult<'a> {
        #[serde(borrow, default, rename = "isError")]
        is_error: Option<&'a RawValue>,
    }
    // Results are large, and few say so.
    memchr::memmem::find(result.as_bytes(), b"\"isError\"").is_some()
        && serde_json::from_str::<CallResult<'_>>(result)
            .is_ok_and(|result| result.is_error.is_some_and(|value| value.get() == "true"))
}

/// A URI without a query, a fragment and credentials.
fn redact_uri(uri: &str) -> String {
    let end = uri.find(['?', '#']).unwrap_or(uri.len());
    match Url::parse(&uri[..end]) {
        Ok(mut url) if !url.username().is_empty() || url.password().is_some() => {
            let taken = url.set_username("").is_ok() && url.set_password(None).is_ok();
            if taken { url.to_string() } else { url.scheme().to_owned() }
        }
        _ => uri[..end].to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Message {
        Message::parse(bytes::Bytes::copy_from_slice(text.as_bytes())).expect("a message")
    }

    fn operation(method: &str, params: &str) -> Operation {
        let text = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"{method}","params":{params}}}"#);
        Operation::of(&message(&text)).expect("an operation")
    }

    #[test]
    fn a_span_is_named_after_its_method_and_target() {
        for (method, params, title) in [
            ("tools/call", r#"{"name":"add","arguments":{"name":"secret"}}"#, "tools/call add"),
            ("tools/call", r#"{"arguments":{}}"#, "tools/call"),
            ("tools/call", "[]", "tools/call"),
            ("prompts/get", r#"{"name":"a\u0062"}"#, "prompts/get ab"),
            ("resources/read", r#"{"uri":"file:///x"}"#, "resources/read"),
            ("made/up", r#"{"name":"add"}"#, "other"),
        ] {
            assert_eq!(operation(method, params).span_name(), title, "{method} {params}");
        }
        let long = operation("tools/call", &format!(r#"{{"name":"{}"}}"#, "x".repeat(500)));
        assert_eq!(long.span_name().len(), "tools/call ".len() + 128);
        assert!(Operation::of(&message(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)).is_none());
    }

    #[test]
    fn resources_are_shown_without_what_may_be_secret() {
        for (uri, shown) in [
            ("https://u:hush@host/a?token=hush#hush", "https://host/a"),
            ("file:///a/b", "file:///a/b"),
            ("no uri?hush", "no uri"),
            ("memo:u:x", "memo:u:x"),
        ] {
            let params = format!(r#"{{"uri":"{uri}"}}"#);
            assert_eq!(
                operation("resources/read", &params).target,
                OperationTarget::Resource(shown.to_owned())
            );
        }
    }

    #[test]
    fn a_tool_error_is_recognized_by_its_field_only() {
        for (result, expected) in [
            (r#"{"isError":true}"#, true),
            (r#"{"isError":false}"#, false),
            (r#"{"content":[{"isError":true}]}"#, false),
            (r#"{"content":"\"isError\":true"}"#, false),
            ("{}", false),
        ] {
            let answer = message(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#));
            assert_eq!(OperationOutcome::of(&answer, true, 0.0).is_tool_error, expected, "{result}");
            assert!(!OperationOutcome::of(&answer, false, 0.0).is_tool_error);
        }
    }
}
