//! Generates the JSON Schema of exported configurations from the table of options.

use serde_json::{Map, Value, json};

use crate::{
    options::{Arity, OptionSet as _, OptionSpec, ValueKind, WorkloadOptions},
    state::FORMAT_VERSION,
};

/// Returns the JSON Schema of exported configurations.
pub fn export_schema() -> Value {
    let exported = |spec: &&OptionSpec| spec.kind != ValueKind::Secret && !spec.is_exclusive;
    let options = WorkloadOptions::SPECS.iter().filter(exported);
    let properties: Map<String, Value> = options.map(|spec| (spec.name.to_owned(), property(spec))).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Exported configuration of mcpm",
        "description": "Written by `mcpm export`, read by `mcpm run --from-config`",
        "type": "object",
        "required": ["version", "run"],
        "additionalProperties": false,
        "properties": {
            "version": { "const": FORMAT_VERSION, "description": "Version of the format" },
            "run": {
                "description": "The options of `mcpm run`",
                "type": "object",
                "required": ["server"],
                "additionalProperties": false,
                "properties": properties,
            },
        },
    })
}

fn property(spec: &OptionSpec) -> Value {
    let mut one = value(spec);
    if spec.arity != Arity::One {
        one = json!({ "type": "array", "items": one });
    }
    if let Some(fields) = one.as_object_mut() {
        fields.insert("description".to_owned(), json!(spec.help()));
    }
    one
}

fn value(spec: &OptionSpec) -> Value {
    match spec.kind {
        ValueKind::Bool => json!({ "type": "boolean" }),
        ValueKind::Port => {
            let (low, high) = spec.range.unwrap_or((0.0, 65535.0));
            json!({ "type": "integer", "minimum": low, "maximum": high })
        }
        ValueKind::Float => match spec.range {
            Some((low, high)) => json!({ "type": "number", "minimum": low, "maximum": high }),
            None => json!({ "type": "number" }),
        },
        ValueKind::Choice(words) => {
            let words: Vec<_> = words.iter().map(|word| word.text).collect();
            json!({ "enum": words })
        }
        _ => json!({ "type": "string" }),
    }
}
