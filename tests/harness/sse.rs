//! Parses server-sent events as a browser does.

use serde_json::Value;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The `event` field.
    pub name: Option<String>,
    /// The `id` field.
    pub id: Option<String>,
    /// The `data` fields, joined with line feeds.
    pub data: String,
    /// The `retry` field.
    pub retry: Option<String>,
}

impl Event {
    /// Returns whether the event consists of comments only.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the data as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.data).unwrap_or_else(|_| panic!("`{}` is not JSON", self.data))
    }
}

/// The received part of a stream.
#[derive(Debug, Default)]
pub(super) struct Events {
    buffer: Vec<u8>,
    /// The length of the part that is known to contain no end of an event.
    seen: usize,
}

impl Events {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Removes and returns the first complete event.
    pub(super) fn take(&mut self) -> Option<Event> {
        let ends = [&b"\n\n"[..], b"\r\n\r\n"];
        let unseen = &self.buffer[self.seen..];
        let found = ends.iter().filter_map(|end| {
            unseen.windows(end.len()).position(|window| window == *end).map(|at| self.seen + at + end.len())
        });
        let Some(end) = found.min() else {
            self.seen = self.buffer.len().saturating_sub(3);
            return None;
        };
        self.seen = 0;
        let block: Vec<u8> = self.buffer.drain(..end).collect();
        Some(read(&String::from_utf8(block).unwrap()))
    }
}

fn read(block: &str) -> Event {
    let mut event = Event::default();
    let mut data = Vec::new();
    for line in block.lines().filter(|line| !line.starts_with(':')) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
        match field {
            "event" => event.name = Some(value),
            "id" => event.id = Some(value),
            "retry" => event.retry = Some(value),
            "data" => data.push(value),
            _ => {}
        }
    }
    event.data = data.join("\n");
    event
}
