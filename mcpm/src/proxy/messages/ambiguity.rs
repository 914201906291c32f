//! Detects text that parsers could read differently, or that other parsers could take for a message.

use super::content::without_padding;
use crate::mcp::{
    error_code,
    fields::Fields,
    message::{Malformed, Message, each_element},
    outline::MESSAGE_FIELDS,
};

/// Rejects a message with a field whose name some parsers treat as the name of another field.
pub(in crate::proxy) fn check_unambiguous(message: &Message) -> Result<(), Malformed> {
    if !message.has_look_alike() {
        return Ok(());
    }
    // The scan of the message has checked that it is an object.
    let Some(fields) = std::str::from_utf8(message.bytes()).ok().and_then(Fields::read) else {
        return Ok(());
    };
    for name in MESSAGE_FIELDS {
        fields.get_unique(name).map_err(|ambiguous| Malformed {
            code: error_code::INVALID_REQUEST,
            reason: ambiguous.to_string(),
        })?;
    }
    Ok(())
}

/// Whether some client might take a text for a message, although the proxy could not parse it as one: the text begins
/// like JSON but is not valid JSON, or it has a `jsonrpc` field.
pub(super) fn could_be_message(text: &[u8]) -> bool {
    let text = without_padding(text);
    if !matches!(text.first(), Some(b'{' | b'[')) {
        return false;
    }
    let Ok(text) = std::str::from_utf8(text) else { return true };
    let says_so = |object: &str| {
        Fields::read(object).is_none_or(|fields| !matches!(fields.get_unique("jsonrpc"), Ok(None)))
    };
    if text.starts_with('{') {
        return says_so(text);
    }
    let mut is_said = false;
    let read = each_element(text, |one| {
        is_said = is_said || one.get().starts_with('{') && says_so(one.get());
        Ok(())
    });
    is_said || read.is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_with_a_jsonrpc_field_could_be_a_message() {
        for text in [
            r#"{"jsonrpc":"2.0","jsonrpc":"2.0","result":1}"#,
            r#"{"jsonRPC":"2.0","result":1}"#,
            r#"[1,{"\u006asonrpc":"2.0"}]"#,
            "{",
            "[{]",
            "{\"a\":NaN}",
            "{}\n{\"jsonrpc\":\"2.0\",\"result\":1}",
        ] {
            assert!(could_be_message(text.as_bytes()), "{text}");
        }
        assert!(could_be_message(b"\xff\xfe{\0\"\0"));
        assert!(could_be_message(b"{\"a\":\"\xff\"}"));
        for text in
            ["", "<html>", "7", "{}", r#"{"error":"invalid_token"}"#, "[1]", r#"[{"a":{"jsonrpc":1}}]"#]
        {
            assert!(!could_be_message(text.as_bytes()), "{text}");
        }
    }
}
