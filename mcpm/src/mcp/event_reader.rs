//! Reads server-sent events from chunks of a stream (WHATWG HTML, "Interpreting an event stream").

use std::{sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};

use crate::memory::{Account, Reservation};

/// Maximum size of an event in bytes; an event contains one message of a server.
const MAX_EVENT_BYTES: usize = 32 << 20;
/// Maximum length of the id of an event in bytes; the id is sent back in a header.
const MAX_EVENT_ID_BYTES: usize = 4 << 10;

/// An event that has data, or an id.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// The type of the event; empty for `message`.
    pub(crate) name: String,
    /// The data of the event.
    pub(crate) data: Bytes,
}

/// Why a stream cannot be read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventError {
    /// An event is larger than [`MAX_EVENT_BYTES`].
    TooLarge,
    /// The memory budget has no room for an event.
    NoRoom,
}

/// Splits a stream into events. An incomplete event is charged to an account.
#[derive(Debug)]
pub(crate) struct EventReader {
    buffer: BytesMut,
    scan: EventScan,
    reservation: Reservation,
    /// Whether bytes were read already; a byte order mark is only allowed before the first.
    has_begun: bool,
    last_id: Option<String>,
    retry: Option<Duration>,
}

impl EventReader {
    /// Creates a reader for a new stream.
    pub(crate) fn new(account: Arc<Account>) -> Self {
        Self {
            buffer: BytesMut::new(),
            scan: EventScan::default(),
            reservation: Reservation::of(account),
            has_begun: false,
            last_id: None,
            retry: None,
        }
    }

    /// Returns the last id that the stream set, with which it can be resumed.
    pub(crate) fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Returns the reconnection time that the stream set.
    pub(crate) fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Appends a chunk of the stream.
    ///
    /// # Errors
    /// The incomplete event is too large, or the memory budget has no room for it.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> Result<(), EventError> {
        self.buffer.extend_from_slice(chunk);
        if self.buffer.len() > MAX_EVENT_BYTES + chunk.len() {
            return Err(EventError::TooLarge);
        }
        if self.reservation.resize(self.buffer.len()) { Ok(()) } else { Err(EventError::NoRoom) }
    }

    /// Takes the next complete event; comments are skipped.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        loop {
            let end = event_end(&self.buffer, &mut self.scan)?;
            let mut block = self.buffer.split_to(end).freeze();
            if !std::mem::replace(&mut self.has_begun, true) && block.starts_with(b"\xef\xbb\xbf") {
                block = block.slice(3..);
            }
            let event = self.parse(&block);
            self.reservation.shrink(self.buffer.len());
            if let Some(event) = event {
                return Some(event);
            }
        }
    }

    fn parse(&mut self, block: &Bytes) -> Option<Event> {
        let (mut name, mut data, mut has_id) = (String::new(), Vec::new(), false);
        for line in block.split(|byte| matches!(byte, b'\n' | b'\r')) {
            let (field, value) = match memchr::memchr(b':', line) {
                Some(at) => (&line[..at], &line[at + 1..]),
                None => (line, &line[line.len()..]),
            };
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match field {
                b"data" => data.push(value),
                b"event" => name = String::from_utf8_lossy(value).into_owned(),
                b"id" if value.len() <= MAX_EVENT_ID_BYTES && !value.contains(&0) => {
                    self.last_id = std::str::from_utf8(value).ok().map(str::to_owned);
                    has_id = true;
                }
                b"retry" => {
                    let millis = std::str::from_utf8(value).ok().and_then(|value| value.parse().ok());
                    self.retry = millis.map(Duration::from_millis).or(self.retry);
                }
                _ => {}
            }
        }
        let data = match *data {
            [] if !has_id => return None,
            [] => Bytes::new(),
            // A slice, so that a large message is not copied.
            [line] => block.slice_ref(line),
            _ => data.join(&b'\n').into(),
        };
        Some(Event { name, data: self.reservation.reserve_until_dropped(data) })
    }
}

/// How far an incomplete event was searched for its end.
#[derive(Debug, Default)]
pub(crate) struct EventScan {
    /// Start of the incomplete line.
    line: usize,
    /// Number of bytes that are not searched again when more arrive.
    scanned: usize,
}

/// The end of the first event, including its blank line.
pub(crate) fn event_end(bytes: &[u8], scan: &mut EventScan) -> Option<usize> {
    let (begin, line) = (scan.scanned, &mut scan.line);
    for at in memchr::memchr2_iter(b'\n', b'\r', &bytes[begin..]).map(|at| begin + at) {
        let is_second_half = bytes[at] == b'\n' && at > 0 && bytes[at - 1] == b'\r';
        if at == *line && !is_second_half {
            let has_second_half = bytes[at] == b'\r' && bytes.get(at + 1) == Some(&b'\n');
            *scan = EventScan::default();
            return Some(at + 1 + usize::from(has_second_half));
        }
        *line = at + 1;
    }
    scan.scanned = bytes.len();
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_ends_with_its_blank_line() {
        for (text, end) in [
            ("data: a\n\ndata: b\n\n", Some(9)),
            ("data: a\r\n\r\nx", Some(11)),
            ("data: a\r\rx", Some(9)),
            ("\nx", Some(1)),
            ("data: a\r\n", None),
            ("data: a", None),
            ("", None),
        ] {
            assert_eq!(event_end(text.as_bytes(), &mut EventScan::default()), end, "{text:?}");
            // The bytes arrive one at a time.
            let mut scan = EventScan::default();
            let mut ends =
                (1..=text.len()).filter_map(|length| event_end(&text.as_bytes()[..length], &mut scan));
            let expected = end.map(|end| end - usize::from(text.as_bytes()[..end].ends_with(b"\r\n")));
            assert_eq!(ends.next(), expected, "{text:?}");
        }
    }

    #[test]
    fn no_byte_of_a_long_line_is_searched_twice() {
        let mut scan = EventScan::default();
        assert_eq!(event_end(b"data: aaaaaa", &mut scan), None);
        // A second search of the first bytes would find this end.
        assert_eq!(event_end(b"data: \n\naaaabbbb", &mut scan), None);
        assert_eq!(event_end(b"data: aaaaaabbbb\n\n", &mut scan), Some(18));
    }

    #[test]
    fn events_are_read_however_the_bytes_arrive() {
        let text = "\u{feff}id: 1\nretry: 20\ndata: \n\n: comment\n\nevent: message\ndata:{\ndata: }\nid: 2\n\n\
                    other: x\n\ndata\n\nid\n\n";
        let event = |name: &str, data: &'static str| Event { name: name.to_owned(), data: data.into() };
        let expected = [event("", ""), event("message", "{\n}"), event("", ""), event("", "")];
        for size in 1..text.len() {
            let mut reader = EventReader::new(Account::new());
            let mut events = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                reader.push(chunk).expect("room");
                events.extend(std::iter::from_fn(|| reader.next_event()));
            }
            assert_eq!(events, expected, "in chunks of {size}");
            assert_eq!((reader.last_id(), reader.retry()), (Some(""), Some(Duration::from_millis(20))));
        }
    }

    #[test]
    fn an_event_that_is_too_large_is_an_error() {
        let mut reader = EventReader::new(Account::new());
        let chunk = vec![b'x'; 1 << 20];
        let failed = std::iter::repeat_with(|| reader.push(&chunk)).take(64).find_map(Result::err);
        assert!(failed.is_some());
    }
}
