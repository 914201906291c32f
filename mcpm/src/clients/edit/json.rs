//! Edits JSON with comments and trailing commas.

use std::ops::Range;

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{Object, ObjectProp, Value as Node},
    common::Ranged as _,
};
use serde_json::Value;

use super::{
    model::{EditResult, EntryPath, FieldValue, Fields, Origin},
    text::{inline, line_end, line_start, newline, quote, splice},
};

const DEFAULT_INDENT: &str = "  ";

fn parse(text: &str) -> EditResult<Option<Node<'_>>> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &options);
    parsed
        .map(|parsed| parsed.value)
        .map_err(|error| format!("is not valid JSON: {} in line {}", error.kind(), error.line_display()))
}

/// The object at the root; `None` for a text without a value.
fn root(text: &str) -> EditResult<Option<Object<'_>>> {
    match parse(text)? {
        None => Ok(None),
        Some(Node::Object(object)) => Ok(Some(object)),
        Some(_) => Err("is not a JSON object".to_owned()),
    }
}

pub(super) fn value(text: &str) -> EditResult<Value> {
    parse(text)?.as_ref().map_or(Ok(Value::Null), plain)
}

fn plain(node: &Node<'_>) -> EditResult<Value> {
    Ok(match node {
        Node::StringLit(text) => Value::from(text.value.as_ref()),
        Node::NumberLit(number) => serde_json::from_str(number.value).map_err(|error| error.to_string())?,
        Node::BooleanLit(flag) => Value::from(flag.value),
        Node::NullKeyword(_) => Value::Null,
        Node::Array(array) => array.elements.iter().map(plain).collect::<EditResult<_>>()?,
        Node::Object(object) => {
            let mut fields = serde_json::Map::new();
            for property in &object.properties {
                let name = property.name.as_str();
                if fields.insert(name.to_owned(), plain(&property.value)?).is_some() {
                    return Err(format!("has the key `{name}` twice in one object"));
                }
            }
            Value::Object(fields)
        }
    })
}

/// The objects that keys lead to, beginning with the root, as far as they exist.
fn chain<'a, 'b>(root: &'b Object<'a>, keys: &[&str]) -> EditResult<Vec<&'b Object<'a>>> {
    let mut objects = vec![root];
    for key in keys {
        let last = objects[objects.len() - 1];
        match index_of(last, key).map(|at| &last.properties[at].value) {
            None => break,
            Some(Node::Object(object)) => objects.push(object),
            Some(_) => return Err(format!("has a value at `{key}` that is not an object")),
        }
    }
    Ok(objects)
}

fn index_of(object: &Object<'_>, key: &str) -> Option<usize> {
    object.properties.iter().position(|property| property.name.as_str() == key)
}

pub(super) fn add(text: &str, path: EntryPath<'_>, fields: &Fields) -> EditResult<(String, Origin)> {
    let Some(root) = root(text)? else {
        if !text.trim().is_empty() {
            return Err("contains only comments".to_owned());
        }
        let style = Style { newline: newline(text), unit: DEFAULT_INDENT.to_owned(), lines: true };
        let entry = property(path.map, path.name, fields, &style, DEFAULT_INDENT);
        let end = style.newline;
        return Ok((format!("{{{end}{DEFAULT_INDENT}{entry}{end}}}{end}"), Origin::Blank(text.to_owned())));
    };
    let objects = chain(&root, path.map)?;
    let depth = objects.len() - 1;
    let object = objects[depth];
    let inside = object.properties.is_empty().then(|| text[inside(object)].to_owned());
    let new = insert(text, &root, object, |style, indent| {
        property(&path.map[depth..], path.name, fields, style, indent)
    });
    Ok((new, Origin::Object { depth, inside }))
}

/// Returns the text with a field of an entry, which is replaced or added.
pub(super) fn set_field(
    text: &str,
    path: EntryPath<'_>,
    name: &str,
    value: &FieldValue,
) -> EditResult<String> {
    let missing = || format!("has no entry `{}`", path.name);
    let root = root(text)?.ok_or_else(missing)?;
    let keys: Vec<&str> = path.map.iter().copied().chain([path.name]).collect();
    let objects = chain(&root, &keys)?;
    let entry = objects.get(keys.len()).ok_or_else(missing)?;
    let Some(at) = index_of(entry, name) else {
        return Ok(insert(text, &root, entry, |style, indent| field(name, value, style, indent)));
    };
    let property = &entry.properties[at];
    let lines = text[entry.start()..property.start()].contains('\n');
    let style = Style { newline: newline(text), unit: unit(text, &root), lines };
    let new = field_value(value, &style, indent_of_line(text, property.start()));
    Ok(splice(text, &[(property.value.start()..property.value.end(), new)]))
}

pub(super) fn remove(text: &str, path: EntryPath<'_>, origin: Option<&Origin>) -> EditResult<String> {
    let Some(root) = root(text)? else { return Ok(text.to_owned()) };
    let objects = chain(&root, path.map)?;
    let keys: Vec<&str> = path.map.iter().copied().chain([path.name]).collect();
    // An object that was created for the entry is removed with it, unless it contains something else by now.
    let (made, inside) = match origin {
        Some(Origin::Blank(_)) => (0, None),
        Some(Origin::Object { depth, inside }) => (*depth, inside.as_deref()),
        None => (path.map.len(), None),
    };
    let holds_more = |depth: &usize| !is_alone(text, objects[*depth]);
    let depth = (made + 1..objects.len()).rev().find(holds_more).unwrap_or(made);
    if let Some(Origin::Blank(before)) = origin
        && depth == 0
        && !holds_more(&0)
        && text[..root.start()].trim().is_empty()
        && text[root.end()..].trim().is_empty()
    {
        return Ok(before.clone());
    }
    let Some(object) = objects.get(depth) else { return Ok(text.to_owned()) };
    let Some(at) = index_of(object, keys[depth]) else { return Ok(text.to_owned()) };
    Ok(delete(text, object, at, inside.filter(|_| depth == made)))
}

/// Returns the place of an entry, and the text of another one for that place.
pub(super) fn in_place(
    text: &str,
    path: EntryPath<'_>,
    name: &str,
    fields: &Fields,
) -> EditResult<(Range<usize>, String)> {
    let missing = || format!("has no entry `{}`", path.name);
    let root = root(text)?.ok_or_else(missing)?;
    let objects = chain(&root, path.map)?;
    let map = objects.get(path.map.len()).ok_or_else(missing)?;
    let entry = &map.properties[index_of(map, path.name).ok_or_else(missing)?];
    let lines = text[map.start()..entry.start()].contains('\n');
    let style = Style { newline: newline(text), unit: unit(text, &root), lines };
    let indent = own_indent(text, entry).unwrap_or_else(|| indent_of_line(text, entry.start()));
    Ok((entry.start()..entry.end(), property(&[], name, fields, &style, indent)))
}

/// How properties are written.
struct Style {
    newline: &'static str,
    /// The indentation of one level.
    unit: String,
    /// Whether each property has a line of its own.
    lines: bool,
}

/// The text of a property whose value is the entry, inside objects for the outer keys.
fn property(outer: &[&str], name: &str, fields: &Fields, style: &Style, indent: &str) -> String {
    let deeper = format!("{indent}{}", style.unit);
    match outer.split_first() {
        Some((first, rest)) => {
            let inner = property(rest, name, fields, style, &deeper);
            format!("{}: {}", quote(first), object(&[inner], style, indent))
        }
        None => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| field(name, value, style, &deeper)).collect();
            format!("{}: {}", quote(name), object(&fields, style, indent))
        }
    }
}

/// The text of a field of an entry.
fn field(name: &str, value: &FieldValue, style: &Style, indent: &str) -> String {
    format!("{}: {}", quote(name), field_value(value, style, indent))
}

fn field_value(value: &FieldValue, style: &Style, indent: &str) -> String {
    match value {
        FieldValue::Map(map) => {
            let pairs: Vec<String> =
                map.iter().map(|(name, value)| format!("{}: {}", quote(name), quote(value))).collect();
            object(&pairs, style, indent)
        }
        other => inline(other, quote, ": "),
    }
}

/// The text of an object in a line that is indented by `indent`.
fn object(properties: &[String], style: &Style, indent: &str) -> String {
    if !style.lines {
        return format!("{{{}}}", properties.join(", "));
    }
    let Style { newline, unit, .. } = style;
    let lines = properties.join(&format!(",{newline}{indent}{unit}"));
    format!("{{{newline}{indent}{unit}{lines}{newline}{indent}}}")
}

/// Inserts a property at the end of an object. `property` returns its text in a style and with an indentation.
fn insert(
    text: &str,
    root: &Object<'_>,
    object: &Object<'_>,
    property: impl Fn(&Style, &str) -> String,
) -> String {
    let closing = indent_of_line(text, object.start());
    let unit = unit(text, root);
    let Some(last) = object.properties.last() else {
        let lines = text[root.start()..root.end()].contains('\n') || object.start() == root.start();
        let style = Style { newline: newline(text), unit, lines };
        let range = inside(object);
        let before = text[range.clone()].trim_end();
        if !lines && before.is_empty() {
            return splice(text, &[(range, property(&style, closing))]);
        }
        let style = Style { lines: true, ..style };
        let indent = format!("{closing}{}", style.unit);
        let entry = property(&style, &indent);
        let end = style.newline;
        return splice(text, &[(range, format!("{before}{end}{indent}{entry}{end}{closing}"))]);
    };
    let comma = comma_after(text, last.end());
    let anchor = comma.map_or(last.end(), |at| at + 1);
    let place = end_of_comments(text, anchor);
    let lines = text[object.start()..last.start()].contains('\n') || text[anchor..place].contains("//");
    let style = Style { newline: newline(text), unit, lines };
    let indent = own_indent(text, last)
        .or_else(|| object.properties.first().and_then(|first| own_indent(text, first)))
        .map_or_else(|| format!("{closing}{}", style.unit), str::to_owned);
    let entry = property(&style, &indent);
    let between = if lines { format!("{}{indent}", style.newline) } else { " ".to_owned() };
    match comma {
        Some(_) => splice(text, &[(place..place, format!("{between}{entry},"))]),
        None => {
            splice(text, &[(anchor..anchor, ",".to_owned()), (place..place, format!("{between}{entry}"))])
        }
    }
}

/// Deletes a property. `before` is the text inside of the object before it had properties.
fn delete(text: &str, object: &Object<'_>, at: usize, before: Option<&str>) -> String {
    let property = &object.properties[at];
    let comma = comma_after(text, property.end());
    let end = end_of_comments(text, comma.map_or(property.end(), |at| at + 1));
    if at > 0 {
        let previous = object.properties[at - 1].end();
        let Some(separator) = comma_after(text, previous) else { return text.to_owned() };
        let start = end_of_comments(text, separator + 1);
        return match comma {
            Some(_) => splice(text, &[(start..end, String::new())]),
            None => splice(text, &[(separator..separator + 1, String::new()), (start..end, String::new())]),
        };
    }
    if object.properties.len() > 1 {
        let blank = text[end..].len() - text[end..].trim_start().len();
        return splice(text, &[(property.start()..end + blank, String::new())]);
    }
    let range = inside(object);
    let rest = [&text[range.start..property.start()], &text[end..range.end]];
    let is_blank = rest.iter().all(|text| text.trim().is_empty());
    match before {
        Some(before) if rest[0].trim() == before.trim() && rest[1].trim().is_empty() => {
            splice(text, &[(range, before.to_owned())])
        }
        _ if is_blank => splice(text, &[(range, String::new())]),
        _ => splice(text, &[(range.start + rest[0].trim_end().len()..end, String::new())]),
    }
}

/// Whether an object has one property and no comments.
fn is_alone(text: &str, object: &Object<'_>) -> bool {
    let range = inside(object);
    let [property] = object.properties.as_slice() else { return false };
    let after = text[property.end()..range.end].trim();
    text[range.start..property.start()].trim().is_empty() && (after.is_empty() || after == ",")
}

/// The range between the braces of an object.
fn inside(object: &Object<'_>) -> Range<usize> {
    object.start() + 1..object.end() - 1
}

/// The indentation of one level: that of the first property in the file which begins a line.
fn unit(text: &str, root: &Object<'_>) -> String {
    let outer = indent_of_line(text, root.start());
    let first = root.properties.first().and_then(|first| own_indent(text, first));
    let unit = first.and_then(|first| first.strip_prefix(outer)).filter(|unit| !unit.is_empty());
    unit.unwrap_or(DEFAULT_INDENT).to_owned()
}

/// The indentation of a property that begins a line.
fn own_indent<'a>(text: &'a str, property: &ObjectProp<'_>) -> Option<&'a str> {
    let before = &text[line_start(text, property.start())..property.start()];
    before.trim().is_empty().then_some(before)
}

/// The blanks at the beginning of the line that a position is in.
fn indent_of_line(text: &str, at: usize) -> &str {
    let line = &text[line_start(text, at)..at];
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

/// The position of the comma that follows a value, if one follows.
fn comma_after(text: &str, mut at: usize) -> Option<usize> {
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        match comment(text, at) {
            Some(end) => at = end,
            None => return text[at..].starts_with(',').then_some(at),
        }
    }
}

/// The end of the comments that follow a position in the same line.
fn end_of_comments(text: &str, at: usize) -> usize {
    let mut end = at;
    loop {
        let next = end + (text[end..].len() - text[end..].trim_start_matches([' ', '\t']).len());
        match comment(text, next) {
            Some(after) if !text[next..after].contains('\n') => end = after,
            _ => return end,
        }
    }
}

/// The end of the comment that begins at a position.
fn comment(text: &str, at: usize) -> Option<usize> {
    if text[at..].starts_with("//") {
        Some(line_end(text, at))
    } else if text[at..].starts_with("/*") {
        text[at + 2..].find("*/").map(|end| at + 2 + end + 2)
    } else {
        None
    }
}
