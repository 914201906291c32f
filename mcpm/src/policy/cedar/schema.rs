//! Checks that policies use only entity types and actions that exist.
//!
//! A policy with an unknown entity type or action applies to no request. In a `permit` policy, the mistake would be
//! noticed at the first denial; in a `forbid` policy, it would never be noticed. Attributes have no schema, because
//! claims and arguments are arbitrary.

use std::collections::BTreeSet;

use cedar_policy::{Entities, EntityTypeName, Policy};
use serde_json::Value;

use crate::similar::nearest;

/// The entity types of requests, except that of groups.
const TYPES: [&str; 6] = ["Action", "Client", "MCP", "Prompt", "Resource", "Tool"];
/// The actions of requests.
const ACTIONS: [&str; 3] = ["call_tool", "get_prompt", "read_resource"];

/// The known entity types and ids of actions.
#[derive(Debug, Default)]
pub(super) struct SchemaNames {
    types: BTreeSet<String>,
    actions: BTreeSet<String>,
}

impl SchemaNames {
    /// The names in requests and in the entities of the configuration.
    pub(super) fn known(group: &EntityTypeName, entities: &Entities) -> Result<Self, String> {
        let mut names = Self::default();
        names.types.extend(TYPES.map(str::to_owned));
        names.types.insert(group.to_string());
        names.actions.extend(ACTIONS.map(str::to_owned));
        names.collect(&entities.to_json_value().map_err(|error| chain(&error))?);
        Ok(names)
    }

    /// Checks that a policy uses only known names.
    ///
    /// # Errors
    /// The unknown name, and a suggestion.
    pub(super) fn check(&self, policy: &Policy) -> Result<(), (String, String)> {
        let mut used = Self::default();
        match policy.to_json() {
            Ok(json) => used.collect(&json),
            Err(error) => return Err((chain(&error), "rewrite the policy".to_owned())),
        }
        let hint =
            |known: &BTreeSet<String>, name: &str| match nearest(known.iter().map(String::as_str), name) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("known names: {}", known.iter().cloned().collect::<Vec<_>>().join(", ")),
            };
        if let Some(name) = used.types.difference(&self.types).next() {
            return Err((format!("no request has the entity type `{name}`"), hint(&self.types, name)));
        }
        if let Some(name) = used.actions.difference(&self.actions).next() {
            return Err((format!("no request has the action `{name}`"), hint(&self.actions, name)));
        }
        Ok(())
    }

    /// Collects the names in Cedar's JSON of policies or entities: entities are `{"type": ..., "id": ...}`, and
    /// `is` has an `entity_type`.
    fn collect(&mut self, json: &Value) {
        match json {
            Value::Object(fields) => {
                let text = |name: &str| fields.get(name).and_then(Value::as_str);
                if let (Some(kind), Some(id), 2) = (text("type"), text("id"), fields.len()) {
                    self.types.insert(kind.to_owned());
                    if kind == "Action" {
                        self.actions.insert(id.to_owned());
                    }
                }
                self.types.extend(text("entity_type").map(str::to_owned));
                let parts = fields.iter().filter(|(name, _)| *name != "annotations");
                parts.for_each(|(_, part)| self.collect(part));
            }
            Value::Array(parts) => parts.iter().for_each(|part| self.collect(part)),
            _ => {}
        }
    }
}

/// An error with its causes.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
