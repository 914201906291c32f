//! Filters and renames tools in lists and calls, in both eras.
//!
//! [`policy::tools`](crate::policy::tools) decides; this layer rewrites or denies messages. It covers all messages
//! that name tools: calls, with or without an id, alone or in a batch, and lists, on whatever stream the response is
//! sent.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
use memchr::memmem::Finder;
use serde_json::Value;

use crate::{
    explain::Reason,
    mcp::{
        error_code,
        fields::Fields,
        message::{Message, splice},
    },
    policy::tools,
    proxy::{
        body::Body,
        denial::Denial,
        layer::{Inspection, Layer},
        message_errors,
        messages::{Hook, HookVerdict, Hooks, ListItem, RequestMessages, ResponseMessage, rewrite_lists},
        respond::Request,
    },
};

const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The layer.
#[derive(Debug)]
pub(crate) struct ToolFilter {
    tools: Arc<tools::ToolPolicy>,
    lists: Arc<ToolListFilter>,
}

/// The decision about a client's message.
enum CallDecision {
    Pass,
    /// A call of a tool, rewritten to the server's name of it, with that name.
    Rewrite(Bytes, String),
    /// A call of a tool that clients do not see, or without a name.
    UnknownTool(String),
    /// Another method that concerns tools.
    UnknownMethod,
}

impl ToolFilter {
    pub(crate) fn new(tools: Arc<tools::ToolPolicy>) -> Self {
        Self { lists: Arc::new(ToolListFilter(Arc::clone(&tools))), tools }
    }

    fn classify(&self, message: &Message) -> CallDecision {
        match message.method() {
            "tools/call" => {}
            "tools/list" => return CallDecision::Pass,
            // The method is unknown and may name a tool.
            method if self.tools.hides() && method.starts_with("tools/") => {
                return CallDecision::UnknownMethod;
            }
            _ => return CallDecision::Pass,
        }
        let unknown = |name: &str| CallDecision::UnknownTool(format!("Unknown tool: {name}"));
        let Some(params) = message.params_fields() else { return unknown("`name` is missing") };
        let name_value = match params.get_unique("name") {
            Ok(Some(name_value)) => name_value,
            Ok(None) => return unknown("`name` is missing"),
            Err(ambiguous) => return unknown(&ambiguous.to_string()),
        };
        let Some(name) = name_value.string() else {
            return unknown("`name` is not a string");
        };
        match self.tools.resolve(&name) {
            None => unknown(&name),
            Some(own) if own == name => CallDecision::Pass,
            Some(own) => {
                let written = Value::from(own).to_string();
                let edits = &mut [(message.span_of_text(name_value.get()), written.as_bytes())];
                CallDecision::Rewrite(splice(message.bytes(), edits).freeze(), own.to_owned())
            }
        }
    }

    /// Why a call reaches no tool, and which change would allow it.
    fn unknown_tool_denial(&self, message: &Message) -> Denial {
        let named =
            message.params_fields().and_then(|params| params.get_unique_string("name").ok().flatten());
        let denial = Denial::new(Reason::ToolNotListed).input("method", message.method());
        let Some(name) = named else { return denial.fix("set `name` in the call") };
        let hidden = self.tools.explain_hidden(&name);
        let condition = if hidden.exposes_tools { "if clients should use the tool, " } else { "" };
        denial.input("tool", &*name).rule(hidden.rule).fix(format!("{condition}{}", hidden.fix))
    }

    /// Decides about a request and rewrites it to the server's names.
    fn decide(&self, request: &mut Request, messages: &RequestMessages) -> Inspection {
        let mut rewritten = BTreeMap::new();
        let mut name = None;
        for (place, message) in messages.messages().iter().enumerate() {
            match self.classify(message) {
                CallDecision::Pass => {}
                CallDecision::Rewrite(text, own) => {
                    name = Some(own);
                    rewritten.insert(place, text);
                }
                CallDecision::UnknownTool(text) => {
                    let denial = self.unknown_tool_denial(message);
                    let code = error_code::INVALID_PARAMS;
                    return refuse(request, messages, message, code, &text, denial);
                }
                CallDecision::UnknownMethod => {
                    let denial = Denial::new(Reason::ToolsUnknownMethod).input("method", message.method());
                    let text = format!("the tool filter does not support the method `{}`", message.method());
                    let code = error_code::METHOD_NOT_FOUND;
                    return refuse(request, messages, message, code, &text, denial);
                }
            }
        }
        let Some(name) = name else { return Inspection::Pass };
        let unchanged = messages.messages().iter().map(Message::bytes);
        let texts = unchanged
            .enumerate()
            .map(|(place, text)| rewritten.remove(&place).unwrap_or_else(|| text.clone()));
        let texts: Vec<Bytes> = texts.collect();
        set_messages(request, messages.is_batch(), &texts, &name);
        Inspection::Pass
    }
}

fn refuse(
    request: &Request,
    asked: &RequestMessages,
    message: &Message,
    code: i64,
    text: &str,
    denial: Denial,
) -> Inspection {
    let status = message_errors::error_status(asked, request.headers());
    let response = message_errors::deny_message(asked, message, status, (code, text), denial);
    Inspection::Respond(Box::new(response))
}

/// Replaces the messages of a request; `name` is the tool of the last renamed call.
fn set_messages(request: &mut Request, is_batch: bool, texts: &[Bytes], name: &str) {
    let body: Bytes = match texts {
        [text] if !is_batch => text.clone(),
        texts => [b"[", texts.join(&b',').as_slice(), b"]"].concat().into(),
    };
    let headers = request.headers_mut();
    if headers.contains_key(MCP_NAME) {
        // Headers that repeat the body must match it (MCP 2026-07-28, "Standard Request Headers").
        headers.insert(MCP_NAME, encode_header_value(name));
    }
    if headers.contains_key(header::CONTENT_LENGTH) {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    // The body was parsed before, and only names have changed, so this does not fail.
    if let Ok(messages) = RequestMessages::read(headers, body.clone()) {
        request.extensions_mut().insert(Arc::new(messages));
    }
    *request.body_mut() = Body::from(body);
}

/// A text as a header value: unchanged, or encoded if it is not allowed in headers.
fn encode_header_value(text: &str) -> HeaderValue {
    let plain = text.bytes().all(|byte| matches!(byte, b'!'..=b'~' | b' '))
        && text.trim() == text
        && !text.starts_with("=?base64?");
    let plain = if plain { HeaderValue::from_str(text).ok() } else { None };
    plain.unwrap_or_else(|| {
        let encoded = format!("=?base64?{}?=", STANDARD.encode(text));
        HeaderValue::from_str(&encoded).unwrap_or_else(|_| HeaderValue::from_static(""))
    })
}

/// Filters tool lists in responses.
#[derive(Debug)]
struct ToolListFilter(Arc<tools::ToolPolicy>);

impl Hook for ToolListFilter {
    fn on_message(&self, said: &ResponseMessage<'_>) -> HookVerdict {
        rewrite_lists(said.message, ["tools"], |_, item| self.item(item))
    }
}

/// Finds names in the options that match no tool. It runs inside of all layers that remove tools from lists, so
/// that it sees the server's own lists.
#[derive(Debug)]
pub(crate) struct UnknownTools(Arc<ServerLists>);

impl UnknownTools {
    pub(crate) fn new(tools: Arc<tools::ToolPolicy>) -> Self {
        Self(Arc::new(ServerLists(tools)))
    }
}

impl Layer for UnknownTools {
    fn inspect(&self, request: &mut Request) -> Inspection {
        if self.0.0.awaits_list() {
            Hooks::of_request(request).add(Arc::clone(&self.0));
        }
        Inspection::Pass
    }
}

#[derive(Debug)]
struct ServerLists(Arc<tools::ToolPolicy>);

impl Hook for ServerLists {
    fn on_message(&self, said: &ResponseMessage<'_>) -> HookVerdict {
        self.note(said.message);
        HookVerdict::Keep
    }
}

impl ServerLists {
    /// Logs a warning about names in the options that match no tool, once the first list is complete.
    fn note(&self, message: &Message) {
        #[derive(serde::Deserialize)]
        struct ToolsPage<'a> {
            #[serde(borrow)]
            tools: Vec<ToolEntry<'a>>,
            #[serde(rename = "nextCursor")]
            next: Option<serde::de::IgnoredAny>,
        }
        #[derive(serde::Deserialize)]
        struct ToolEntry<'a> {
            #[serde(borrow)]
            name: std::borrow::Cow<'a, str>,
        }
        static TOOLS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("tools\""));
        let result = message.result();
        // Most results are not lists of tools. The key may also be written with escape sequences.
        if TOOLS.find(result.as_bytes()).is_none() && !result.contains('\\') {
            return;
        }
        let Ok(page) = serde_json::from_str::<ToolsPage<'_>>(result) else { return };
        let own = page.tools.iter().map(|tool| &*tool.name);
        if let Some(names) = self.0.note_list(own, page.next.is_none()) {
            let names = names.join("`, `");
            tracing::warn!(
                "the tool filter or the overrides contain `{names}`, but the server has no such tool"
            );
        }
    }
}

impl ToolListFilter {
    fn item(&self, item: &str) -> ListItem {
        // A tool without a name, or with two, cannot be called.
        let Some(fields) = Fields::read(item) else { return ListItem::Drop };
        let (Ok(Some(name_value)), Ok(description)) =
            (fields.get_unique("name"), fields.get_unique("description"))
        else {
            return ListItem::Drop;
        };
        let Ok(own) = serde_json::from_str::<String>(name_value.get()) else { return ListItem::Drop };
        let Some(shown) = self.0.list_entry(&own) else { return ListItem::Drop };
        if shown.name == own && shown.description.is_none() {
            return ListItem::Keep;
        }
        let span = |value: &str| {
            let start = value.as_ptr() as usize - item.as_ptr() as usize;
            start..start + value.len()
        };
        let name = Value::from(shown.name).to_string();
        let mut edits = vec![(span(name_value.get()), name.as_bytes())];
        let mut text = shown.description.map(|text| Value::from(text).to_string());
        if let Some(text) = &mut text {
            let name_value = match description {
                Some(description) => span(description.get()),
                None => {
                    *text = format!("\"description\":{text},");
                    1..1
                }
            };
            edits.push((name_value, text.as_bytes()));
        }
        ListItem::Change(splice(item.as_bytes(), &mut edits).freeze())
    }
}

impl Layer for ToolFilter {
    fn inspect(&self, request: &mut Request) -> Inspection {
        Hooks::of_request(request).add(Arc::clone(&self.lists));
        match request.extensions().get::<Arc<RequestMessages>>().cloned() {
            Some(messages) => self.decide(request, &messages),
            None => Inspection::Pass,
        }
    }
}

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;
