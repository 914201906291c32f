//! Finds the tool arguments that are mirrored in `Mcp-Param-*` headers, in the input schemas of tools (MCP 2026-07-28,
//! "Custom headers from tool parameters").

use std::{borrow::Cow, collections::HashMap};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::message::each_element;

/// Maximum number of pages of a list that are read.
pub(crate) const MAX_LIST_PAGES: usize = 100;
/// Maximum number of recorded tools with mirrored arguments. The headers of further tools are not checked.
const MAX_TOOLS: usize = 10_000;
/// Maximum length of the name of such a tool in bytes.
const MAX_NAME_BYTES: usize = 1024;
/// Maximum total size in bytes of the paths and headers of one tool, and of those of all tools together with their
/// names.
const MAX_TOOL_BYTES: usize = 64 << 10;
const MAX_BYTES: usize = 4 << 20;
/// Maximum size in bytes of a schema that is searched for mirrored arguments.
const MAX_SCHEMA_BYTES: usize = 256 << 10;
/// Maximum length in bytes of a cursor that is sent for the next page.
const MAX_CURSOR_BYTES: usize = 16 << 10;

/// The mirrored arguments of the tools seen so far.
#[derive(Debug, Default)]
pub(crate) struct ParamHeaderIndex {
    by_tool: HashMap<String, Vec<ParamHeader>>,
    /// The part of [`MAX_BYTES`] in use.
    bytes: usize,
    /// Whether a tool was omitted because of the limits.
    is_full: bool,
}

/// One argument and its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParamHeader {
    /// Names of the properties on the path to the argument.
    pub(crate) path: Vec<String>,
    /// The full name of the header, in lower case.
    pub(crate) header: String,
}

impl ParamHeader {
    /// Returns the size that is counted for [`MAX_BYTES`].
    fn cost(&self) -> usize {
        let path: usize = self.path.iter().map(|name| name.len() + size_of::<String>()).sum();
        size_of::<Self>() + path + self.header.len()
    }
}

fn cost(name: &str, headers: &[ParamHeader]) -> usize {
    name.len() + headers.iter().map(ParamHeader::cost).sum::<usize>()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolListResult<'a> {
    #[serde(borrow, default)]
    tools: Option<&'a RawValue>,
    #[serde(default)]
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolSchema<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    input_schema: Option<&'a RawValue>,
}

impl ParamHeaderIndex {
    /// Returns the mirrored arguments of a tool.
    pub(crate) fn get(&self, tool: &str) -> Vec<ParamHeader> {
        self.by_tool.get(tool).cloned().unwrap_or_default()
    }

    /// Records the tools of a `tools/list` result, and returns the cursor of the next page.
    pub(crate) fn update_from_list(&mut self, result: &str) -> Option<String> {
        let listed: ToolListResult<'_> = serde_json::from_str(result).ok()?;
        if let Some(tools) = listed.tools {
            let read = each_element(tools.get(), |tool| {
                // An invalid tool is skipped, because clients cannot call it.
                serde_json::from_str(tool.get()).into_iter().for_each(|tool| self.note(&tool));
                Ok(())
            });
            read.ok()?;
        }
        listed.next_cursor.filter(|cursor| cursor.len() <= MAX_CURSOR_BYTES)
    }

    fn note(&mut self, tool: &ToolSchema<'_>) {
        let headers = tool.input_schema.map(headers_in).unwrap_or_default();
        if let Some(former) = self.by_tool.remove(&*tool.name) {
            self.bytes -= cost(&tool.name, &former);
        }
        if headers.is_empty() {
            return;
        }
        let bytes = self.bytes + cost(&tool.name, &headers);
        if tool.name.len() <= MAX_NAME_BYTES && self.by_tool.len() < MAX_TOOLS && bytes <= MAX_BYTES {
            self.bytes = bytes;
            self.by_tool.insert(tool.name.clone().into_owned(), headers);
        } else if !std::mem::replace(&mut self.is_full, true) {
            tracing::warn!(
                tools = self.by_tool.len(),
                "too many tools with `x-mcp-header`, or their names are too long; the headers of further \
                 tools are not checked"
            );
        }
    }

    /// Removes all tools.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Returns the mirrored arguments of a schema, given as JSON. Few schemas have any.
fn headers_in(schema: &RawValue) -> Vec<ParamHeader> {
    let text = schema.get();
    // With escape sequences, the name can also be written in other ways.
    let may_have = memchr::memmem::find(text.as_bytes(), b"x-mcp-header").is_some() || text.contains('\\');
    if !may_have || text.len() > MAX_SCHEMA_BYTES {
        return Vec::new();
    }
    serde_json::from_str(text).map(|schema| param_headers(&schema)).unwrap_or_default()
}

/// Returns the mirrored arguments of a schema; none if an annotation is invalid, because HTTP clients ignore such a
/// tool.
fn param_headers(schema: &Value) -> Vec<ParamHeader> {
    let mut found = Vec::new();
    let mut room = MAX_TOOL_BYTES;
    if !collect(schema, &mut Vec::new(), &mut found, &mut room) {
        return Vec::new();
    }
    let mut names: Vec<&str> = found.iter().map(|found| found.header.as_str()).collect();
    names.sort_unstable();
    let unique = names.windows(2).all(|pair| pair[0] != pair[1]);
    if unique { found } else { Vec::new() }
}

/// Collects the mirrored arguments of a schema. Only `properties` are followed: an argument below `items`, `oneOf` or
/// `$ref` has no fixed path.
fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<ParamHeader>, room: &mut usize) -> bool {
    let Some(properties) = schema["properties"].as_object() else { return true };
    for (name, property) in properties {
        path.push(name.clone());
        if let Some(annotation) = property.get("x-mcp-header") {
            let plain = matches!(property["type"].as_str(), Some("string" | "integer" | "boolean"));
            match annotation.as_str() {
                Some(header) if plain && is_token(header) => {
                    let header = format!("mcp-param-{}", header.to_ascii_lowercase());
                    let header = ParamHeader { path: path.clone(), header };
                    let Some(left) = room.checked_sub(header.cost()) else { return false };
                    *room = left;
                    found.push(header);
                }
                _ => return false,
            }
        }
        if !collect(property, path, found, room) {
            return false;
        }
        path.pop();
    }
    true
}

/// Whether a text is valid in a header name (RFC 9110 section 5.6.2).
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

    fn mirrored(name: &str) -> Value {
        let schema = json!({ "properties": { "a": { "type": "string", "x-mcp-header": "A" } } });
        json!({ "name": name, "inputSchema": schema })
    }

    fn learn(tools: &mut ParamHeaderIndex, listed: &[Value]) {
        tools.update_from_list(&json!({ "tools": listed }).to_string());
    }

    #[test]
    fn tools_are_noted_in_bounded_number_and_size() {
        let mut tools = ParamHeaderIndex::default();
        learn(&mut tools, &[json!({ "name": "plain", "inputSchema": {} }), json!(7), mirrored("a")]);
        assert_eq!(tools.by_tool.keys().collect::<Vec<_>>(), ["a"]);
        learn(&mut tools, &[mirrored(&"x".repeat(MAX_NAME_BYTES + 1))]);
        assert_eq!(tools.by_tool.len(), 1);
        let many: Vec<Value> = (0..=MAX_TOOLS).map(|number| mirrored(&number.to_string())).collect();
        learn(&mut tools, &many);
        assert_eq!(tools.by_tool.len(), MAX_TOOLS);
        // A tool without mirrored arguments frees its room for another tool.
        learn(&mut tools, &[json!({ "name": "a" }), mirrored("b")]);
        assert!(tools.by_tool.contains_key("b") && !tools.by_tool.contains_key("a"));
        tools.clear();
        let long = |number: usize| mirrored(&format!("{number}-{}", "x".repeat(MAX_NAME_BYTES - 10)));
        learn(&mut tools, &(0..MAX_TOOLS).map(long).collect::<Vec<_>>());
        let bytes: usize = tools.by_tool.iter().map(|(name, headers)| cost(name, headers)).sum();
        assert!(bytes == tools.bytes && bytes <= MAX_BYTES && bytes > MAX_BYTES / 2, "{bytes}");
    }

    #[test]
    fn the_paths_of_one_tool_are_bounded() {
        let leaf = |number: usize| {
            (number.to_string(), json!({ "type": "string", "x-mcp-header": number.to_string() }))
        };
        let leaves: serde_json::Map<String, Value> = (0..100).map(leaf).collect();
        let deep = |name: String| json!({ "properties": { name: { "properties": leaves } } });
        assert_eq!(param_headers(&deep("x".to_owned())).len(), 100);
        assert_eq!(param_headers(&deep("x".repeat(1024))), []);
        let text = deep("x".repeat(MAX_SCHEMA_BYTES)).to_string();
        assert_eq!(headers_in(&RawValue::from_string(text).expect("JSON")), []);
    }

    #[test]
    fn one_invalid_annotation_disables_all_headers() {
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
