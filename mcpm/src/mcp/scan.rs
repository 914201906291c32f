//! Finds the fields of a JSON object in one pass over its bytes.
//!
//! Every message is scanned this way, several times faster than with serde_json. The scanner accepts only texts that
//! serde_json accepts, with the same fields; a property test compares both. If the scanner does not accept a text,
//! callers parse it with serde_json: the text is malformed, or has a rare form, such as names with escapes.

use std::ops::Range;

/// Maximum nesting depth of a value; each level takes one bit of a word.
const MAX_DEPTH: u32 = 64;

/// Calls `take` with the spans of each name, without its quotes, and of its value, in the order of the text. Returns
/// `None` if the text is not accepted, or if `take` returns `None`.
pub(super) fn each_field(
    text: &str,
    mut take: impl FnMut(Range<usize>, Range<usize>) -> Option<()>,
) -> Option<()> {
    let mut scanner = Scanner { text: text.as_bytes(), at: 0 };
    scanner.skip_whitespace();
    scanner.expect(b'{')?;
    scanner.skip_whitespace();
    if scanner.expect(b'}').is_none() {
        loop {
            let name = scanner.at + 1;
            scanner.string_without_escapes()?;
            let name = name..scanner.at - 1;
            scanner.colon()?;
            let value = scanner.at;
            scanner.value()?;
            take(name, value..scanner.at)?;
            scanner.skip_whitespace();
            if scanner.expect(b',').is_none() {
                break scanner.expect(b'}')?;
            }
            scanner.skip_whitespace();
        }
    }
    scanner.skip_whitespace();
    (scanner.at == text.len()).then_some(())
}

/// A position in a JSON text (RFC 8259). Each method parses one part of the text, and returns `None` if the text has
/// another form.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there.then_some(())
    }

    fn skip_whitespace(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    /// Parses the colon between a name and a value.
    fn colon(&mut self) -> Option<()> {
        self.skip_whitespace();
        self.expect(b':')?;
        self.skip_whitespace();
        Some(())
    }

    /// Parses one value, without recursion.
    fn value(&mut self) -> Option<()> {
        // For each array and object around the position, one bit that tells whether it is an object.
        let (mut objects, mut depth) = (0_u64, 0);
        loop {
            let opening = self.peek()?;
            match opening {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    self.at += 1;
                    self.skip_whitespace();
                    let is_object = opening == b'{';
                    if self.expect(if is_object { b'}' } else { b']' }).is_none() {
                        if depth == MAX_DEPTH {
                            return None;
                        }
                        (objects, depth) = (objects << 1 | u64::from(is_object), depth + 1);
                        if is_object {
                            self.name()?;
                        }
                        continue;
                    }
                }
                b't' => self.literal(b"true")?,
                b'f' => self.literal(b"false")?,
                b'n' => self.literal(b"null")?,
                _ => self.number()?,
            }
            loop {
                if depth == 0 {
                    return Some(());
                }
                self.skip_whitespace();
                let is_object = objects & 1 == 1;
                match self.next()? {
                    b',' => {
                        self.skip_whitespace();
                        if is_object {
                            self.name()?;
                        }
                        break;
                    }
                    b'}' if is_object => (objects, depth) = (objects >> 1, depth - 1),
                    b']' if !is_object => (objects, depth) = (objects >> 1, depth - 1),
                    _ => return None,
                }
            }
        }
    }

    /// Parses a name and the colon after it.
    fn name(&mut self) -> Option<()> {
        self.string()?;
        self.colon()
    }

    fn literal(&mut self, literal: &[u8]) -> Option<()> {
        let is_there = self.text.get(self.at..)?.starts_with(literal);
        self.at += literal.len();
        is_there.then_some(())
    }

    fn number(&mut self) -> Option<()> {
        let _ = self.expect(b'-');
        match self.next()? {
            b'0' => {}
            b'1'..=b'9' => {
                // Further digits are optional.
                let _ = self.digits();
            }
            _ => return None,
        }
        if self.expect(b'.').is_some() {
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    fn string_without_escapes(&mut self) -> Option<()> {
        (!self.string()?).then_some(())
    }

    /// Parses a string. Returns whether it has escapes.
    fn string(&mut self) -> Option<bool> {
        self.expect(b'"')?;
        let mut has_escapes = false;
        loop {
            self.skip_plain_bytes();
            match self.next()? {
                b'"' => return Some(has_escapes),
                b'\\' => {
                    has_escapes = true;
                    match self.next()? {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                        b'u' => {
                            let digits = self.text.get(self.at..self.at + 4)?;
                            self.at += digits.iter().all(u8::is_ascii_hexdigit).then_some(4)?;
                        }
                        _ => return None,
                    }
                }
                // Control characters are only allowed as escapes.
                _ => return None,
            }
        }
    }

    /// Advances to the next quote, backslash or control character, eight bytes at a time.
    fn skip_plain_bytes(&mut self) {
        let ones = u64::MAX / 255;
        while let Some(bytes) = self.text.get(self.at..).and_then(<[u8]>::first_chunk) {
            let word = u64::from_le_bytes(*bytes);
            // Sets the highest bit of each byte that is less than `limit`. Bytes after the first such byte may also be
            // marked wrongly, but only the first one is used.
            let below = |word: u64, limit: u64| word.wrapping_sub(ones * limit) & !word & (ones << 7);
            let equal = |byte: u8| below(word ^ (ones * u64::from(byte)), 1);
            let found = below(word, 0x20) | equal(b'"') | equal(b'\\');
            if found != 0 {
                self.at += found.trailing_zeros() as usize / 8;
                return;
            }
            self.at += bytes.len();
        }
        while self.peek().is_some_and(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    fn scanned(text: &str) -> Option<Vec<(&str, &str)>> {
        let mut fields = Vec::new();
        each_field(text, |name, value| {
            fields.push((text.get(name)?, text.get(value)?));
            Some(())
        })?;
        Some(fields)
    }

    /// Asserts that serde_json also accepts each accepted text, with the same fields.
    fn compare(text: &str) {
        let Some(scanned) = scanned(text) else { return };
        let read: BTreeMap<String, &RawValue> = serde_json::from_str(text).expect(text);
        // Of several fields with one name, serde_json keeps the last.
        let scanned: BTreeMap<String, &str> =
            scanned.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let read: BTreeMap<String, &str> =
            read.into_iter().map(|(name, value)| (name, value.get())).collect();
        assert_eq!(scanned, read, "{text}");
    }

    #[test]
    fn usual_objects_are_accepted() {
        for (text, expected) in [
            ("{}", &[][..]),
            (" { } \n", &[]),
            (
                r#"{"a":1,"b" : "x\"y" ,"ü":[{},[],{"c":null}]}"#,
                &[("a", "1"), ("b", r#""x\"y""#), ("ü", r#"[{},[],{"c":null}]"#)],
            ),
            (r#"{"a":-0.5e+7,"a":true}"#, &[("a", "-0.5e+7"), ("a", "true")]),
        ] {
            assert_eq!(scanned(text).as_deref(), Some(expected), "{text}");
            compare(text);
        }
        let deepest = format!(r#"{{"a":{}{}}}"#, "[".repeat(65), "]".repeat(65));
        assert!(scanned(&deepest).is_some());
        assert!(scanned(&deepest.replace("[]", "[[]]")).is_none());
    }

    #[test]
    fn other_texts_are_not_accepted() {
        for text in [
            "",
            "[]",
            "{",
            "{}}",
            "{,}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a":01}"#,
            r#"{"a":+1}"#,
            r#"{"a":1.}"#,
            r#"{"a":1e}"#,
            r#"{"a":-}"#,
            r#"{"a":tru}"#,
            r#"{"a":[1,]}"#,
            r#"{"a":[1}}"#,
            r#"{"a":{"b":1]}"#,
            r#"{"a":{"b"}}"#,
            r#"{"a":"\x"}"#,
            r#"{"a":"\u12g4"}"#,
            r#"{"a":"\u12"#,
            r#"{"a":"x"#,
            "{\"a\":\"\n\"}",
            "{\"a\u{0}\":1}",
            r#"{"\u0061":1}"#,
            r#"{'a':1}"#,
            r#"{"a":1 "b":2}"#,
            r#"{"a":1}x"#,
        ] {
            assert_eq!(scanned(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_accepted_is_what_serde_json_reads(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "{", "}", "[", "]", ",", ":", "\"", "\\", "\\\"", "\\u00e9", "\\n", " ", "\n", "\t", "a", "bcdefghij", "ü",
                    "\u{1}", "\u{7f}", "0", "12", "-", ".", "e", "E+", "true", "false", "null", "\"a\":", "\"b\":1", "[]", "{}",
                ]),
                0..12,
            ),
        ) {
            let inner = parts.concat();
            for text in [inner.clone(), format!("{{{inner}}}"), format!("{{\"a\":{inner}}}"), format!("{{\"a\":\"{inner}\"}}")] {
                compare(&text);
            }
        }

        #[test]
        fn a_changed_message_is_read_as_serde_json_reads_it(at in 0_usize..90, with in "\\PC{0,2}|[\\x00-\\x20\"\\\\{}\\[\\],:0-9eE.+-]{0,2}") {
            let text = r#"{"jsonrpc":"2.0","id":-1.5e3,"params":{"a":[1,{"b":"\u00e9\\"}],"c":null},"x":[true,false]}"#;
            compare(&format!("{}{with}{}", &text[..at], &text[at..]));
            compare(&format!("{}{with}{}", &text[..at], &text[at + 1..]));
        }
    }
}
