//! Writes server-sent events (WHATWG HTML, "Server-sent events").

use bytes::{BufMut, Bytes, BytesMut};

/// A comment that keeps an idle connection open.
pub(crate) const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Creates an event with one JSON message, which must be on one line.
pub(crate) fn message(json: &[u8], id: Option<(u64, u64)>) -> Bytes {
    let mut out = BytesMut::with_capacity(json.len() + 48);
    if let Some((stream, place)) = id {
        out.put_slice(format!("id: {stream}.{place}\n").as_bytes());
    }
    out.put_slice(b"event: message\ndata: ");
    // JSON allows a carriage return between tokens, but in an event it would end the line.
    let start = out.len();
    out.put_slice(json);
    let mut from = start;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', &out[from..]) {
        out[from + at] = b' ';
        from += at + 1;
    }
    out.put_slice(b"\n\n");
    out.freeze()
}

/// Creates the empty event that tells a client how to resume before the first message (MCP 2025-11-25, transports,
/// "Sending Messages to the Server").
pub(crate) fn priming_event(stream: u64, place: u64) -> Bytes {
    format!("id: {stream}.{place}\nretry: 1000\ndata: \n\n").into()
}

/// Creates the first event of the deprecated SSE transport, with the URL to post messages to.
pub(crate) fn endpoint(uri: &str) -> Bytes {
    format!("event: endpoint\ndata: {uri}\n\n").into()
}

/// Parses an event id that [`message`] has written.
pub(crate) fn parse_id(id: &str) -> Option<(u64, u64)> {
    let (stream, place) = id.split_once('.')?;
    Some((stream.parse().ok()?, place.parse().ok()?))
}
