//! Hides tools and gives them other names, in lists and in calls, in both eras of the protocol.
//!
//! The decision is [`policy::tools`](crate::policy::tools)'s; here it is read out of messages and written into
//! them. Everything that names a tool goes by it: calls, whether or not they have an id, alone or in an array, and
//! lists, wherever an answer comes.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, header};
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
        layer::{Layer, Next, ResponseFuture},
        message_errors,
        messages::{Hook, HookVerdict, Hooks, ListItem, RequestMessages, ResponseMessage, rewrite_lists},
        respond::{Request, Response},
    },
};

const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The layer.
#[derive(Debug)]
pub(crate) struct ToolFilter {
    tools: Arc<tools::ToolPolicy>,
}

/// What becomes of a message of a client.
enum CallDecision {
    Pass,
    /// It calls that tool, by the server's own name.
    Rewrite(Bytes, String),
    /// It names a tool that there is not for clients, or none.
    UnknownTool(String),
    /// It does something else with tools.
    UnknownMethod,
}

impl ToolFilter {
    pub(crate) fn new(tools: Arc<tools::ToolPolicy>) -> Self {
        Self { tools }
    }

    fn classify(&self, message: &Message) -> CallDecision {
        match message.method() {
            "tools/call" => {}
            "tools/list" => return CallDecision::Pass,
            // What it does nobody knows, and it may well name a tool.
            method if self.tools.hides() && method.starts_with("tools/") => {
                return CallDecision::UnknownMethod;
            }
            _ => return CallDecision::Pass,
        }
        let unknown = |name: &str| CallDecision::UnknownTool(format!("Unknown tool: {name}"));
        let Some(params) = Fields::read(message.params()) else { return unknown("none is named") };
        let place = match params.get_unique("name") {
            Ok(Some(place)) => place,
            Ok(None) => return unknown("none is named"),
            Err(ambiguous) => return unknown(&ambiguous.to_string()),
        };
        let Ok(name) = serde_json::from_str::<String>(place.get()) else {
            return unknown("the name is no text");
        };
        match self.tools.resolve(&name) {
            None => unknown(&name),
            Some(own) if own == name => CallDecision::Pass,
            Some(own) => {
                let written = Value::from(own).to_string();
                let edits = &mut [(message.span_of(place), written.as_bytes())];
                CallDecision::Rewrite(splice(message.bytes(), edits).freeze(), own.to_owned())
            }
        }
    }

    /// Why a call reaches no tool, and what would have it reach one.
    fn unknown_tool_denial(&self, message: &Message) -> Denial {
        let named =
            Fields::read(message.params()).and_then(|params| params.get_unique_string("name").ok().flatten());
        let denial = Denial::new(Reason::ToolNotListed).input("method", message.method());
        let Some(name) = named else { return denial.fix("name one tool in the call") };
        let hidden = self.tools.explain_hidden(&name);
        let condition = if hidden.exposes_tools { "if clients are to use the tool, " } else { "" };
        denial.input("tool", &name).rule(hidden.rule).fix(format!("{condition}{}", hidden.fix))
    }

    /// Decides about a request, and writes the server's own names into it.
    fn decide(&self, request: Request, asked: &RequestMessages) -> Result<Request, Box<Response>> {
        let mut texts = Vec::new();
        let mut name = None;
        for message in asked.messages() {
            match self.classify(message) {
                CallDecision::Pass => texts.push(message.bytes().clone()),
                CallDecision::Rewrite(text, own) => {
                    name = Some(own);
                    texts.push(text);
                }
                CallDecision::UnknownTool(text) => {
                    let denial = self.unknown_tool_denial(message);
                    return Err(Box::new(refuse(
                        &request,
                        asked,
                        message,
                        error_code::INVALID_PARAMS,
                        &text,
                        denial,
                    )));
                }
                CallDecision::UnknownMethod => {
                    let denial = Denial::new(Reason::ToolsUnknownMethod).input("method", message.method());
                    let text = format!("`{}` is not known to the tool filter", message.method());
                    return Err(Box::new(refuse(
                        &request,
                        asked,
                        message,
                        error_code::METHOD_NOT_FOUND,
                        &text,
                        denial,
                    )));
                }
            }
        }
        let Some(name) = name else { return Ok(request) };
        Ok(with_messages(request, asked, &texts, &name))
    }
}

fn refuse(
    request: &Request,
    asked: &RequestMessages,
    message: &Message,
    code: i64,
    text: &str,
    denial: Denial,
) -> Response {
    let status = message_errors::error_status(asked, request.headers());
    message_errors::deny_message(asked, message, status, (code, text), denial)
}

/// The request with other messages in it; `name` is what the last renamed call calls.
fn with_messages(request: Request, asked: &RequestMessages, texts: &[Bytes], name: &str) -> Request {
    let body = match texts {
        [text] if !asked.is_batch() => text.clone(),
        texts => [b"[", texts.join(&b',').as_slice(), b"]"].concat().into(),
    };
    let (mut parts, _) = request.into_parts();
    if parts.headers.contains_key(MCP_NAME) {
        // What repeats the body must go on to (MCP 2026-07-28, "Standard Request Headers").
        parts.headers.insert(MCP_NAME, encode_header_value(name));
    }
    if parts.headers.contains_key(header::CONTENT_LENGTH) {
        parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    // It was read before; only a name is another one.
    if let Ok(asked) = RequestMessages::read(&parts.headers, body.clone()) {
        parts.extensions.insert(Arc::new(asked));
    }
    Request::from_parts(parts, Body::from(body))
}

/// A text as the value of a header: as it is, or encoded where it could not be told or not stand there.
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

/// Shows in lists what clients may see.
struct ToolListFilter(Arc<tools::ToolPolicy>);

impl Hook for ToolListFilter {
    fn on_message(&mut self, said: &ResponseMessage<'_>) -> HookVerdict {
        rewrite_lists(said.message, ["tools"], |_, item| self.item(item))
    }
}

/// Finds names in the options that no tool has. It stands behind all layers that leave tools out of lists, so that it sees
/// the lists of the server itself.
#[derive(Debug)]
pub(crate) struct UnknownTools(Arc<tools::ToolPolicy>);

impl UnknownTools {
    pub(crate) fn new(tools: Arc<tools::ToolPolicy>) -> Self {
        Self(tools)
    }
}

impl Layer for UnknownTools {
    fn handle<'a>(&'a self, mut request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        if self.0.awaits_list() {
            Hooks::of_request(&mut request).add(ServerLists(Arc::clone(&self.0)));
        }
        next.handle(request)
    }
}

struct ServerLists(Arc<tools::ToolPolicy>);

impl Hook for ServerLists {
    fn on_message(&mut self, said: &ResponseMessage<'_>) -> HookVerdict {
        self.note(said.message);
        HookVerdict::Keep
    }
}

impl ServerLists {
    /// Warns of names in the options that no tool has, once the first list is complete.
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
        let Ok(page) = serde_json::from_str::<ToolsPage<'_>>(message.result()) else { return };
        let own = page.tools.iter().map(|tool| &*tool.name);
        if let Some(names) = self.0.note_list(own, page.next.is_none()) {
            let names = names.join("`, `");
            tracing::warn!(
                "the tool filter or the overrides name `{names}`, but the server lists no such tool"
            );
        }
    }
}

impl ToolListFilter {
    fn item(&self, item: &str) -> ListItem {
        // What has no name, or two, is no tool that anybody could call.
        let Some(fields) = Fields::read(item) else { return ListItem::Drop };
        let (Ok(Some(place)), Ok(description)) =
            (fields.get_unique("name"), fields.get_unique("description"))
        else {
            return ListItem::Drop;
        };
        let Ok(own) = serde_json::from_str::<String>(place.get()) else { return ListItem::Drop };
        let Some(shown) = self.0.list_entry(&own) else { return ListItem::Drop };
        if shown.name == own && shown.description.is_none() {
            return ListItem::Keep;
        }
        let span = |value: &str| {
            let start = value.as_ptr() as usize - item.as_ptr() as usize;
            start..start + value.len()
        };
        let name = Value::from(shown.name).to_string();
        let mut edits = vec![(span(place.get()), name.as_bytes())];
        let mut text = shown.description.map(|text| Value::from(text).to_string());
        if let Some(text) = &mut text {
            let place = match description {
                Some(description) => span(description.get()),
                None => {
                    *text = format!("\"description\":{text},");
                    1..1
                }
            };
            edits.push((place, text.as_bytes()));
        }
        ListItem::Change(splice(item.as_bytes(), &mut edits).freeze())
    }
}

impl Layer for ToolFilter {
    fn handle<'a>(&'a self, mut request: Request, next: Next<'a>) -> ResponseFuture<'a> {
        Hooks::of_request(&mut request).add(ToolListFilter(Arc::clone(&self.tools)));
        let asked = request.extensions().get::<Arc<RequestMessages>>().cloned();
        let decided = match asked {
            Some(asked) => self.decide(request, &asked),
            None => Ok(request),
        };
        match decided {
            Ok(request) => next.handle(request),
            Err(response) => Box::pin(std::future::ready(*response)),
        }
    }
}

#[cfg(test)]
#[path = "tools_tests.rs"]
mod tests;
