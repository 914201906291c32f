//! One JSON-RPC message as bytes, with the spans of the few fields that a proxy reads.
//!
//! A message is scanned once and never serialized again: changes (an id, a progress token) are spliced into the bytes,
//! so unknown fields, number formats and the order of keys are preserved. The scan rejects a message that contains a
//! JSON-RPC field twice, so that a second `method` cannot bypass a check.

use std::{borrow::Cow, fmt, ops::Range, sync::LazyLock};

use bytes::{BufMut, Bytes, BytesMut};
use bytestring::ByteString;
use memchr::memmem::Finder;
use serde::{
    Deserialize, Deserializer as _,
    de::{IgnoredAny, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{
    error_code,
    fields::{Fields, KnownFields},
    outline::Outline,
};

/// Maximum length of the id of a request, and of a progress token, in bytes; both are kept until the response.
pub(crate) const MAX_ID_BYTES: usize = 1024;
/// The error for a longer id.
pub(crate) const ID_TOO_LONG: &str = "`id` is longer than 1024 bytes";
/// Maximum number of messages in one array.
pub(crate) const MAX_BATCH: usize = 1000;
/// Maximum length of a parser's error text in messages, because it may quote the input.
const MAX_REASON_BYTES: usize = 300;

/// A range of a message's bytes.
pub(crate) type Span = Range<usize>;

/// The kind of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageKind {
    /// A message with a method and an id.
    Request,
    /// A message with a method and no id.
    Notification,
    /// A message with an id, and a result or an error.
    Response,
}

/// One JSON-RPC message with the spans of its fields.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    text: ByteString,
    kind: MessageKind,
    method: Span,
    /// The unescaped method, if it is written with escapes.
    unescaped_method: Option<Box<str>>,
    id: Span,
    params: Span,
    result: Span,
    error: Span,
    has_look_alike: bool,
    params_fields: KnownFields,
    result_fields: KnownFields,
}

/// Why bytes are not a valid message: the JSON-RPC code and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) code: i64,
    pub(crate) reason: String,
}

impl Malformed {
    /// Creates the error for a text that is not what `what` describes.
    fn of(what: &str, error: &serde_json::Error) -> Self {
        use serde_json::error::Category;
        let code = match error.classify() {
            Category::Data => error_code::INVALID_REQUEST,
            Category::Io | Category::Syntax | Category::Eof => error_code::PARSE_ERROR,
        };
        Self { code, reason: format!("not {what}: {}", shortened(error)) }
    }
}

impl Message {
    /// Scans one JSON-RPC message.
    pub(crate) fn parse(bytes: Bytes) -> Result<Self, Malformed> {
        // UTF-8 is checked once for the whole message: the scan skips strings that are not needed, so it would forward
        // invalid bytes to a server, and fields need no check of their own.
        let text = ByteString::try_from(bytes).map_err(|error| Malformed {
            code: error_code::PARSE_ERROR,
            reason: format!("not UTF-8: {error}"),
        })?;
        let malformed = |error| Malformed::of("a JSON-RPC message", &error);
        // The parser would accept an array as the values of the fields in their order.
        if text.trim_ascii_start().starts_with('[') {
            serde_json::from_str::<IgnoredAny>(&text).map_err(malformed)?;
            let reason = "not a JSON-RPC message: it is an array".to_owned();
            return Err(Malformed { code: error_code::INVALID_REQUEST, reason });
        }
        let Outline { fields: [jsonrpc, id, method_value, params, result, error], has_look_alike } =
            Outline::read(&text).map_err(malformed)?;
        let invalid =
            |reason: &str| Malformed { code: error_code::INVALID_REQUEST, reason: reason.to_owned() };
        if jsonrpc != Some("\"2.0\"") {
            return Err(invalid("`jsonrpc` is not \"2.0\""));
        }
        let method = match method_value {
            Some(method) => string(method).ok_or_else(|| invalid("`method` is not a string"))?,
            None => Cow::default(),
        };
        if id.is_some_and(|id| id.len() > MAX_ID_BYTES) {
            return Err(invalid(ID_TOO_LONG));
        }
        let is_id = |id: &str| id.starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit());
        let kind = match (method_value, id, result.or(error)) {
            (Some(_), None, None) => MessageKind::Notification,
            (Some(_), Some(id), None) if is_id(id) => MessageKind::Request,
            (Some(_), Some(_), None) => return Err(invalid("`id` is neither a string nor a number")),
            (None, Some(_), Some(_)) => MessageKind::Response,
            // An error about a message whose id could not be read has no id, or the id `null`.
            (None, None, Some(_)) if error.is_some() => MessageKind::Response,
            _ => return Err(invalid("neither a request, a notification nor a response")),
        };
        let span = |value: Option<&str>| value.map_or(0..0, |value| span_of(&text, value));
        let (id, params, result, error) = (span(id), span(params), span(result), span(error));
        let (params_fields, result_fields) = (KnownFields::new(), KnownFields::new());
        let (method, unescaped_method) = match method {
            Cow::Borrowed(method) => (span_of(&text, method), None),
            Cow::Owned(method) => (0..0, Some(method.into())),
        };
        Ok(Self {
            text,
            kind,
            method,
            unescaped_method,
            id,
            params,
            result,
            error,
            has_look_alike,
            params_fields,
            result_fields,
        })
    }

    pub(crate) fn kind(&self) -> MessageKind {
        self.kind
    }

    /// Whether the message has a field whose name some parsers treat as one of
    /// [`MESSAGE_FIELDS`](super::outline::MESSAGE_FIELDS).
    pub(crate) fn has_look_alike(&self) -> bool {
        self.has_look_alike
    }

    /// Copies the message to its own memory.
    pub(crate) fn into_owned(self) -> Self {
        Self { text: ByteString::from(&*self.text), ..self }
    }

    /// Returns the method; empty in a response.
    pub(crate) fn method(&self) -> &str {
        self.unescaped_method.as_deref().unwrap_or_else(|| self.part(&self.method))
    }

    /// Returns the whole message.
    pub(crate) fn bytes(&self) -> &Bytes {
        self.text.as_bytes()
    }

    /// Returns the id as JSON; empty if there is none.
    ///
    /// The id is copied, because it outlives the message and would retain the buffer of the message.
    pub(crate) fn id(&self) -> Bytes {
        Bytes::copy_from_slice(self.id_text())
    }

    /// Returns the id as JSON; empty if there is none.
    pub(crate) fn id_text(&self) -> &[u8] {
        self.part(&self.id).as_bytes()
    }

    /// Returns the span of the id.
    pub(crate) fn id_span(&self) -> Span {
        self.id.clone()
    }

    /// Returns the id as a number, if it can be one that this proxy assigned.
    pub(crate) fn numeric_id(&self) -> Option<u64> {
        self.part(&self.id).parse().ok()
    }

    /// Returns the params as JSON; empty if there are none.
    pub(crate) fn params(&self) -> &str {
        self.part(&self.params)
    }

    /// Returns the fields of the params; `None` if the params are not an object.
    pub(crate) fn params_fields(&self) -> Option<Fields<'_>> {
        Fields::read_once(self.params(), &self.params_fields)
    }

    /// Returns the fields of the result; `None` if the result is not an object.
    pub(crate) fn result_fields(&self) -> Option<Fields<'_>> {
        Fields::read_once(self.result(), &self.result_fields)
    }

    /// Whether the params may have a `_meta`, which few have. This is much cheaper than parsing them.
    pub(crate) fn may_have_meta(&self) -> bool {
        static META: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("_meta\""));
        let params = self.params().as_bytes();
        // With escape sequences, the name can also be written in other ways.
        META.find(params).is_some() || memchr::memchr(b'\\', params).is_some()
    }

    /// Returns the result as JSON; empty if there is none.
    pub(crate) fn result(&self) -> &str {
        self.part(&self.result)
    }

    /// Whether the result contains these bytes. This is much cheaper than parsing the result.
    pub(crate) fn result_contains(&self, bytes: &Finder<'_>) -> bool {
        bytes.find(self.result().as_bytes()).is_some()
    }

    /// Whether the result is an object.
    pub(crate) fn has_result_object(&self) -> bool {
        self.result().starts_with('{')
    }

    /// Returns the error as JSON; empty if there is none.
    pub(crate) fn error(&self) -> &str {
        self.part(&self.error)
    }

    /// Returns the code of the `error` object, if this is an error.
    pub(crate) fn error_code(&self) -> Option<i64> {
        #[derive(Deserialize)]
        struct Code {
            code: i64,
        }
        if self.error.is_empty() {
            return None;
        }
        serde_json::from_str::<Code>(self.error()).ok().map(|error| error.code)
    }

    /// Returns the span of a value that was parsed from this message.
    pub(crate) fn span_of(&self, value: &RawValue) -> Span {
        self.span_of_text(value.get())
    }

    /// Returns the span of a part of this message.
    pub(crate) fn span_of_text(&self, part: &str) -> Span {
        span_of(&self.text, part)
    }

    fn part(&self, span: &Span) -> &str {
        // Spans begin and end at JSON tokens, so this does not fail.
        self.text.get(span.clone()).unwrap_or_default()
    }
}

/// Passes the elements of an array one after the other to `take`, as JSON, until it returns an error. A vector would
/// need memory for each element, although elements can be as small as two bytes.
pub(crate) fn each_element<'a>(
    array: &'a str,
    take: impl FnMut(&'a RawValue) -> Result<(), String>,
) -> serde_json::Result<()> {
    struct Each<F>(F);

    impl<'de, F: FnMut(&'de RawValue) -> Result<(), String>> Visitor<'de> for Each<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut array: A) -> Result<(), A::Error> {
            while let Some(element) = array.next_element()? {
                (self.0)(element).map_err(serde::de::Error::custom)?;
            }
            Ok(())
        }
    }

    let mut reader = serde_json::Deserializer::from_str(array);
    reader.deserialize_seq(Each(take))?;
    reader.end()
}

/// Splits an array into its messages, each as JSON; an error if there are too many.
pub(crate) fn batch(text: &str) -> Result<Vec<&RawValue>, Malformed> {
    let mut messages = Vec::new();
    let read = each_element(text, |message| {
        if messages.len() == MAX_BATCH {
            return Err(format!("it has more than {MAX_BATCH} messages"));
        }
        messages.push(message);
        Ok(())
    });
    read.map_err(|error| Malformed::of("an array of JSON-RPC messages", &error)).map(|()| messages)
}

/// Returns the truncated text of an error, because it may quote the whole input.
pub(crate) fn shortened(error: &serde_json::Error) -> String {
    let mut text = error.to_string();
    if text.len() > MAX_REASON_BYTES {
        text.truncate(text.floor_char_boundary(MAX_REASON_BYTES));
        text.push('…');
    }
    text
}

/// Whether two ids, as JSON, are equal: a string can be written in several ways.
pub(crate) fn same_id(one: &[u8], other: &[u8]) -> bool {
    let text = |id: &[u8]| serde_json::from_slice::<String>(id).ok();
    one == other || one.starts_with(b"\"") && text(one).is_some_and(|one| Some(one) == text(other))
}

/// Parses a JSON string.
fn string(value: &str) -> Option<Cow<'_, str>> {
    match value.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(text) if !text.contains('\\') => Some(text.into()),
        _ => serde_json::from_str::<String>(value).ok().map(Cow::from),
    }
}

fn span_of(text: &str, part: &str) -> Span {
    let start = (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
    if start > text.len() || part.len() > text.len() - start {
        return 0..0;
    }
    start..start + part.len()
}

/// Replaces spans of a message; `edits` must not overlap.
pub(crate) fn splice(bytes: &[u8], edits: &mut [(Span, &[u8])]) -> BytesMut {
    edits.sort_unstable_by_key(|(span, _)| span.start);
    let grown: usize = edits.iter().map(|(_, text)| text.len()).sum();
    let mut out = BytesMut::with_capacity(bytes.len() + grown + 1);
    let mut done = 0;
    for (span, text) in edits.iter() {
        out.put_slice(&bytes[done..span.start]);
        out.put_slice(text);
        done = span.end;
    }
    out.put_slice(&bytes[done..]);
    out
}

/// Creates a JSON-RPC response from an id and a result, both JSON.
pub(crate) fn result_response(id: &[u8], result: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(result.len() + id.len() + 40);
    out.put_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.put_slice(id);
    out.put_slice(b",\"result\":");
    out.put_slice(result);
    out.put_slice(b"}");
    out.freeze()
}

/// Puts a message on one line: replaces line breaks, which JSON allows only between tokens, by spaces.
pub(crate) fn replace_line_breaks(bytes: &mut BytesMut) {
    let mut from = 0;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', &bytes[from..]) {
        bytes[from + at] = b' ';
        from += at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Message, Malformed> {
        Message::parse(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn outline_keeps_places_and_types() {
        let message =
            parse(r#" {"id" : "1", "jsonrpc":"2.0","x":[1.0],"method":"tools\/call","params":{"a":1}}"#)
                .expect("a request");
        assert_eq!((message.kind(), message.method()), (MessageKind::Request, "tools/call"));
        assert_eq!((&message.id()[..], message.params()), (&b"\"1\""[..], r#"{"a":1}"#));
        let spliced = splice(message.bytes(), &mut [(message.id_span(), b"7")]);
        assert_eq!(
            &spliced[..],
            br#" {"id" : 7, "jsonrpc":"2.0","x":[1.0],"method":"tools\/call","params":{"a":1}}"#
        );
    }

    #[test]
    fn malformed_messages_are_rejected() {
        for (text, code) in [
            ("", error_code::PARSE_ERROR),
            ("{", error_code::PARSE_ERROR),
            ("\u{1}", error_code::PARSE_ERROR),
            ("[]", error_code::INVALID_REQUEST),
            ("[", error_code::PARSE_ERROR),
            (r#" ["2.0",1,"tools/call",{}]"#, error_code::INVALID_REQUEST),
            ("7", error_code::INVALID_REQUEST),
            (r#"{"jsonrpc":"1.0","method":"a"}"#, error_code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0"}"#, error_code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","method":1}"#, error_code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, error_code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":{},"method":"a"}"#, error_code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","result":1}"#, error_code::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","method":"a","method":"b"}"#, error_code::INVALID_REQUEST),
        ] {
            assert_eq!(parse(text).expect_err(text).code, code, "{text}");
        }
    }

    #[test]
    fn an_array_is_read_up_to_a_number_of_messages() {
        let array = |count: usize| format!(" [{}]", vec!["{}"; count].join(","));
        for count in [0, 1, MAX_BATCH] {
            assert_eq!(batch(&array(count)).expect("an array").len(), count);
        }
        let many = batch(&array(MAX_BATCH + 1)).expect_err("too many");
        assert_eq!(many.code, error_code::INVALID_REQUEST);
        assert!(many.reason.contains("more than 1000 messages"), "{}", many.reason);
        // After the first message beyond the limit, nothing is parsed, so the error is that of the limit.
        assert_eq!(batch(&format!("[{}", "0,".repeat(MAX_BATCH + 1))).expect_err("cut").code, many.code);
        for (text, code) in [
            ("[1] 2", error_code::PARSE_ERROR),
            ("[1", error_code::PARSE_ERROR),
            ("{}", error_code::INVALID_REQUEST),
        ] {
            assert_eq!(batch(text).expect_err(text).code, code, "{text}");
        }
    }

    #[test]
    fn a_reason_quotes_no_more_than_a_part_of_the_input() {
        let reason = parse(&format!("\"{}\"", "ä".repeat(1 << 20))).expect_err("a string").reason;
        assert!(reason.contains("ää") && reason.len() < 400, "{}", reason.len());
    }

    #[test]
    fn a_null_result_is_a_response_and_an_error_may_lack_an_id() {
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","id":1,"result":null}"#).expect("null result").kind(),
            MessageKind::Response
        );
        let error = parse(r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}"#).expect("an error");
        assert_eq!((error.kind(), error.error_code()), (MessageKind::Response, Some(-32700)));
    }

    #[test]
    fn ids_are_compared_by_value() {
        for (one, other, same) in [
            (r#""a""#, r#""\u0061""#, true),
            (r#""\/""#, r#""/""#, true),
            ("1", "1", true),
            ("1", r#""1""#, false),
            (r#""1""#, "1", false),
            (r#""\ud800""#, r#""\ud801""#, false),
            (r#""\ud800""#, r#""\ud800""#, true),
        ] {
            assert_eq!(same_id(one.as_bytes(), other.as_bytes()), same, "{one} {other}");
        }
    }

    #[test]
    fn line_breaks_between_tokens_become_spaces() {
        let mut bytes = BytesMut::from(&b"{\r\n\"a\":\n1}"[..]);
        replace_line_breaks(&mut bytes);
        assert_eq!(&bytes[..], b"{  \"a\": 1}");
    }
}
