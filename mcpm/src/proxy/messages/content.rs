//! Determines the kind of content of a response from `Content-Type`. In strict mode, the first bytes decide if the
//! header is missing or declares neither JSON nor an event stream.
//!
//! Clients interpret the header in different ways: some search for a word anywhere in its value, and if the header
//! occurs twice, some use the first value and some the last. A header that clients could interpret differently is
//! [`Ambiguous`](ContentKind::Ambiguous).

use http::{HeaderMap, header};

use crate::{
    memory::LazyAccount,
    proxy::body::{Body, IncompleteBody},
};

const EVENT_STREAM: &[u8] = b"text/event-stream";
/// What a line of an event stream can begin with.
const FIELDS: [&[u8]; 5] = [b":", b"data", b"event", b"id", b"retry"];
/// Maximum number of bytes of a response in which the first character that is not padding is searched.
const MAX_SNIFF_BYTES: usize = 4096;

/// The kind of content of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentKind {
    Json,
    Events,
    /// According to its headers, it contains nothing that a client takes for messages.
    Other,
    /// Clients may interpret the type differently; contains the most likely kind.
    Ambiguous(Likely),
}

/// The most likely kind of a response whose type is ambiguous.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likely {
    Json,
    Events,
}

/// Whether all clients decode a body as UTF-8: there is at most one `Content-Type`, and it names no other `charset`.
pub(in crate::proxy) fn is_utf8(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(header::CONTENT_TYPE).iter();
    let Some(line) = lines.next() else { return true };
    if line == "application/json" {
        return lines.next().is_none();
    }
    let Ok(line) = line.to_str() else { return false };
    let other = |parameter: &str| {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().trim_matches('"'));
        // `charset*` is an alternative form of the parameter (RFC 8187).
        name.starts_with("charset") && !(name == "charset" && value.eq_ignore_ascii_case("utf-8"))
    };
    // Some parsers treat a comma as the beginning of another header line.
    lines.next().is_none() && !line.contains(',') && !line.split(';').skip(1).any(other)
}

/// The kind of content that the headers of a response declare.
pub(super) fn declared(headers: &HeaderMap) -> ContentKind {
    let mut all = headers.get_all(header::CONTENT_TYPE).iter();
    if let (Some(line), None) = (all.next(), all.next()) {
        // Nearly all servers send one of these two values.
        match line.as_bytes() {
            b"application/json" => return ContentKind::Json,
            EVENT_STREAM => return ContentKind::Events,
            _ => {}
        }
    }
    let lines =
        || headers.get_all(header::CONTENT_TYPE).iter().map(|line| line.as_bytes().to_ascii_lowercase());
    let is_json = |text: &[u8]| memchr::memmem::find(text, b"json").is_some();
    let is_events = |text: &[u8]| memchr::memmem::find(text, EVENT_STREAM).is_some();
    let (json, events) = (lines().any(|line| is_json(&line)), lines().any(|line| is_events(&line)));
    let clear = is_utf8(headers);
    let first = lines().next().unwrap_or_default();
    let kind = first.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    match (json, events) {
        (false, false) => ContentKind::Other,
        // `application/json`, `text/json`, `application/json-rpc`, `application/problem+json`
        (true, false) if clear && is_json(kind) => ContentKind::Json,
        (false, true) if clear && kind == EVENT_STREAM => ContentKind::Events,
        (_, true) => ContentKind::Ambiguous(Likely::Events),
        (true, false) => ContentKind::Ambiguous(Likely::Json),
    }
}

/// Determines the kind of a response by its first bytes, if its headers declare none.
///
/// # Errors
/// The response was interrupted.
pub(super) async fn sniff(
    mut body: Body,
    account: &LazyAccount,
) -> Result<(ContentKind, Body), IncompleteBody> {
    let mut looked = 0;
    for most in [1, 64, MAX_SNIFF_BYTES] {
        let wanted = most.max(looked + 1);
        let (begun, rest) = body.peek(wanted, || account.get()).await?;
        (body, looked) = (rest, begun.len());
        let ended = looked < wanted;
        if let Some(content) = classify_prefix(&begun, ended) {
            return Ok((content, body));
        }
    }
    // So much padding is suspicious: it may be an attempt to evade inspection.
    Ok((ContentKind::Ambiguous(Likely::Json), body))
}

/// The kind of content that a text begins like; `None` if more bytes are needed to decide.
fn classify_prefix(text: &[u8], ended: bool) -> Option<ContentKind> {
    let text = without_padding(text);
    match text.first() {
        None if ended => Some(ContentKind::Other),
        None => None,
        Some(b'{' | b'[') => Some(ContentKind::Json),
        Some(_) if FIELDS.iter().any(|field| text.starts_with(field)) => Some(ContentKind::Events),
        Some(_) if !ended && FIELDS.iter().any(|field| field.starts_with(text)) => None,
        Some(_) => Some(ContentKind::Other),
    }
}

/// Removes the padding at the beginning of a text that some parsers skip: white space and control characters of any
/// kind, byte order marks, and the zero bytes of UTF-16 and UTF-32.
pub(super) fn without_padding(mut text: &[u8]) -> &[u8] {
    while let Some(byte) = text.first() {
        let length = match byte {
            0x21..=0x7e => break,
            0..=0x7f => 1,
            _ => multibyte_padding_length(text),
        };
        if length == 0 {
            break;
        }
        text = &text[length..];
    }
    text
}

fn is_padding(letter: char) -> bool {
    let is_mark = matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}');
    is_mark || letter.is_whitespace() || letter.is_control()
}

/// The length of the first character of a text if some parsers skip it as padding; otherwise 0.
fn multibyte_padding_length(text: &[u8]) -> usize {
    let begun = &text[..text.len().min(4)];
    let valid = begun.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    match valid.chars().next() {
        Some(letter) if is_padding(letter) => letter.len_utf8(),
        Some(_) => 0,
        // A part of a UTF-8 byte order mark, or a byte of a UTF-16 or UTF-32 one.
        None => usize::from(matches!(begun.first(), Some(0xef | 0xbb | 0xbf | 0xfe | 0xff))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_clients_read_in_different_ways_is_ambiguous() {
        let (json, events) = (ContentKind::Ambiguous(Likely::Json), ContentKind::Ambiguous(Likely::Events));
        for (lines, content) in [
            (&[][..], ContentKind::Other),
            (&["text/html"], ContentKind::Other),
            (&["text/html; charset=iso-8859-1"], ContentKind::Other),
            (&["application/json"], ContentKind::Json),
            (&["Application/Problem+JSON; charset=\"UTF-8\""], ContentKind::Json),
            (&["text/event-stream"], ContentKind::Events),
            (&["Text/Event-Stream;charset=utf-8"], ContentKind::Events),
            (&["application/json; charset=utf-16"], json),
            (&["text/event-stream; charset=utf-16le"], events),
            (&["text/plain; x=application/json"], json),
            (&["text/plain; x=text/event-stream"], events),
            (&["text/event-stream; x=application/json"], events),
            (&["application/json, text/event-stream"], events),
            (&["text/event-stream", "application/json"], events),
            (&["application/json", "text/event-stream"], events),
            (&["text/html", "application/json"], json),
            (&["application/json", "text/html"], json),
            (&["xtext/event-stream"], events),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::CONTENT_TYPE, line.parse().expect("a value"));
            }
            assert_eq!(declared(&headers), content, "{lines:?}");
        }
    }

    #[test]
    fn a_text_is_known_by_how_it_begins() {
        for (text, ended, content) in [
            (&b""[..], true, Some(ContentKind::Other)),
            (b"", false, None),
            (b" \r\n", false, None),
            (b" \r\n{", false, Some(ContentKind::Json)),
            (b"\xef\xbb\xbf[", false, Some(ContentKind::Json)),
            (b"\xff\xfe{\0", false, Some(ContentKind::Json)),
            (b"\0{", false, Some(ContentKind::Json)),
            (b"\x0b\x1c\x7f{", false, Some(ContentKind::Json)),
            ("\u{85}\u{a0}\u{2028}\u{3000}\u{200b}[".as_bytes(), false, Some(ContentKind::Json)),
            ("\u{e9}{".as_bytes(), false, Some(ContentKind::Other)),
            (b"<html>", false, Some(ContentKind::Other)),
            (b"dat", false, None),
            (b"dat", true, Some(ContentKind::Other)),
            (b"data: {}", false, Some(ContentKind::Events)),
            (b": hello", false, Some(ContentKind::Events)),
            (b"Accepted", false, Some(ContentKind::Other)),
        ] {
            assert_eq!(classify_prefix(text, ended), content, "{:?}", String::from_utf8_lossy(text));
        }
    }
}
