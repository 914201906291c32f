//! The messages of a request and their outcomes, as metrics and spans describe them.

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

use http::StatusCode;
use memchr::memmem::Finder;
use serde::Deserialize;
use url::Url;

use super::{
    facts::RequestFacts,
    outcome::{RequestOutcome, ResponseHead},
};
use crate::{
    mcp::{
        era::ModernMeta,
        message::{Message, MessageKind, same_id},
        methods::known_method,
    },
    proxy::messages::RequestMessages,
    telemetry::{OTHER, TraceContext, cut, rpc_code},
};

/// The data about a request's messages and its response that metrics and spans contain.
#[derive(Debug, Default)]
pub(super) struct RequestRecord {
    pub(super) operations: Vec<Operation>,
    pub(super) is_batch: bool,
    /// The protocol version that a message names.
    version: Option<String>,
    /// The name of the client.
    pub(super) client: Option<String>,
    pub(super) response: Option<Arc<ResponseHead>>,
}

impl RequestRecord {
    /// Reads the messages. Returns the trace context in the message, if there is a single one.
    pub(super) fn read(&mut self, messages: &RequestMessages) -> TraceContext {
        self.is_batch = messages.is_batch();
        self.operations = Vec::with_capacity(messages.messages().len());
        self.operations.extend(messages.messages().iter().filter_map(Operation::of));
        let Some(message) = messages.single() else { return TraceContext::default() };
        let mut carried = TraceContext::default();
        if message.may_have_meta() {
            carried = TraceContext::from_params(message.params());
            let version = ModernMeta::of(message).and_then(|meta| meta.version());
            self.version = version.map(|version| cut(&version).to_owned());
        }
        if message.method() == "initialize" {
            let hello = InitializeParams::of(message);
            self.client = hello.client().map(str::to_owned);
            self.version = hello.protocol_version.map(|version| cut(&version).to_owned());
        }
        carried
    }

    /// The protocol version: that of the message, or that of the request's head.
    pub(super) fn version<'a>(&'a self, facts: &'a RequestFacts) -> Option<&'a str> {
        self.version.as_deref().or(facts.protocol())
    }

    /// The operation, if the request has exactly one message.
    pub(super) fn single(&self) -> Option<&Operation> {
        match &self.operations[..] {
            [one] if !self.is_batch => Some(one),
            _ => None,
        }
    }

    /// The class of error with which an operation failed, if it failed.
    pub(super) fn operation_error_type(
        &self,
        operation: &Operation,
        outcome: RequestOutcome,
    ) -> Option<Cow<'static, str>> {
        if let Some(answered) = &operation.outcome {
            return match answered.code {
                Some(code) => Some(rpc_code(code).into()),
                None => answered.is_tool_error.then_some("tool_error".into()),
            };
        }
        match (self.response.as_deref(), outcome) {
            (_, RequestOutcome::Panicked) => Some("panic".into()),
            (None, _) => Some("cancelled".into()),
            (Some(head), _) if head.status.as_u16() >= 400 => Some(head.status.as_str().to_owned().into()),
            _ if !operation.is_request() => None,
            // The response is sent on another stream, which is not observed.
            (Some(head), RequestOutcome::Complete) if head.status == StatusCode::ACCEPTED => None,
            (_, RequestOutcome::ClientGone) => Some("cancelled".into()),
            (_, RequestOutcome::Truncated) => Some("broken_off".into()),
            (_, RequestOutcome::Complete) => Some("no_answer".into()),
        }
    }

    /// The class of error with which the request as a whole failed, if it failed.
    pub(super) fn error_type(&self, outcome: RequestOutcome) -> Option<Cow<'static, str>> {
        match (self.response.as_deref(), outcome) {
            (_, RequestOutcome::Panicked) => Some("panic".into()),
            (None, _) => Some("cancelled".into()),
            (Some(head), _) if head.status.as_u16() >= 400 => Some(head.status.as_str().to_owned().into()),
            (_, RequestOutcome::Truncated) => Some("broken_off".into()),
            _ => None,
        }
    }

    /// The status that the client got, or would have got.
    pub(super) fn status(&self, outcome: RequestOutcome) -> Option<u16> {
        match (&self.response, outcome) {
            (Some(head), _) => Some(head.status.as_u16()),
            (None, RequestOutcome::Panicked) => Some(500),
            (None, _) => None,
        }
    }
}

/// The tool, prompt or resource that a message names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OperationTarget {
    Tool(String),
    Prompt(String),
    /// Without query, fragment and credentials.
    Resource(String),
    None,
}

/// The response to a request, or the end of a notification.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OperationOutcome {
    pub(super) code: Option<i64>,
    /// Whether the result of a tool call is a tool error.
    pub(super) is_tool_error: bool,
    /// Seconds.
    pub(super) duration_seconds: f64,
}

/// A request or a notification of MCP.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) method: Cow<'static, str>,
    /// The method, if it is a known one.
    pub(super) label: &'static str,
    pub(super) target: OperationTarget,
    /// The id as the client wrote it; empty for a notification.
    pub(super) id: Vec<u8>,
    pub(super) outcome: Option<OperationOutcome>,
}

/// The parameters of `initialize`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct InitializeParams {
    protocol_version: Option<String>,
    client_info: ClientInfo,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClientInfo {
    name: Option<String>,
}

impl InitializeParams {
    fn of(message: &Message) -> Self {
        serde_json::from_str(message.params()).unwrap_or_default()
    }

    fn client(&self) -> Option<&str> {
        self.client_info.name.as_deref().map(cut)
    }
}

impl Operation {
    /// Reads a message; `None` for a response, which is not an operation.
    fn of(message: &Message) -> Option<Self> {
        if message.kind() == MessageKind::Response {
            return None;
        }
        let label = known_method(message.method()).unwrap_or(OTHER);
        let is_known = label == message.method();
        Some(Self {
            method: if is_known { label.into() } else { cut(message.method()).to_owned().into() },
            label,
            target: OperationTarget::of(message),
            id: message.id_text().to_vec(),
            outcome: None,
        })
    }

    /// Whether it has a response.
    pub(super) fn is_request(&self) -> bool {
        !self.id.is_empty()
    }

    /// Whether the operation has the same id as a message.
    pub(super) fn matches(&self, message: &Message) -> bool {
        self.is_request() && same_id(&self.id, message.id_text())
    }

    /// Whether it is a request without a response so far.
    pub(super) fn is_open(&self) -> bool {
        self.is_request() && self.outcome.is_none()
    }

    /// The id as spans show it.
    pub(super) fn display_id(&self) -> String {
        let text = String::from_utf8_lossy(&self.id);
        cut(text.trim_matches('"')).to_owned()
    }

    /// The name of a span.
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
    /// The name of a tool or a prompt.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Tool(name) | Self::Prompt(name) => Some(name),
            Self::Resource(_) | Self::None => None,
        }
    }

    fn of(message: &Message) -> Self {
        let text = |name: &str| message.params_fields()?.get_only(name)?.string();
        let name = || text("name").map(|name| cut(&name).to_owned());
        let target = match message.method() {
            "tools/call" => name().map(Self::Tool),
            "prompts/get" => name().map(Self::Prompt),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                text("uri").map(|uri| Self::Resource(cut(&redact_uri(&uri)).to_owned()))
            }
            _ => None,
        };
        target.unwrap_or(Self::None)
    }
}

impl OperationOutcome {
    /// Reads a response.
    pub(super) fn of(answer: &Message, is_tool_call: bool, took: f64) -> Self {
        let is_tool_error = is_tool_call && is_tool_error(answer);
        Self { code: answer.error_code(), is_tool_error, duration_seconds: took }
    }
}

/// Whether a result is marked as a tool error.
fn is_tool_error(answer: &Message) -> bool {
    static MARK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"isError\""));
    // Most results do not contain this text, so they need no parsing, which is expensive for large ones.
    answer.result_contains(&MARK)
        && answer
            .result_fields()
            .and_then(|result| result.get_only("isError"))
            .is_some_and(|value| value.get() == "true")
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
