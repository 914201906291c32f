//! Saves the names of a workload's tools when a command lists them, because completion does not connect to servers.

use mcpm::{
    Environment, Result,
    mcp_client::JsonObject,
    state::{Document, FORMAT_VERSION, Store},
    workload::WorkloadName,
};
use serde::{Deserialize, Serialize};

/// Maximum number of saved names.
const MAX_NAMES: usize = 512;
/// Maximum length of a saved name in bytes; longer ones are left out.
const MAX_NAME_BYTES: usize = 128;

/// The document with the names.
#[derive(PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolNames {
    version: u32,
    names: Vec<String>,
}

impl ToolNames {
    fn of(tools: &[JsonObject]) -> Self {
        let names = tools.iter().filter_map(|tool| tool.get("name")?.as_str());
        let names = names.filter(|name| name.len() <= MAX_NAME_BYTES).take(MAX_NAMES).map(str::to_owned);
        Self { version: FORMAT_VERSION, names: names.collect() }
    }
}

/// Saves the names of the tools of a workload. Does nothing if `target` is a URL.
pub(crate) fn save(target: &str, tools: &[JsonObject]) {
    let Ok(workload) = target.parse::<WorkloadName>() else { return };
    let found = ToolNames::of(tools);
    let store = store();
    // Most calls get the same tools.
    let is_saved = store.load::<ToolNames>(&workload, Document::Tools).is_ok_and(|saved| saved == found);
    if !is_saved && let Err(error) = store.save(&workload, Document::Tools, &found) {
        tracing::debug!(%error, "the names of the tools were not saved for completion");
    }
}

/// Returns the saved names of the tools of a workload.
///
/// # Errors
/// `InvalidOption` if `target` is not the name of a workload; `NotFound`; `CorruptState` if none were saved.
pub(crate) fn load(target: &str) -> Result<Vec<String>> {
    let workload: WorkloadName = target.parse()?;
    Ok(store().load::<ToolNames>(&workload, Document::Tools)?.names)
}

fn store() -> Store {
    Store::new(&Environment::from_process().state_dir)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_server_with_many_or_long_names_fills_a_small_file() {
        let tool = |name: Value| JsonObject::from_iter([("name".to_owned(), name)]);
        let odd = [json!("x".repeat(MAX_NAME_BYTES + 1)), json!(7)].map(tool);
        let many = (0..=MAX_NAMES).map(|number| tool(json!(format!("tool-{number}"))));
        let saved = ToolNames::of(&odd.into_iter().chain(many).collect::<Vec<_>>()).names;
        assert_eq!((saved.len(), saved[0].as_str()), (MAX_NAMES, "tool-0"));
    }
}
