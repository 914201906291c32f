//! Finds positions in a text, and changes parts of it.

use std::ops::Range;

use serde_json::Value;

use super::model::FieldValue;

/// The line ending of a text: that of its first line.
pub(super) fn newline(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// The start of the line that a position is in.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// The end of the line that a position is in, without its line ending.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
    if text[at..end].ends_with('\r') { end - 1 } else { end }
}

/// The start of the line after a position.
pub(super) fn next_line(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}

/// A string in quotes, in a form that is the same in JSON, TOML and YAML.
pub(super) fn quote(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// A value on one line. JSON, TOML and YAML differ only in how keys are written and what follows a key.
pub(super) fn inline(value: &FieldValue, key: impl Fn(&str) -> String, assign: &str) -> String {
    match value {
        FieldValue::Text(text) => quote(text),
        FieldValue::Flag(flag) => flag.to_string(),
        FieldValue::List(list) => {
            format!("[{}]", list.iter().map(|one| quote(one)).collect::<Vec<_>>().join(", "))
        }
        FieldValue::Map(map) => {
            let pairs = map.iter().map(|(name, value)| format!("{}{assign}{}", key(name), quote(value)));
            format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Replaces ranges of a text, which are in order and do not overlap.
pub(super) fn splice(text: &str, edits: &[(Range<usize>, String)]) -> String {
    let mut out = String::with_capacity(text.len() + edits.iter().map(|(_, new)| new.len()).sum::<usize>());
    let mut at = 0;
    for (range, new) in edits {
        out += &text[at..range.start];
        out += new;
        at = range.end;
    }
    out + &text[at..]
}
