//! Escapes control and invisible characters in text from users and servers, which messages quote.

/// Quotes and backslashes, which are shown as they are.
const SHOWN: [char; 3] = ['\'', '"', '\\'];

/// A text that may contain control characters, or characters that are not visible.
pub(crate) trait Printable {
    /// Returns the text with these characters escaped, so that a message stays on one line.
    fn printable(&self) -> String;
}

impl Printable for str {
    fn printable(&self) -> String {
        let escaped = |part: &str| {
            let plain = part.strip_suffix(SHOWN).unwrap_or(part);
            format!("{}{}", plain.escape_debug(), &part[plain.len()..])
        };
        self.split_inclusive(SHOWN).map(escaped).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_characters_that_are_not_visible_are_escaped() {
        for (text, expected) in [
            ("", ""),
            (r#"it's "a\b" "#, r#"it's "a\b" "#),
            ("''\"\\", "''\"\\"),
            ("Grüße, 世界, e\u{301}", "Grüße, 世界, e\u{301}"),
            ("a\nb'\r\u{1b}[2J\0", r"a\nb'\r\u{1b}[2J\0"),
            ("\u{202e}a\"\u{200b}\u{a0}", r#"\u{202e}a"\u{200b}\u{a0}"#),
        ] {
            assert_eq!(text.printable(), expected);
        }
    }
}
