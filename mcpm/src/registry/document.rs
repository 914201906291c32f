//! Parses registry documents, whose layout is detected from their content.

use serde_json::{Map, Value};

use super::{
    RegistryEntry,
    notice::{OnNotice, collect_readable},
    server_json, toolhive,
};
use crate::{Error, ErrorKind, Result};

/// One page of a registry's API, or a whole document.
pub(super) struct RegistryPage {
    pub(super) entries: Vec<RegistryEntry>,
    /// The cursor of the next page, if there is one.
    pub(super) next: Option<String>,
}

/// Reads the entries of a document.
///
/// # Errors
/// `Registry` when it is not a registry document. Invalid entries of a list are skipped with a notice.
pub(super) fn entries(bytes: &[u8], on_notice: OnNotice<'_>) -> Result<Vec<RegistryEntry>> {
    page(bytes, on_notice).map(|page| page.entries)
}

/// Reads a page.
pub(super) fn page(bytes: &[u8], on_notice: OnNotice<'_>) -> Result<RegistryPage> {
    let document: Value = serde_json::from_slice(bytes).map_err(|error| {
        Error::new(ErrorKind::Registry, "the registry is not a JSON document").source(error)
    })?;
    let next =
        ["nextCursor", "next_cursor"].iter().find_map(|key| document.get("metadata")?.get(key)?.as_str());
    let next = next.filter(|cursor| !cursor.is_empty()).map(str::to_owned);
    let list = |list: Vec<Value>| collect_readable(list.into_iter().map(parse_entry), on_notice);
    let entries = match document {
        Value::Array(all) => list(all),
        Value::Object(mut fields) => {
            if let Some(Value::Array(all)) = fields.get_mut("data").and_then(|data| data.get_mut("servers")) {
                list(std::mem::take(all))
            } else {
                match fields.remove("servers") {
                    Some(Value::Array(all)) => list(all),
                    Some(Value::Null) if fields.contains_key("metadata") => Vec::new(),
                    Some(servers) => {
                        fields.insert("servers".to_owned(), servers);
                        toolhive::entries(Value::Object(fields), on_notice)?
                    }
                    None if fields.contains_key("remote_servers") => {
                        toolhive::entries(Value::Object(fields), on_notice)?
                    }
                    None if fields.contains_key("server") || fields.contains_key("name") => {
                        vec![parse_entry(Value::Object(fields))?]
                    }
                    None => return Err(not_a_registry()),
                }
            }
        }
        _ => return Err(not_a_registry()),
    };
    Ok(RegistryPage { entries, next })
}

fn not_a_registry() -> Error {
    Error::new(ErrorKind::Registry, "the document is not a registry").hint(
        "it should be a `server.json`, a list of them in `servers`, or have ToolHive's layout (`servers` by name)",
    )
}

/// Parses one server, with or without the envelope of the API.
fn parse_entry(value: Value) -> Result<RegistryEntry> {
    let Value::Object(mut fields) = value else {
        return Err(Error::new(ErrorKind::Registry, "an entry is not a JSON object"));
    };
    match fields.remove("server") {
        Some(server) => {
            let outer = match fields.remove("_meta") {
                Some(Value::Object(meta)) => meta,
                _ => Map::new(),
            };
            server_json::entry(server, &outer)
        }
        None => server_json::entry(Value::Object(fields), &Map::new()),
    }
}
