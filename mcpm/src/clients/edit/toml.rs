//! Edits TOML. A new entry is a table with its own header at the end of the file.

use std::{fmt::Write as _, ops::Range};

use serde_json::Value;
use toml_edit::{Document, Item, Table, TableLike, Value as Node};

use super::{
    model::{EditResult, EntryPath, FieldValue, Fields, Origin},
    text::{inline, line_end, line_start, newline, next_line, quote, splice},
};

fn parse(text: &str) -> EditResult<Document<&str>> {
    Document::parse(text).map_err(|error| {
        let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
        format!("is not valid TOML: {} in line {line}", error.message().replace('\n', ", "))
    })
}

pub(super) fn value(text: &str) -> EditResult<Value> {
    Ok(table(parse(text)?.as_table()))
}

fn table(table: &dyn TableLike) -> Value {
    table.iter().map(|(key, item)| (key.to_owned(), plain_item(item))).collect()
}

fn plain_item(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => plain(value),
        Item::Table(inner) => table(inner),
        Item::ArrayOfTables(tables) => tables.iter().map(|inner| table(inner)).collect(),
    }
}

fn plain(value: &Node) -> Value {
    match value {
        Node::String(text) => Value::from(text.value().as_str()),
        Node::Integer(number) => Value::from(*number.value()),
        // A number that JSON does not have, or a time, is compared as text.
        Node::Float(number) => serde_json::Number::from_f64(*number.value())
            .map_or_else(|| Value::from(number.value().to_string()), Value::from),
        Node::Boolean(flag) => Value::from(*flag.value()),
        Node::Datetime(time) => Value::from(time.value().to_string()),
        Node::Array(array) => array.iter().map(plain).collect(),
        Node::InlineTable(inner) => table(inner),
    }
}

pub(super) fn add(text: &str, path: EntryPath<'_>, fields: &Fields) -> EditResult<(String, Origin)> {
    let document = parse(text)?;
    let mut outer: &Table = document.as_table();
    for key in path.map {
        match outer.get(key) {
            None => break,
            Some(Item::Table(inner)) => outer = inner,
            Some(_) => return Err(format!("has a value at `{key}` that is not a table with a header")),
        }
    }
    let newline = newline(text);
    let block = lines(path.map, path.name, fields, newline);
    let added = if text.is_empty() {
        format!("{block}{newline}")
    } else if text.ends_with('\n') {
        format!("{newline}{block}{newline}")
    } else {
        format!("{newline}{newline}{block}")
    };
    let origin = if text.trim().is_empty() {
        Origin::Blank(text.to_owned())
    } else {
        Origin::Object { depth: path.map.len(), inside: None }
    };
    Ok((format!("{text}{added}"), origin))
}

/// The lines of an entry, without the last line ending.
fn lines(map: &[&str], name: &str, fields: &Fields, newline: &str) -> String {
    let header: Vec<String> = map.iter().copied().chain([name]).map(key).collect();
    let mut block = format!("[{}]", header.join("."));
    for (name, value) in fields {
        let _ = write!(block, "{newline}{}", field(name, value));
    }
    block
}

/// Returns the place of an entry, and the text of another one for that place.
pub(super) fn in_place(
    text: &str,
    path: EntryPath<'_>,
    name: &str,
    fields: &Fields,
) -> EditResult<(Range<usize>, String)> {
    let blocks = blocks(text, path)?;
    let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else {
        return Err(format!("has no entry `{}`", path.name));
    };
    let gaps = blocks.windows(2).map(|pair| text[pair[0].end.min(pair[1].start)..pair[1].start].trim());
    if gaps.into_iter().any(|gap| !gap.is_empty()) {
        return Err(format!("has other tables between the tables of the entry `{}`", path.name));
    }
    let start = first.start + (text[first.start..].len() - text[first.start..].trim_start().len());
    let end = text[..last.end].trim_end().len();
    Ok((start..end, lines(path.map, name, fields, newline(text))))
}

/// A key, in quotes if it needs them.
fn key(name: &str) -> String {
    let is_bare =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if is_bare { name.to_owned() } else { quote(name) }
}

/// The line of a field.
fn field(name: &str, value: &FieldValue) -> String {
    format!("{name} = {}", inline(value, key, " = "))
}

/// Returns the text with a field of an entry, which is replaced or added.
pub(super) fn set_field(
    text: &str,
    path: EntryPath<'_>,
    name: &str,
    value: &FieldValue,
) -> EditResult<String> {
    let document = parse(text)?;
    let without_header = || format!("has an entry `{}` without a header of its own", path.name);
    let mut outer: &Table = document.as_table();
    for key in path.map {
        outer = outer.get(key).and_then(Item::as_table).ok_or_else(without_header)?;
    }
    let Some((header, Item::Table(entry))) = outer.get_key_value(path.name) else {
        return Err(without_header());
    };
    if let Some(place) = entry.get(name).and_then(Item::span) {
        return Ok(splice(text, &[(place, inline(value, key, " = "))]));
    }
    let header = header.span().filter(|_| !entry.is_implicit()).ok_or_else(without_header)?;
    let (place, newline) = (next_line(text, header.end), newline(text));
    let line = if text[..place].ends_with('\n') {
        format!("{}{newline}", field(name, value))
    } else {
        format!("{newline}{}", field(name, value))
    };
    Ok(splice(text, &[(place..place, line)]))
}

/// The blocks of an entry's tables, in the order of the text.
fn blocks(text: &str, path: EntryPath<'_>) -> EditResult<Vec<Range<usize>>> {
    let document = parse(text)?;
    let mut outer: &Table = document.as_table();
    for key in path.map {
        match outer.get(key) {
            Some(Item::Table(inner)) => outer = inner,
            _ => return Err(format!("has a value at `{key}` that is not a table with a header")),
        }
    }
    let Some((key, Item::Table(entry))) = outer.get_key_value(path.name) else {
        return Err(format!("has an entry `{}` without a header of its own", path.name));
    };
    let mut blocks = Vec::new();
    if !entry.is_implicit() {
        blocks.extend(key.span().map(|header| block(text, header, entry)));
    }
    inner_blocks(text, entry, &mut blocks);
    blocks.sort_by_key(|block| block.start);
    Ok(blocks)
}

pub(super) fn remove(text: &str, path: EntryPath<'_>, origin: Option<&Origin>) -> EditResult<String> {
    let mut end = 0;
    let mut edits = Vec::new();
    for block in blocks(text, path)? {
        // Two blocks claim the line ending between them.
        edits.push((block.start.max(end)..block.end, String::new()));
        end = block.end;
    }
    let rest = splice(text, &edits);
    Ok(match origin {
        Some(Origin::Blank(before)) if rest.trim().is_empty() => before.clone(),
        _ => rest,
    })
}

/// The blocks of tables inside of a table.
fn inner_blocks(text: &str, table: &Table, into: &mut Vec<Range<usize>>) {
    for (name, item) in table {
        if let Item::Table(inner) = item
            && let Some(key) = table.key(name)
        {
            if !inner.is_implicit() && !inner.is_dotted() {
                into.extend(key.span().map(|header| block(text, header, inner)));
            }
            inner_blocks(text, inner, into);
        }
    }
}

/// The lines of a table's header and its values, with the empty line before them.
fn block(text: &str, header: Range<usize>, table: &Table) -> Range<usize> {
    let last = table.iter().filter_map(|(_, item)| last_value(item)).max().unwrap_or(header.end);
    let mut start = line_start(text, header.start);
    let newline = newline(text);
    let before = |start: usize| text[..start].strip_suffix(newline);
    // `add` has separated the entry by an empty line, and has added a line ending if the last line had none.
    let has_no_ending = line_end(text, last) == text.len();
    for _ in 0..=usize::from(has_no_ending) {
        start = match before(start) {
            Some(rest) if has_no_ending || rest.ends_with('\n') => rest.len(),
            _ => start,
        };
    }
    start..next_line(text, last)
}

/// The end of the values that belong to the lines of a table.
fn last_value(item: &Item) -> Option<usize> {
    match item {
        Item::Value(value) => value.span().map(|span| span.end),
        Item::Table(inner) if inner.is_dotted() => {
            inner.iter().filter_map(|(_, item)| last_value(item)).max()
        }
        _ => None,
    }
}
