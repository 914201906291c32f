//! Adds, changes, replaces and removes one entry of a configuration file, and leaves the rest of the file unchanged.
//!
//! A parser finds the place of the entry, and the text there is inserted, replaced or deleted. The file is never
//! written from parsed data, so comments, order, indentation and line endings of all other parts cannot change.
//! The result is parsed again and compared with the original text: they may only differ in the entry.

mod json;
mod model;
mod text;
mod toml;
mod yaml;

use std::{collections::BTreeMap, ops::Range};

pub(super) use model::{EditResult, EntryPath, FieldValue, Fields, Origin};
use serde_json::{Map, Value};
use text::splice;

/// The language of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    /// JSON, in which comments and trailing commas are accepted.
    Json,
    Toml,
    Yaml,
}

/// Returns the text with a new entry, and what was at its place.
pub(super) fn add(
    syntax: Syntax,
    text: &str,
    path: EntryPath<'_>,
    fields: &Fields,
) -> EditResult<(String, Origin)> {
    let (bom, body) = split_bom(text);
    if entry(syntax, text, path)?.is_some() {
        return Err(format!("has an entry `{}` already", path.name));
    }
    let (new, origin) = match syntax {
        Syntax::Json => json::add(body, path, fields),
        Syntax::Toml => toml::add(body, path, fields),
        Syntax::Yaml => yaml::add(body, path, fields),
    }?;
    check_only_changed(syntax, body, &new, path)?;
    if value(syntax, &new).ok().as_ref().and_then(|new| lookup(new, path)) != Some(&json_of(fields)) {
        return Err("has a structure to which mcpm cannot add an entry".to_owned());
    }
    Ok((format!("{bom}{new}"), origin))
}

/// Returns the text with these fields in an entry. Its other fields stay, and so do the pairs of a map and the first
/// items of a list that are not in these fields.
pub(super) fn update(syntax: Syntax, text: &str, path: EntryPath<'_>, fields: &Fields) -> EditResult<String> {
    let (bom, body) = split_bom(text);
    let Some(Value::Object(found)) = entry(syntax, text, path)? else {
        return Err(format!("has no entry `{}`", path.name));
    };
    let (mut new, mut expected) = (body.to_owned(), found.clone());
    for (name, value) in fields {
        let value = with_pairs(found.get(*name), name, value)?;
        let plain = plain(&value);
        let is_kept = |found: &Value| match (found, &plain) {
            (Value::Array(found), Value::Array(new)) => found.ends_with(new),
            (found, new) => found == new,
        };
        if found.get(*name).is_some_and(is_kept) {
            continue;
        }
        new = match syntax {
            Syntax::Json => json::set_field(&new, path, name, &value),
            Syntax::Toml => toml::set_field(&new, path, name, &value),
            Syntax::Yaml => yaml::set_field(&new, path, name, &value),
        }?;
        expected.insert((*name).to_owned(), plain);
    }
    check_only_changed(syntax, body, &new, path)?;
    if entry(syntax, &new, path)? != Some(Value::Object(expected)) {
        return Err(format!("has an entry `{}` in a form that cannot be edited", path.name));
    }
    Ok(format!("{bom}{new}"))
}

/// A value, completed with the other pairs of the map that the file has in its place.
fn with_pairs(found: Option<&Value>, name: &str, value: &FieldValue) -> EditResult<FieldValue> {
    let (FieldValue::Map(map), Some(Value::Object(found))) = (value, found) else { return Ok(value.clone()) };
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    let Some(mut pairs) = found.iter().map(text).collect::<Option<BTreeMap<_, _>>>() else {
        return Err(format!("has a field `{name}` in a form that cannot be edited"));
    };
    pairs.extend(map.clone());
    Ok(FieldValue::Map(pairs))
}

/// Returns the text of an entry as it stands in a file; `None` if there is none.
pub(super) fn entry_text<'a>(syntax: Syntax, text: &'a str, path: EntryPath<'_>) -> Option<&'a str> {
    let (_, body) = split_bom(text);
    let (place, _) = in_place(syntax, body, path, path.name, &Fields::new()).ok()?;
    Some(&body[place])
}

/// Returns the text with an entry in the place of another one, and the text of the other one.
pub(super) fn swap(
    syntax: Syntax,
    text: &str,
    old: EntryPath<'_>,
    new: EntryPath<'_>,
    fields: &Fields,
) -> EditResult<(String, String)> {
    exchange(syntax, text, old, new, fields, None)
}

/// Returns the text with the text of an earlier entry in the place of an entry.
pub(super) fn swap_back(
    syntax: Syntax,
    text: &str,
    current: EntryPath<'_>,
    earlier: EntryPath<'_>,
    earlier_text: &str,
) -> EditResult<String> {
    exchange(syntax, text, current, earlier, &Fields::new(), Some(earlier_text)).map(|(text, _)| text)
}

/// Puts an entry, given as fields or as text, in the place of another one. Returns the text of the file, and that of
/// the replaced entry.
fn exchange(
    syntax: Syntax,
    text: &str,
    old: EntryPath<'_>,
    new: EntryPath<'_>,
    fields: &Fields,
    given: Option<&str>,
) -> EditResult<(String, String)> {
    let (bom, body) = split_bom(text);
    let (place, written) = in_place(syntax, body, old, new.name, fields)?;
    let before = body[place.clone()].to_owned();
    let after = splice(body, &[(place, given.map_or(written, str::to_owned))]);
    check_swapped(syntax, body, &after, old, new)?;
    Ok((format!("{bom}{after}"), before))
}

/// Returns the place of an entry, and the text of another one for that place.
fn in_place(
    syntax: Syntax,
    body: &str,
    path: EntryPath<'_>,
    name: &str,
    fields: &Fields,
) -> EditResult<(Range<usize>, String)> {
    match syntax {
        Syntax::Json => json::in_place(body, path, name, fields),
        Syntax::Toml => toml::in_place(body, path, name, fields),
        Syntax::Yaml => yaml::in_place(body, path, name, fields),
    }
}

/// Fails if two texts differ in more than an entry that replaces another one.
fn check_swapped(
    syntax: Syntax,
    before: &str,
    after: &str,
    old: EntryPath<'_>,
    new: EntryPath<'_>,
) -> EditResult<()> {
    let rest = |text: &str, name: &str| value(syntax, text).map(|value| without(value, old.map, name));
    match (rest(before, old.name), rest(after, new.name)) {
        (Ok(one), Ok(other)) if one == other => Ok(()),
        _ => Err("has a form that cannot be edited without changing other parts of it".to_owned()),
    }
}

/// Returns the text without an entry; unchanged if there is none.
pub(super) fn remove(
    syntax: Syntax,
    text: &str,
    path: EntryPath<'_>,
    origin: Option<&Origin>,
) -> EditResult<String> {
    let (bom, body) = split_bom(text);
    if entry(syntax, text, path)?.is_none() {
        return Ok(text.to_owned());
    }
    let new = match syntax {
        Syntax::Json => json::remove(body, path, origin),
        Syntax::Toml => toml::remove(body, path, origin),
        Syntax::Yaml => yaml::remove(body, path, origin),
    }?;
    check_only_changed(syntax, body, &new, path)?;
    Ok(format!("{bom}{new}"))
}

/// Returns the entries of a file by their names.
pub(super) fn entries(syntax: Syntax, text: &str, map: &[&str]) -> EditResult<Map<String, Value>> {
    let mut found = value(syntax, split_bom(text).1)?;
    for key in map {
        found = match found {
            Value::Object(mut object) => object.remove(*key).unwrap_or(Value::Null),
            Value::Null => Value::Null,
            _ => return Err(format!("has no map of servers at `{}`", map.join("."))),
        };
    }
    match found {
        Value::Object(entries) => Ok(entries),
        Value::Null => Ok(Map::new()),
        _ => Err(format!("has a value at `{}` that is not a map of servers", map.join("."))),
    }
}

/// Returns one entry.
pub(super) fn entry(syntax: Syntax, text: &str, path: EntryPath<'_>) -> EditResult<Option<Value>> {
    Ok(entries(syntax, text, path.map)?.remove(path.name))
}

/// Whether a file contains no value: only white space, or an empty JSON object.
pub(super) fn is_blank(syntax: Syntax, text: &str) -> bool {
    match syntax {
        Syntax::Json => text.trim().is_empty() || text.trim() == "{}",
        Syntax::Toml | Syntax::Yaml => text.trim().is_empty(),
    }
}

/// The data of a file; null for a file without a value.
fn value(syntax: Syntax, body: &str) -> EditResult<Value> {
    match syntax {
        Syntax::Json => json::value(body),
        Syntax::Toml => toml::value(body),
        Syntax::Yaml => yaml::value(body),
    }
}

/// Fails if two texts differ in more than an entry.
fn check_only_changed(syntax: Syntax, old: &str, new: &str, path: EntryPath<'_>) -> EditResult<()> {
    let without = |text: &str| value(syntax, text).map(|value| without(value, path.map, path.name));
    match (without(old), without(new)) {
        (Ok(old), Ok(new)) if old == new => Ok(()),
        _ => Err("has a form that cannot be edited without changing other parts of it".to_owned()),
    }
}

/// A value without an entry, and without the objects on the way to it that are then empty.
fn without(mut value: Value, map: &[&str], name: &str) -> Value {
    if let Value::Object(object) = &mut value {
        match map.split_first() {
            None => drop(object.remove(name)),
            Some((first, rest)) => {
                let inner = object.remove(*first).unwrap_or(Value::Null);
                let inner = without(inner, rest, name);
                let is_empty = inner.is_null() || inner.as_object().is_some_and(Map::is_empty);
                if !is_empty {
                    object.insert((*first).to_owned(), inner);
                }
            }
        }
        if object.is_empty() {
            return Value::Null;
        }
    }
    value
}

fn lookup<'a>(value: &'a Value, path: EntryPath<'_>) -> Option<&'a Value> {
    path.map.iter().try_fold(value, |value, key| value.get(*key))?.get(path.name)
}

/// The data of fields.
fn json_of(fields: &Fields) -> Value {
    fields.iter().map(|(key, field)| ((*key).to_owned(), plain(field))).collect()
}

/// The data of a field.
fn plain(value: &FieldValue) -> Value {
    match value {
        FieldValue::Text(text) => Value::from(text.as_str()),
        FieldValue::Flag(flag) => Value::from(*flag),
        FieldValue::List(list) => Value::from(list.as_slice()),
        FieldValue::Map(map) => {
            map.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect()
        }
    }
}

fn split_bom(text: &str) -> (&str, &str) {
    text.split_at(if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 })
}

#[cfg(test)]
#[path = "../edit_tests.rs"]
mod tests;
