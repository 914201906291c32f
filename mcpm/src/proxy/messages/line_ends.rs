//! Escapes line terminators that only some parsers of event streams recognize, or removes the lines that contain them.
//!
//! A line of an event stream ends with a carriage return, a line feed or both (WHATWG HTML, "Server-sent events"). Some
//! parsers also split at every line terminator of Unicode: they would read a part of a comment or of a string as a line
//! of its own. So in strict mode, such characters are not forwarded.

use bytes::{BufMut, Bytes, BytesMut};

use super::sse_body::{lines, value};

/// Whether a text contains such a line terminator: VT, FF, U+001C to U+001E, U+0085, U+2028 or U+2029.
pub(super) fn has_unicode_line_break(text: &[u8]) -> bool {
    find_unicode_line_break(text).is_some()
}

/// The position and the length of the first such line terminator.
fn find_unicode_line_break(text: &[u8]) -> Option<(usize, usize)> {
    text.iter().enumerate().find_map(|(at, byte)| {
        let length = match (byte, text.get(at + 1), text.get(at + 2)) {
            (0x0b | 0x0c | 0x1c..=0x1e, ..) => 1,
            (0xc2, Some(0x85), _) => 2,
            (0xe2, Some(0x80), Some(0xa8 | 0xa9)) => 3,
            _ => return None,
        };
        Some((at, length))
    })
}

/// Replaces such line terminators in a JSON text by `\u` escapes. In valid JSON they occur only in strings, where
/// escapes are allowed.
pub(super) fn escape_unicode_line_breaks(text: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some((at, length)) = find_unicode_line_break(rest) {
        out.put_slice(&rest[..at]);
        let code: u32 = match rest[at..at + length] {
            [one] => one.into(),
            [_, two] => two.into(),
            [_, _, three] => 0x2000 + u32::from(three & 0x3f),
            _ => 0,
        };
        out.put_slice(format!("\\u{code:04x}").as_bytes());
        rest = &rest[at + length..];
    }
    out.put_slice(rest);
    out.freeze()
}

/// Removes the lines of an event that contain such a line terminator, except for its `data` lines.
pub(super) fn without_unicode_line_breaks(block: Bytes) -> Bytes {
    let goes = |line: &&[u8]| !has_unicode_line_break(line) || value(line, b"data").is_some();
    if lines(&block).all(|line| goes(&line)) {
        block
    } else {
        lines(&block).filter(goes).collect::<Vec<_>>().concat().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaping_line_breaks_keeps_the_string() {
        let text = "{\"a\":\"\u{85}\u{2028}x\u{2029}\\\\\u{2028}\u{2027}\u{a0}\"}";
        let other = escape_unicode_line_breaks(text.as_bytes());
        assert!(has_unicode_line_break(text.as_bytes()) && !has_unicode_line_break(&other));
        assert_eq!(
            std::str::from_utf8(&other),
            Ok("{\"a\":\"\\u0085\\u2028x\\u2029\\\\\\u2028\u{2027}\u{a0}\"}")
        );
        let parsed = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).expect("JSON");
        assert_eq!(parsed(&other), parsed(text.as_bytes()));
    }

    #[test]
    fn only_data_lines_keep_unicode_line_breaks() {
        let block = Bytes::from("id: 1\n: \u{b}x\ndata: \u{2028}\ndata\u{c}: x\nevent: \u{1d}\n\n");
        assert_eq!(without_unicode_line_breaks(block), "id: 1\ndata: \u{2028}\n\n");
    }
}
