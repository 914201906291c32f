//! Which tool arguments are mirrored in `Mcp-Param-*` headers (MCP 2026-07-28, "Custom headers from tool parameters").
//!
//! A server on a pipe sees no headers, so the bridge checks them for it, with what the tools' schemas say.

use std::{collections::HashMap, sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::Value;
use tokio::{sync::Semaphore, time::Instant};

use super::Lane;
use crate::mcp::era;

/// Most pages of a list that are read.
const PAGES: usize = 100;
/// How long a call waits for the list. Without it, the call goes on, and its headers are not checked.
const PATIENCE: Duration = Duration::from_secs(2);
/// A list that did not come is asked for again after this.
const AGAIN: Duration = Duration::from_secs(30);

/// The mirrored arguments of the tools seen so far.
#[derive(Debug)]
pub(super) struct ToolHeaders {
    by_tool: HashMap<String, Vec<ParamHeader>>,
    /// Whether the whole list was read since it last changed.
    complete: bool,
    /// How often it has changed.
    changes: u64,
    /// When the list is asked for again, if it did not come.
    again: Option<Instant>,
    /// One reads for all.
    turn: Arc<Semaphore>,
}

impl Default for ToolHeaders {
    fn default() -> Self {
        let turn = Arc::new(Semaphore::new(1));
        Self { by_tool: HashMap::new(), complete: false, changes: 0, again: None, turn }
    }
}

/// One argument and its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParamHeader {
    /// Names of the properties on the way to the argument.
    pub(crate) path: Vec<String>,
    /// Full name of the header, lower case.
    pub(crate) header: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    #[serde(default)]
    tools: Vec<Tool>,
    #[serde(default)]
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    name: String,
    #[serde(default)]
    input_schema: Value,
}

impl ToolHeaders {
    /// Learns from the result of a `tools/list`.
    pub(super) fn learn(&mut self, result: &str) -> Option<String> {
        let listed: Listed = serde_json::from_str(result).ok()?;
        for tool in listed.tools {
            self.by_tool.insert(tool.name, param_headers(&tool.input_schema));
        }
        listed.next_cursor
    }

    /// Notes that the list may be another one now.
    pub(super) fn changed(&mut self) {
        self.complete = false;
        self.changes += 1;
    }

    fn is_wanted(&self) -> bool {
        !self.complete && self.again.is_none_or(|again| again <= Instant::now())
    }
}

impl Lane {
    /// The mirrored arguments of a tool; reads the server's list first if that was not done yet.
    pub(crate) async fn param_headers(&self, tool: &str) -> Vec<ParamHeader> {
        if self.lock().tools.is_wanted() {
            // Boxed, since it is rare and large.
            Box::pin(self.read_tools()).await;
        }
        self.lock().tools.by_tool.get(tool).cloned().unwrap_or_default()
    }

    async fn read_tools(&self) {
        let until = Instant::now() + PATIENCE;
        let (turn, changes) = {
            let tools = &self.lock().tools;
            (Arc::clone(&tools.turn), tools.changes)
        };
        let Ok(Ok(_turn)) = tokio::time::timeout_at(until, turn.acquire()).await else { return };
        if !self.lock().tools.is_wanted() {
            return;
        }
        let mut cursor = None;
        for _ in 0..PAGES {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(answer) = self.ask(|id| era::tools_request(id, cursor.as_deref()), left).await else {
                tracing::warn!("the server does not list its tools, so headers of calls are not checked");
                self.lock().tools.again = Some(Instant::now() + AGAIN);
                return;
            };
            cursor = self.lock().tools.learn(answer.result());
            if cursor.is_none() {
                break;
            }
        }
        let tools = &mut self.lock().tools;
        // One that changed meanwhile is read again.
        tools.complete = tools.changes == changes;
        tools.again = None;
    }
}

/// The mirrored arguments of a schema; none when an annotation is invalid, as the tool is then no HTTP client's.
fn param_headers(schema: &Value) -> Vec<ParamHeader> {
    let mut found = Vec::new();
    if !collect(schema, &mut Vec::new(), &mut found) {
        return Vec::new();
    }
    let mut names: Vec<&str> = found.iter().map(|found| found.header.as_str()).collect();
    names.sort_unstable();
    let unique = names.windows(2).all(|pair| pair[0] != pair[1]);
    if unique { found } else { Vec::new() }
}

/// Walks `properties` only: what stands behind `items`, `oneOf` or `$ref` has no one place in the arguments.
fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<ParamHeader>) -> bool {
    let Some(properties) = schema["properties"].as_object() else { return true };
    for (name, property) in properties {
        path.push(name.clone());
        if let Some(annotation) = property.get("x-mcp-header") {
            let plain = matches!(property["type"].as_str(), Some("string" | "integer" | "boolean"));
            match annotation.as_str() {
                Some(header) if plain && is_token(header) => found.push(ParamHeader {
                    path: path.clone(),
                    header: format!("mcp-param-{}", header.to_ascii_lowercase()),
                }),
                _ => return false,
            }
        }
        if !collect(property, path, found) {
            return false;
        }
        path.pop();
    }
    true
}

/// Whether a text can be part of a header's name (RFC 9110 section 5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn headers_are_found_along_properties_only() {
        let schema = json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "list": {"items": {"properties": {"x": {"type": "string", "x-mcp-header": "X"}}}},
        }});
        let mut found = param_headers(&schema);
        found.sort_by(|a, b| a.header.cmp(&b.header));
        let header = |path: &[&str], header: &str| ParamHeader {
            path: path.iter().map(|name| (*name).to_owned()).collect(),
            header: header.to_owned(),
        };
        assert_eq!(found, [header(&["deep", "n"], "mcp-param-n"), header(&["region"], "mcp-param-region")]);
    }

    #[test]
    fn one_invalid_annotation_makes_all_void() {
        for bad in [
            json!({"a": {"type": "string", "x-mcp-header": ""}}),
            json!({"a": {"type": "string", "x-mcp-header": "a b"}}),
            json!({"a": {"type": "number", "x-mcp-header": "A"}}),
            json!({"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}),
        ] {
            assert_eq!(param_headers(&json!({ "properties": bad })), [], "{bad}");
        }
    }
}
