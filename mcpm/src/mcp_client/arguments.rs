//! Converts arguments that a user types as text to the types in the schema of a tool.

use serde_json::Value;

use super::options::JsonObject;
use crate::{Error, ErrorKind, Result, printable::Printable as _};

/// Maximum number of consecutive references (`$ref`) in a schema that are followed.
const MAX_REFERENCES: usize = 8;

/// Converts `KEY=VALUE` pairs to the arguments of a tool. A value is converted to the type that the input schema has
/// for its key; the values of a repeated key are the items of an array.
///
/// # Errors
/// `InvalidOption` names an argument that is unknown, is missing, or has another type.
pub fn parse(schema: &JsonObject, pairs: &[impl AsRef<str>]) -> Result<JsonObject> {
    let root = Value::Object(schema.clone());
    let mut texts: Vec<(&str, Vec<&str>)> = Vec::new();
    for pair in pairs {
        let (key, value) = pair.as_ref().split_once('=').ok_or_else(|| {
            invalid(format!("`{}` is not an argument of the form `KEY=VALUE`", pair.as_ref().printable()))
        })?;
        match texts.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => texts.push((key, vec![value])),
        }
    }
    let mut arguments = JsonObject::new();
    for (key, values) in texts {
        let field = field(&root, key)?;
        let field = &resolve(&root, field);
        let value = match &values[..] {
            [value] => convert_in(&root, key, field, value)?,
            _ if types(field).any(|kind| kind == "array") => {
                let item = resolve(&root, &field["items"]);
                let items = values.iter().map(|value| convert_in(&root, key, &item, value));
                Value::Array(items.collect::<Result<_>>()?)
            }
            _ => {
                return Err(invalid(format!(
                    "the argument `{key}` is given more than once, but takes one value"
                )));
            }
        };
        arguments.insert(key.to_owned(), value);
    }
    check_required(schema, &arguments)?;
    Ok(arguments)
}

/// Checks that no required argument is missing.
///
/// # Errors
/// `InvalidOption` names the missing arguments.
pub fn check_required(schema: &JsonObject, arguments: &JsonObject) -> Result<()> {
    let missing: Vec<String> = required(schema)
        .into_iter()
        .filter(|name| !arguments.contains_key(*name))
        .map(|name| {
            let field = schema.get("properties").and_then(|fields| fields.get(name));
            format!("`{name}` ({})", expected(field.unwrap_or(&Value::Null)))
        })
        .collect();
    match &missing[..] {
        [] => Ok(()),
        [one] => Err(invalid(format!("the argument {one} is missing"))),
        _ => Err(invalid(format!("the arguments {} are missing", missing.join(", ")))),
    }
}

/// Returns the names of the required fields of a schema.
pub fn required(schema: &JsonObject) -> Vec<&str> {
    let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).collect()
}

/// Converts the text of a field without references.
pub(super) fn convert(name: &str, field: &Value, text: &str) -> Result<Value> {
    convert_in(&Value::Null, name, field, text)
}

/// Describes in words which values a field accepts.
pub fn expected(field: &Value) -> String {
    if let Some(allowed) = allowed(field) {
        let allowed: Vec<String> = allowed.iter().map(plain).collect();
        return format!("one of {}", allowed.join(", "));
    }
    let types: Vec<&str> = types(field).filter(|kind| *kind != "null").collect();
    if types.is_empty() { "any value".to_owned() } else { types.join(" or ") }
}

/// Returns the part of the schema for a key.
fn field<'a>(root: &'a Value, key: &str) -> Result<&'a Value> {
    let fields = root["properties"].as_object();
    if let Some(field) = fields.and_then(|fields| fields.get(key)) {
        return Ok(field);
    }
    let others = &root["additionalProperties"];
    let names: Vec<String> = fields.into_iter().flatten().map(|(name, _)| format!("`{name}`")).collect();
    match others {
        Value::Object(_) | Value::Bool(true) => Ok(others),
        _ if names.is_empty() => {
            Err(invalid(format!("the tool has no argument `{key}`; it takes no arguments")))
        }
        _ => {
            Err(invalid(format!("the tool has no argument `{key}`; its arguments are {}", names.join(", "))))
        }
    }
}

/// Follows references within the schema.
fn resolve(root: &Value, field: &Value) -> Value {
    let mut found = field;
    for _ in 0..MAX_REFERENCES {
        let pointer = found["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
        match pointer.and_then(|pointer| root.pointer(pointer)) {
            Some(target) => found = target,
            None => return with_alternatives(root, found.clone()),
        }
    }
    Value::Null
}

/// Replaces references in alternatives, such as those of an optional value. If there is only one alternative besides
/// `null`, copies its items and allowed values to the field.
fn with_alternatives(root: &Value, mut field: Value) -> Value {
    for key in ["anyOf", "oneOf"] {
        let Some(alternatives) = field.get_mut(key).and_then(Value::as_array_mut) else { continue };
        for one in &mut *alternatives {
            let pointer = one["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
            if let Some(target) = pointer.and_then(|pointer| root.pointer(pointer)) {
                *one = target.clone();
            }
        }
        let is_optional = alternatives.iter().any(|one| one["type"] == "null");
        if alternatives.len() != 1 + usize::from(is_optional) {
            continue;
        }
        let only = alternatives.iter().find(|one| one["type"] != "null").cloned().unwrap_or_default();
        if let Some(items) = only.get("items") {
            field["items"] = items.clone();
        }
        if let Some(allowed) = only["enum"].as_array() {
            let null = is_optional.then_some(Value::Null);
            field["enum"] = allowed.iter().cloned().chain(null).collect();
        }
    }
    field
}

/// The types of a field, also those of its alternatives.
fn types(field: &Value) -> impl Iterator<Item = &str> {
    let alternatives = ["anyOf", "oneOf"].into_iter().filter_map(|key| field[key].as_array()).flatten();
    std::iter::once(field).chain(alternatives).flat_map(|one| match &one["type"] {
        Value::String(kind) => vec![kind.as_str()],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    })
}

/// The only values that a field may have.
fn allowed(field: &Value) -> Option<Vec<Value>> {
    if let Some(values) = field["enum"].as_array() {
        return Some(values.clone());
    }
    // Values with titles, as in forms of elicitation.
    let titled = field["oneOf"].as_array()?.iter().map(|one| one.get("const").cloned());
    titled.collect()
}

fn convert_in(root: &Value, name: &str, field: &Value, text: &str) -> Result<Value> {
    let mismatch = || {
        let text = text.printable();
        invalid(format!("invalid value `{text}` for the argument `{name}`; expected: {}", expected(field)))
    };
    if let Some(allowed) = allowed(field) {
        return allowed.into_iter().find(|value| plain(value) == text).ok_or_else(mismatch);
    }
    let kinds: Vec<&str> = types(field).collect();
    if kinds.is_empty() {
        // The field accepts any type: the text is parsed as JSON if possible, and otherwise stays text.
        return Ok(serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned())));
    }
    let converted = kinds.iter().filter(|kind| **kind != "string").find_map(|kind| {
        let value: Option<Value> = serde_json::from_str(text).ok();
        match *kind {
            "integer" => value.filter(|value| value.is_i64() || value.is_u64()),
            "number" => value.filter(Value::is_number),
            "boolean" => value.filter(Value::is_boolean),
            "null" => value.filter(Value::is_null),
            "object" => value.filter(Value::is_object),
            "array" => value.filter(Value::is_array).or_else(|| {
                let item = resolve(root, &field["items"]);
                // Users have to type arrays of arrays as JSON.
                let only =
                    (!types(&item).any(|kind| kind == "array")).then(|| convert_in(root, name, &item, text));
                only?.ok().map(|only| Value::Array(vec![only]))
            }),
            _ => None,
        }
    });
    match converted {
        Some(value) => Ok(value),
        None if kinds.contains(&"string") => Ok(Value::String(text.to_owned())),
        None => Err(mismatch()),
    }
}

/// A value as a user types it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidOption, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> JsonObject {
        let schema = json!({
            "type": "object",
            "properties": {
                "city": { "type": "string" },
                "days": { "type": "integer" },
                "factor": { "type": "number" },
                "dry": { "type": "boolean" },
                "units": { "enum": ["metric", "imperial", 3] },
                "tags": { "type": "array", "items": { "type": "integer" } },
                "unit": { "anyOf": [{ "$ref": "#/$defs/unit" }, { "type": "null" }] },
                "names": { "anyOf": [{ "type": "array", "items": { "type": "string" } }, { "type": "null" }] },
                "words": { "type": "array", "items": { "$ref": "#/$defs/word" } },
                "filter": { "type": "object" },
                "limit": { "anyOf": [{ "type": "integer" }, { "type": "null" }], "default": null },
                "id": { "type": ["string", "integer"] },
                "place": { "$ref": "#/$defs/word" },
                "loop": { "$ref": "#/properties/loop" },
                "anything": {},
            },
            "required": ["city", "days"],
            "$defs": { "word": { "type": "string" }, "unit": { "enum": ["metric", "imperial"], "type": "string" } },
        });
        schema.as_object().expect("an object").clone()
    }

    #[test]
    fn values_get_the_types_of_the_schema() {
        let pairs = [
            "city=5",
            "days=3",
            "factor=0.5",
            "dry=true",
            "units=3",
            "tags=1",
            "tags=2",
            "words=[\"a\"]",
            "filter={\"a\":1}",
            "limit=null",
            "id=7",
            "place=a=b",
            "anything=[1]",
            "loop=x",
            "unit=metric",
            "names=2024",
        ];
        let expected = json!({
            "city": "5", "days": 3, "factor": 0.5, "dry": true, "units": 3, "tags": [1, 2], "words": ["a"],
            "filter": { "a": 1 }, "limit": null, "id": 7, "place": "a=b", "anything": [1], "loop": "x",
            "unit": "metric", "names": ["2024"],
        });
        assert_eq!(Value::Object(parse(&schema(), &pairs).expect("they fit")), expected);
        let single =
            parse(&schema(), &["city=", "days=1", "tags=4", "words=b", "anything=x"]).expect("they fit");
        let expected = json!({ "city": "", "days": 1, "tags": [4], "words": ["b"], "anything": "x" });
        assert_eq!(Value::Object(single), expected);
    }

    #[test]
    fn a_message_names_the_argument_that_is_wrong() {
        for (pairs, message) in [
            (&["city=a"][..], "the argument `days` (integer) is missing"),
            (&[], "the arguments `city` (string), `days` (integer) are missing"),
            (&["days=x"], "invalid value `x` for the argument `days`; expected: integer"),
            (&["days=1.5"], "invalid value `1.5` for the argument `days`; expected: integer"),
            (&["dry=yes"], "invalid value `yes` for the argument `dry`; expected: boolean"),
            (
                &["units=x"],
                "invalid value `x` for the argument `units`; expected: one of metric, imperial, 3",
            ),
            (&["tags=1", "tags=x"], "invalid value `x` for the argument `tags`; expected: integer"),
            (&["city=a", "city=b"], "the argument `city` is given more than once, but takes one value"),
            (&["city"], "`city` is not an argument of the form `KEY=VALUE`"),
            (&["filter=1"], "invalid value `1` for the argument `filter`; expected: object"),
        ] {
            assert_eq!(parse(&schema(), pairs).expect_err("it does not fit").message(), message);
        }
        let unknown = parse(&schema(), &["town=a"]).expect_err("it is unknown");
        assert!(
            unknown
                .message()
                .starts_with("the tool has no argument `town`; its arguments are `city`, `days`"),
            "{unknown}"
        );
        let none = parse(&JsonObject::new(), &["a=1"]).expect_err("it is unknown");
        assert_eq!(none.message(), "the tool has no argument `a`; it takes no arguments");
        let open = json!({ "additionalProperties": { "type": "integer" } });
        let open = parse(open.as_object().expect("an object"), &["a=1"]).expect("others are allowed");
        assert_eq!(Value::Object(open), json!({ "a": 1 }));
    }
}
