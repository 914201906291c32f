//! Finds the id of a request in a body that is invalid or incomplete.

use std::{borrow::Cow, fmt};

use bytes::Bytes;
use serde::{
    Deserializer as _,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::message::MAX_ID_BYTES;

/// Returns the id in a body or its beginning, as JSON; empty if there is none, or it is too long.
pub(crate) fn scan_request_id(begun: &[u8]) -> Bytes {
    let mut found = Bytes::new();
    // The body is expected to be invalid or incomplete.
    let _ = serde_json::Deserializer::from_slice(begun)
        .deserialize_map(IdVisitor { prefix: begun, found: &mut found });
    found
}

struct IdVisitor<'a> {
    prefix: &'a [u8],
    found: &'a mut Bytes,
}

impl<'de> Visitor<'de> for IdVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = false;
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            if key != "id" {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let id: &RawValue = map.next_value()?;
            let id = id.get();
            self.found.clear();
            // If there are two ids, it is unknown which one the client means.
            let one = !std::mem::replace(&mut seen, true);
            // A number at the very end may be incomplete.
            let whole =
                id.ends_with('"') || id.as_bytes().as_ptr_range().end != self.prefix.as_ptr_range().end;
            if one
                && whole
                && id.len() <= MAX_ID_BYTES
                && id.starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit())
            {
                *self.found = Bytes::copy_from_slice(id.as_bytes());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_as_far_as_it_can_be_read() {
        for (begun, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"a","params":{"#, "7"),
            (r#"{"id":"a\"b","#, r#""a\"b""#),
            (r#"{"params":{"id":1},"x":[{"id":2}],"id":-3.5"#, ""),
            (r#"{"params":{"id":1},"x":[{"id":2}],"id":-3.5,"#, "-3.5"),
            (r#"{"jsonrpc":"1.0","id":9}"#, "9"),
            (r#"{"params":"xxxxxxxxx"#, ""),
            (r#"{"id":null}"#, ""),
            (r#"{"id":1,"id":2}"#, ""),
            (r#"{"id":1,"x":"#, "1"),
            (r#"{"id":{"id":1}}"#, ""),
            (r#"{"id":1"#, ""),
            ("[1]", ""),
            ("", ""),
            ("\u{1}", ""),
        ] {
            assert_eq!(scan_request_id(begun.as_bytes()), id.as_bytes(), "{begun}");
        }
    }

    #[test]
    fn an_id_that_is_too_long_is_none() {
        let body = |count: usize| format!(r#"{{"id":"{}","#, "x".repeat(count));
        assert_eq!(scan_request_id(body(MAX_ID_BYTES - 2).as_bytes()).len(), MAX_ID_BYTES);
        assert_eq!(scan_request_id(body(MAX_ID_BYTES - 1).as_bytes()), "");
    }
}
