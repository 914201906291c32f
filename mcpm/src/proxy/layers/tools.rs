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
        denial::Denial,
        layer::{Answer, Layer, Next},
        messages::{Asked, Hook, Hooks, Item, Said, Verdict, rewrite},
        refusal,
        respond::{Request, Response},
    },
    transport::body::Body,
};

const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The layer.
#[derive(Debug)]
pub(crate) struct Tools {
    tools: Arc<tools::Tools>,
}

/// What becomes of a message of a client.
enum Fate {
    Passes,
    /// It calls that tool, by the server's own name.
    Becomes(Bytes, String),
    /// It names a tool that there is not for clients, or none.
    Unknown(String),
    /// It does something else with tools.
    Foreign,
}

impl Tools {
    pub(crate) fn new(tools: Arc<tools::Tools>) -> Self {
        Self { tools }
    }

    fn fate(&self, message: &Message) -> Fate {
        match message.method() {
            "tools/call" => {}
            "tools/list" => return Fate::Passes,
            // What it does nobody knows, and it may well name a tool.
            method if self.tools.hides() && method.starts_with("tools/") => return Fate::Foreign,
            _ => return Fate::Passes,
        }
        let unknown = |name: &str| Fate::Unknown(format!("Unknown tool: {name}"));
        let Some(params) = Fields::read(message.params()) else { return unknown("none is named") };
        let place = match params.one("name") {
            Ok(Some(place)) => place,
            Ok(None) => return unknown("none is named"),
            Err(ambiguous) => return unknown(&ambiguous.to_string()),
        };
        let Ok(name) = serde_json::from_str::<String>(place.get()) else {
            return unknown("the name is no text");
        };
        match self.tools.called(&name) {
            None => unknown(&name),
            Some(own) if own == name => Fate::Passes,
            Some(own) => {
                let written = Value::from(own).to_string();
                let edits = &mut [(message.span_of(place), written.as_bytes())];
                Fate::Becomes(splice(message.bytes(), edits).freeze(), own.to_owned())
            }
        }
    }

    /// Why a call reaches no tool, and what would have it reach one.
    fn unknown(&self, message: &Message) -> Denial {
        let named = Fields::read(message.params()).and_then(|params| params.string("name").ok().flatten());
        let denial = Denial::new(Reason::ToolNotListed).input("method", message.method());
        let Some(name) = named else { return denial.fix("name one tool in the call") };
        let hidden = self.tools.hidden(&name);
        let condition = if hidden.widens { "if clients are to use the tool, " } else { "" };
        denial.input("tool", &name).rule(hidden.rule).fix(format!("{condition}{}", hidden.fix))
    }

    /// Decides about a request, and writes the server's own names into it.
    fn decide(&self, request: Request, asked: &Asked) -> Result<Request, Box<Response>> {
        let mut texts = Vec::new();
        let mut name = None;
        for message in asked.messages() {
            match self.fate(message) {
                Fate::Passes => texts.push(message.bytes().clone()),
                Fate::Becomes(text, own) => {
                    name = Some(own);
                    texts.push(text);
                }
                Fate::Unknown(text) => {
                    let denial = self.unknown(message);
                    return Err(Box::new(refuse(
                        &request,
                        asked,
                        message,
                        error_code::INVALID_PARAMS,
                        &text,
                        denial,
                    )));
                }
                Fate::Foreign => {
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
        Ok(rewritten(request, asked, &texts, &name))
    }
}

fn refuse(
    request: &Request,
    asked: &Asked,
    message: &Message,
    code: i64,
    text: &str,
    denial: Denial,
) -> Response {
    let status = refusal::status_of_answer(asked, request.headers());
    refusal::refuse(asked, message, status, (code, text), denial)
}

/// The request with other messages in it; `name` is what the last renamed call calls.
fn rewritten(request: Request, asked: &Asked, texts: &[Bytes], name: &str) -> Request {
    let body = match texts {
        [text] if !asked.is_batch() => text.clone(),
        texts => [b"[", texts.join(&b',').as_slice(), b"]"].concat().into(),
    };
    let (mut parts, _) = request.into_parts();
    if parts.headers.contains_key(NAME) {
        // What repeats the body must go on to (MCP 2026-07-28, "Standard Request Headers").
        parts.headers.insert(NAME, header_form(name));
    }
    if parts.headers.contains_key(header::CONTENT_LENGTH) {
        parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    // It was read before; only a name is another one.
    if let Ok(asked) = Asked::read(&parts.headers, body.clone()) {
        parts.extensions.insert(Arc::new(asked));
    }
    Request::from_parts(parts, Body::from(body))
}

/// A text as the value of a header: as it is, or encoded where it could not be told or not stand there.
fn header_form(text: &str) -> HeaderValue {
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
struct Lists(Arc<tools::Tools>);

impl Hook for Lists {
    fn message(&mut self, said: &Said<'_>) -> Verdict {
        rewrite(said.message, ["tools"], |_, item| self.item(item))
    }
}

/// Finds names in the options that no tool has. It stands behind all layers that leave tools out of lists, so that it sees
/// the lists of the server itself.
#[derive(Debug)]
pub(crate) struct UnknownTools(Arc<tools::Tools>);

impl UnknownTools {
    pub(crate) fn new(tools: Arc<tools::Tools>) -> Self {
        Self(tools)
    }
}

impl Layer for UnknownTools {
    fn handle<'a>(&'a self, mut request: Request, next: Next<'a>) -> Answer<'a> {
        if self.0.awaits_list() {
            Hooks::of(&mut request).add(ServerLists(Arc::clone(&self.0)));
        }
        next.handle(request)
    }
}

struct ServerLists(Arc<tools::Tools>);

impl Hook for ServerLists {
    fn message(&mut self, said: &Said<'_>) -> Verdict {
        self.note(said.message);
        Verdict::Keep
    }
}

impl ServerLists {
    /// Warns of names in the options that no tool has, once the first list is complete.
    fn note(&self, message: &Message) {
        #[derive(serde::Deserialize)]
        struct Page<'a> {
            #[serde(borrow)]
            tools: Vec<Tool<'a>>,
            #[serde(rename = "nextCursor")]
            next: Option<serde::de::IgnoredAny>,
        }
        #[derive(serde::Deserialize)]
        struct Tool<'a> {
            #[serde(borrow)]
            name: std::borrow::Cow<'a, str>,
        }
        let Ok(page) = serde_json::from_str::<Page<'_>>(message.result()) else { return };
        let own = page.tools.iter().map(|tool| &*tool.name);
        if let Some(names) = self.0.note_list(own, page.next.is_none()) {
            let names = names.join("`, `");
            tracing::warn!(
                "the tool filter or the overrides name `{names}`, but the server lists no such tool"
            );
        }
    }
}

impl Lists {
    fn item(&self, item: &str) -> Item {
        // What has no name, or two, is no tool that anybody could call.
        let Some(fields) = Fields::read(item) else { return Item::Drop };
        let (Ok(Some(place)), Ok(description)) = (fields.one("name"), fields.one("description")) else {
            return Item::Drop;
        };
        let Ok(own) = serde_json::from_str::<String>(place.get()) else { return Item::Drop };
        let Some(shown) = self.0.listed(&own) else { return Item::Drop };
        if shown.name == own && shown.description.is_none() {
            return Item::Keep;
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
        Item::Change(splice(item.as_bytes(), &mut edits).freeze())
    }
}

impl Layer for Tools {
    fn handle<'a>(&'a self, mut request: Request, next: Next<'a>) -> Answer<'a> {
        Hooks::of(&mut request).add(Lists(Arc::clone(&self.tools)));
        let asked = request.extensions().get::<Arc<Asked>>().cloned();
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
