//! Truncates attribute values.

/// Maximum length of an attribute value in bytes.
const MAX_ATTRIBUTE_BYTES: usize = 128;

/// Truncates a text to the maximum length of an attribute.
pub(crate) fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_ATTRIBUTE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
