//! Finds the id of a message that is too long to be buffered, as its bytes arrive.

use crate::mcp::message::MAX_ID_BYTES;

/// Maximum length of a field name that is compared, including its quotes.
const MAX_FIELD_NAME_BYTES: usize = "\"method\"".len();

/// Scans the fields of the outermost object in any order: some servers write the id last.
#[derive(Debug, Default)]
pub(crate) struct IdScan {
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    /// The kind of the current text.
    part: Part,
    /// The current text; it is truncated once it is longer than any text that is compared.
    text: Vec<u8>,
    id: Option<String>,
    has_method: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Any text other than a field name or an id.
    #[default]
    Other,
    Name,
    Id,
}

impl IdScan {
    /// Scans the next bytes of the message.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            // A long message consists mostly of the content of strings.
            if self.in_string && self.part == Part::Other && !self.is_escaped {
                let Some(at) = memchr::memchr2(b'"', b'\\', bytes) else { return };
                self.string(bytes[at]);
                bytes = &bytes[at + 1..];
                continue;
            }
            if self.in_string {
                self.keep(byte);
                self.string(byte);
            } else {
                self.outside(byte);
            }
            bytes = rest;
        }
    }

    /// Returns the id as JSON, if there is one, and whether the message has a method.
    pub(crate) fn finish(self) -> (Option<String>, bool) {
        (self.id, self.has_method)
    }

    fn string(&mut self, byte: u8) {
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = true,
            b'"' => self.in_string = false,
            _ => {}
        }
    }

    fn outside(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' => {
                self.depth += 1;
                // Only objects have field names, and an id is never an object or an array.
                self.part = if self.depth == 1 && byte == b'{' { Part::Name } else { Part::Other };
                self.text.clear();
            }
            b'}' | b']' => {
                self.end_value();
                self.depth = self.depth.saturating_sub(1);
            }
            b',' if self.depth == 1 => {
                self.end_value();
                self.part = Part::Name;
            }
            b':' if self.depth == 1 => {
                self.part = if self.text == b"\"id\"" { Part::Id } else { Part::Other };
                self.has_method |= self.text == b"\"method\"";
                self.text.clear();
            }
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            byte if byte.is_ascii_whitespace() => {}
            byte => self.keep(byte),
        }
    }

    fn end_value(&mut self) {
        if self.depth == 1 && self.part == Part::Id && self.text.len() <= MAX_ID_BYTES {
            let text = String::from_utf8(std::mem::take(&mut self.text)).ok();
            self.id = text.filter(|id| id.starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit()));
        }
        self.part = Part::Other;
        self.text.clear();
    }

    fn keep(&mut self, byte: u8) {
        let most = match self.part {
            Part::Name => MAX_FIELD_NAME_BYTES,
            Part::Id => MAX_ID_BYTES,
            Part::Other => return,
        };
        if self.text.len() <= most {
            self.text.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_wherever_it_stands() {
        for (text, id, has_method) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"id":8}}"#, Some("7"), false),
            (
                r#"{"result":{"a":["x","\"id\":1",{"id":9}]},"jsonrpc":"2.0","id" : "a\"b" }"#,
                Some(r#""a\"b""#),
                false,
            ),
            (r#"{"id":-3,"method":"sampling/createMessage","params":{"x":"\\"}}"#, Some("-3"), true),
            (r#"{"params":{"method":"x","id":3},"x":"id"}"#, None, false),
            (r#"{"id":{"id":4},"result":1}"#, None, false),
            (r#"{"id":null,"error":{}}"#, None, false),
            (r#"{"a long name that is not kept":1,"id":5}"#, Some("5"), false),
            (r#"[{"id":6}]"#, None, false),
            (r#"{"id":1"#, None, false),
        ] {
            for size in 1..text.len() {
                let mut scan = IdScan::default();
                text.as_bytes().chunks(size).for_each(|chunk| scan.feed(chunk));
                assert_eq!(scan.finish(), (id.map(str::to_owned), has_method), "{text} in chunks of {size}");
            }
        }
        let mut scan = IdScan::default();
        scan.feed(format!("{{\"id\":\"{}\"}}", "x".repeat(MAX_ID_BYTES)).as_bytes());
        assert_eq!(scan.finish(), (None, false));
    }
}
