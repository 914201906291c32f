//! Checks the JSON that commands print against the published schemas, `docs/reference/output/COMMAND.schema.json`.

use std::{fs, path::PathBuf};

use serde_json::Value;

/// The folder of the schemas.
pub(crate) fn folder() -> PathBuf {
    mcpm_tests::root().join("docs/reference/output")
}

/// The name of the schema for the output of a command; `None` if it prints no JSON.
fn name_of(args: &[&str]) -> Option<String> {
    let format = args.windows(2).any(|pair| matches!(pair, ["-o" | "--output", "json"]));
    if !format {
        return None;
    }
    let word = |at: usize| args.get(at).map(|word| if *word == "ls" { "list" } else { word });
    let two = format!("{}-{}", word(0)?, word(1).unwrap_or_default());
    let name = if folder().join(format!("{two}.schema.json")).exists() { two } else { word(0)?.to_owned() };
    let flag = ["--plan", "--undo", "--watch"].into_iter().find(|flag| args.contains(flag));
    Some(name + &flag.map(|flag| flag.replacen("--", "-", 1)).unwrap_or_default())
}

/// Fails if the output of a command does not match its schema.
#[track_caller]
pub(crate) fn assert_output(args: &[&str], stdout: &str) {
    let Some(name) = name_of(args).filter(|_| !stdout.is_empty()) else { return };
    let path = folder().join(format!("{name}.schema.json"));
    let schema = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let schema: Value = serde_json::from_str(&schema).unwrap();
    for document in serde_json::Deserializer::from_str(stdout).into_iter() {
        let document = document.unwrap_or_else(|error| panic!("{args:?}: {error}: {stdout}"));
        if let Err(problem) = validate(&schema, &document) {
            panic!("{args:?}: not as in {}: {problem}", path.display());
        }
    }
}

/// Checks a document against the subset of JSON Schema that these schemas use.
fn validate(schema: &Value, document: &Value) -> Result<(), String> {
    for (word, rule) in schema.as_object().unwrap() {
        let is_valid = match word.as_str() {
            "$schema" | "title" | "description" => true,
            "enum" => rule.as_array().unwrap().contains(document),
            "type" => match rule.as_array() {
                Some(types) => types.iter().any(|one| has_type(document, one)),
                None => has_type(document, rule),
            },
            "format" => match (rule.as_str(), document.as_str()) {
                (Some("date-time"), Some(time)) => {
                    time.len() >= 20 && time.ends_with('Z') && time.contains('T')
                }
                (Some("date-time"), None) => true,
                _ => panic!("unknown format {rule}"),
            },
            "minimum" => document.as_i64().is_none_or(|number| number >= rule.as_i64().unwrap()),
            "required" => document.as_object().is_none_or(|object| {
                rule.as_array().unwrap().iter().all(|key| object.contains_key(key.as_str().unwrap()))
            }),
            "properties" => {
                for (key, value) in document.as_object().into_iter().flatten() {
                    rule.get(key).map_or(Ok(()), |rule| validate(rule, value))?;
                }
                true
            }
            "additionalProperties" => {
                let mut keys = document.as_object().into_iter().flatten();
                keys.all(|(key, _)| schema["properties"].get(key).is_some())
            }
            "items" => {
                for item in document.as_array().into_iter().flatten() {
                    validate(rule, item)?;
                }
                true
            }
            _ => panic!("the test does not know `{word}`"),
        };
        if !is_valid {
            return Err(format!("`{word}` does not hold: {document:#} against {schema:#}"));
        }
    }
    Ok(())
}

fn has_type(document: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "object" => document.is_object(),
        "array" => document.is_array(),
        "string" => document.is_string(),
        "boolean" => document.is_boolean(),
        "integer" => document.is_i64() || document.is_u64(),
        "null" => document.is_null(),
        name => panic!("unknown type {name}"),
    }
}

#[test]
fn what_a_schema_does_not_allow_is_found() {
    let schema = serde_json::json!({
        "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": { "a": { "type": ["string", "null"] }, "b": { "enum": [1, 2] } }
    });
    for (document, is_valid) in [
        (serde_json::json!({ "a": "x", "b": 1 }), true),
        (serde_json::json!({ "a": null }), true),
        (serde_json::json!({ "a": 1 }), false),
        (serde_json::json!({ "b": 1 }), false),
        (serde_json::json!({ "a": "x", "b": 3 }), false),
        (serde_json::json!({ "a": "x", "c": 3 }), false),
        (serde_json::json!([]), false),
    ] {
        assert_eq!(validate(&schema, &document).is_ok(), is_valid, "{document}");
    }
}
