//! Edits YAML: entries of a block mapping below one key of the root. A new entry is inserted directly below the
//! line of that key.

use std::{fmt::Write as _, ops::Range};

use granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle};
use serde_json::{Map, Value};

use super::{
    model::{EditResult, EntryPath, FieldValue, Fields, Origin},
    text::{inline, line_start, newline, next_line, quote, splice},
};

/// Maximum depth of nested values.
const MAX_DEPTH: usize = 128;
const INDENT: usize = 2;

/// A value and its range in the text, which is empty for a value that is left out.
struct Node {
    range: Range<usize>,
    content: Content,
}

enum Content {
    Scalar(Value),
    Alias(usize),
    List(Vec<Node>),
    Mapping { is_block: bool, pairs: Vec<(Node, Node)> },
}

impl Node {
    /// Returns the value of a key, and the key.
    fn get(&self, key: &str) -> Option<(&Self, &Self)> {
        let Content::Mapping { pairs, .. } = &self.content else { return None };
        let is_key =
            |node: &Self| matches!(&node.content, Content::Scalar(Value::String(text)) if text == key);
        pairs.iter().find(|(name, _)| is_key(name)).map(|(name, value)| (name, value))
    }

    fn is_empty(&self) -> bool {
        match &self.content {
            Content::Scalar(value) => value.is_null(),
            Content::Mapping { is_block: false, pairs } => pairs.is_empty(),
            _ => false,
        }
    }

    fn plain(&self) -> EditResult<Value> {
        Ok(match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::Alias(id) => Value::from(format!("*{id}")),
            Content::List(items) => items.iter().map(Self::plain).collect::<EditResult<_>>()?,
            Content::Mapping { pairs, .. } => {
                let mut fields = Map::new();
                for (key, value) in pairs {
                    let key = match key.plain()? {
                        Value::String(text) => text,
                        other => other.to_string(),
                    };
                    if fields.insert(key.clone(), value.plain()?).is_some() {
                        return Err(format!("has the key `{key}` twice in one mapping"));
                    }
                }
                Value::Object(fields)
            }
        })
    }
}

/// Reads nodes from the events of the parser.
struct Reader<'a> {
    events: Parser<'a, granit_parser::StrInput<'a>>,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> EditResult<Option<(Event<'a>, Range<usize>)>> {
        let invalid = |error: granit_parser::ScanError| {
            format!("is not valid YAML: {} in line {}", error.info(), error.marker().line())
        };
        let range = |span: Span| span.byte_range().ok_or("cannot be read as YAML".to_owned());
        match self.events.next() {
            None => Ok(None),
            Some(event) => event.map_err(invalid).and_then(|(event, span)| Ok(Some((event, range(span)?)))),
        }
    }

    /// Reads the node that an event begins; `None` for an event that ends a collection.
    fn node(&mut self, event: Event<'a>, range: Range<usize>, depth: usize) -> EditResult<Option<Node>> {
        if depth > MAX_DEPTH {
            return Err("has values that are nested too deeply".to_owned());
        }
        let content = match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => Content::Scalar(match text.as_ref() {
                "" | "~" | "null" | "Null" | "NULL" => Value::Null,
                "true" => Value::from(true),
                "false" => Value::from(false),
                text => Value::from(text),
            }),
            Event::Scalar(text, ..) => Content::Scalar(Value::from(text.as_ref())),
            Event::Alias(id) => Content::Alias(id),
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                let mut end = range.end;
                while let Some(item) = self.child(depth, &mut end)? {
                    items.push(item);
                }
                return Ok(Some(Node { range: range.start..end, content: Content::List(items) }));
            }
            Event::MappingStart(style, ..) => {
                let is_block = style == StructureStyle::Block;
                let mut pairs = Vec::new();
                let mut end = range.end;
                while let Some(key) = self.child(depth, &mut end)? {
                    let Some(value) = self.child(depth, &mut end)? else { break };
                    pairs.push((key, value));
                }
                let content = Content::Mapping { is_block, pairs };
                return Ok(Some(Node { range: range.start..end, content }));
            }
            _ => return Ok(None),
        };
        Ok(Some(Node { range, content }))
    }

    /// Reads the next part of a collection; `end` becomes the end of the collection's text so far.
    fn child(&mut self, depth: usize, end: &mut usize) -> EditResult<Option<Node>> {
        let Some((event, range)) = self.next()? else { return Ok(None) };
        let at = range.clone();
        let node = self.node(event, range, depth + 1)?;
        match &node {
            Some(node) if !node.range.is_empty() => *end = node.range.end.max(*end),
            // A block collection ends where the next token begins; a collection in `{}` or `[]` ends with its bracket.
            None if at.len() == 1 => *end = at.end,
            _ => {}
        }
        Ok(node)
    }
}

/// The root of the only document; `None` for a text without one.
fn parse(text: &str) -> EditResult<Option<Node>> {
    let mut reader = Reader { events: Parser::new_from_str(text) };
    let mut root = None;
    while let Some((event, range)) = reader.next()? {
        if matches!(
            event,
            Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) | Event::DocumentEnd
        ) {
            continue;
        }
        if root.is_some() {
            return Err("has several YAML documents".to_owned());
        }
        root = reader.node(event, range, 0)?;
    }
    Ok(root.filter(|root: &Node| !root.is_empty()))
}

pub(super) fn value(text: &str) -> EditResult<Value> {
    parse(text)?.as_ref().map_or(Ok(Value::Null), Node::plain)
}

/// The key of the root that entries are below. All formats in YAML have one.
fn map_key(path: EntryPath<'_>) -> EditResult<&'static str> {
    match path.map {
        [key] => Ok(key),
        _ => Err("has entries in a place that cannot be edited in YAML".to_owned()),
    }
}

pub(super) fn add(text: &str, path: EntryPath<'_>, fields: &Fields) -> EditResult<(String, Origin)> {
    let key = map_key(path)?;
    let newline = newline(text);
    let root = parse(text)?;
    let at_column = |at: usize| at - line_start(text, at);
    let outer = match root.as_ref().map(|root| &root.content) {
        None => 0,
        Some(Content::Mapping { is_block: true, pairs }) => {
            pairs.first().map_or(0, |(first, _)| at_column(first.range.start))
        }
        Some(_) => return Err("is not a YAML mapping in block style".to_owned()),
    };
    let Some((name, value)) = root.as_ref().and_then(|root| root.get(key)) else {
        let block = lines(path.name, fields, outer + INDENT, newline);
        let block = format!("{:outer$}{key}:{newline}{block}", "");
        let new = if text.is_empty() || text.ends_with('\n') {
            format!("{text}{block}{newline}")
        } else {
            format!("{text}{newline}{block}")
        };
        return Ok((new, Origin::Object { depth: 0, inside: None }));
    };
    let mut edits = Vec::new();
    let (indent, inside) = match &value.content {
        Content::Mapping { is_block: true, pairs } => {
            (pairs.first().map_or(outer + INDENT, |(first, _)| at_column(first.range.start)), None)
        }
        _ if value.is_empty() => {
            let colon = text[name.range.end..].find(':').map_or(name.range.end, |at| name.range.end + at + 1);
            let end = value.range.end.max(colon);
            let range = if value.range.is_empty() { colon..colon } else { colon..end };
            let inside = text[range.clone()].to_owned();
            if inside.contains('\n') {
                return Err(format!("has the value of `{key}` on a separate line, which mcpm cannot edit"));
            }
            edits.push((range, String::new()));
            (outer + INDENT, Some(inside))
        }
        _ => return Err(format!("has a value at `{key}` that is not a mapping in block style")),
    };
    let block = lines(path.name, fields, indent, newline);
    let place = next_line(text, name.range.end);
    if text[..place].ends_with('\n') {
        edits.push((place..place, format!("{block}{newline}")));
    } else {
        edits.push((place..place, format!("{newline}{block}")));
    }
    Ok((splice(text, &edits), Origin::Object { depth: 1, inside }))
}

/// The lines of an entry, without the last line ending.
fn lines(name: &str, fields: &Fields, indent: usize, newline: &str) -> String {
    let mut out = format!("{:indent$}{}:", "", key(name));
    let inner = indent + INDENT;
    for (name, value) in fields {
        let _ = write!(out, "{newline}{:inner$}{name}:", "");
        let _ = match value {
            FieldValue::Text(text) => write!(out, " {}", scalar(text)),
            FieldValue::Flag(_) | FieldValue::List(_) => write!(out, " {}", inline(value, key, ": ")),
            FieldValue::Map(map) => map.iter().try_for_each(|(name, value)| {
                write!(out, "{newline}{:1$}{2}: {3}", "", inner + INDENT, key(name), quote(value))
            }),
        };
    }
    out
}

/// A key, in quotes if it needs them.
fn key(name: &str) -> String {
    scalar(name)
}

/// A string, in quotes unless it is a word that YAML can only read as a string.
fn scalar(text: &str) -> String {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let means_more = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if is_word && !means_more.contains(&text.to_ascii_lowercase().as_str()) {
        text.to_owned()
    } else {
        quote(text)
    }
}

/// Returns the text with a field of an entry, which is replaced or added.
pub(super) fn set_field(
    text: &str,
    path: EntryPath<'_>,
    name: &str,
    value: &FieldValue,
) -> EditResult<String> {
    let root = parse(text)?;
    let entry = root.as_ref().and_then(|root| root.get(map_key(path).ok()?)?.1.get(path.name));
    let Some((header, Node { content: Content::Mapping { is_block: true, pairs }, .. })) = entry else {
        return Err(format!("has no entry `{}` in block style", path.name));
    };
    let found = entry.and_then(|(_, entry)| entry.get(name)).map(|(_, value)| value.range.clone());
    let new = inline(value, key, ": ");
    if let Some(range) = found {
        let new = if range.is_empty() { format!(" {new}") } else { new };
        return Ok(splice(text, &[(range, new)]));
    }
    let first = pairs.first().map_or(0, |(first, _)| first.range.start);
    let indent = first - line_start(text, first);
    let place = next_line(text, header.range.end);
    let line = format!("{:indent$}{}: {new}{}", "", key(name), newline(text));
    Ok(splice(text, &[(place..place, line)]))
}

/// Returns the place of an entry, and the text of another one for that place.
pub(super) fn in_place(
    text: &str,
    path: EntryPath<'_>,
    name: &str,
    fields: &Fields,
) -> EditResult<(Range<usize>, String)> {
    let root = parse(text)?;
    let map = root.as_ref().and_then(|root| root.get(map_key(path).ok()?)).map(|(_, map)| map);
    let entry = map.and_then(|map| {
        map.get(path.name).filter(|_| matches!(&map.content, Content::Mapping { is_block: true, .. }))
    });
    let Some((key, value)) = entry else {
        return Err(format!("has no entry `{}` in block style", path.name));
    };
    let start = line_start(text, key.range.start);
    let end = line_after(text, value.range.end.max(key.range.end));
    let end = start + text[start..end].trim_end_matches(['\n', '\r']).len();
    Ok((start..end, lines(name, fields, key.range.start - start, newline(text))))
}

pub(super) fn remove(text: &str, path: EntryPath<'_>, origin: Option<&Origin>) -> EditResult<String> {
    let key = map_key(path)?;
    let root = parse(text)?;
    let Some((map_name, map)) = root.as_ref().and_then(|root| root.get(key)) else {
        return Ok(text.to_owned());
    };
    let (Content::Mapping { is_block: true, pairs }, Some((name, entry))) =
        (&map.content, map.get(path.name))
    else {
        return Err(format!("has a value at `{key}` that is not a mapping in block style"));
    };
    let end = line_after(text, entry.range.end.max(name.range.end));
    if pairs.len() > 1 {
        return Ok(cut(text, line_start(text, name.range.start)..end, None));
    }
    let between = &text[next_line(text, map_name.range.end)..line_start(text, name.range.start)];
    match origin {
        Some(Origin::Object { depth: 0, .. } | Origin::Blank(_)) if between.trim().is_empty() => {
            Ok(cut(text, line_start(text, map_name.range.start)..end, None))
        }
        _ => {
            let inside = match origin {
                Some(Origin::Object { inside: Some(inside), .. }) => inside.as_str(),
                _ => " {}",
            };
            let colon = text[map_name.range.end..].find(':').map_or(end, |at| map_name.range.end + at + 1);
            Ok(cut(text, line_start(text, name.range.start)..end, Some((colon, inside))))
        }
    }
}

/// The start of the line after a value, whose end may be the start of that line.
fn line_after(text: &str, end: usize) -> usize {
    next_line(text, text[..end].trim_end().len())
}

/// Deletes whole lines. If the last line had no ending, the new last line has none either.
fn cut(text: &str, mut lines: Range<usize>, inserted: Option<(usize, &str)>) -> String {
    if lines.end == text.len() && !text.ends_with('\n') {
        lines.start = text[..lines.start].strip_suffix(newline(text)).map_or(lines.start, str::len);
    }
    let insert = inserted.map(|(at, new)| (at..at, new.to_owned()));
    splice(text, &insert.into_iter().chain([(lines, String::new())]).collect::<Vec<_>>())
}
