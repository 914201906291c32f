//! Filters an event stream through the hooks (WHATWG HTML, "Server-sent events").
//!
//! Only the current event is buffered. If a hook changes its message, the `data` lines are rewritten, and all other
//! lines stay unchanged. If a hook drops its message, the `data` lines are removed, and other fields are only forwarded
//! if one of them is `id` or `retry`. In strict mode, lines with unusual line terminators are removed or escaped.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::{BufMut, Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame};

use super::{
    NO_ROOM,
    content::without_padding,
    hook_chain::{HookChain, HookResult},
    line_ends::{escape_unicode_line_breaks, has_unicode_line_break, without_unicode_line_breaks},
};
use crate::{
    explain::Reason,
    mcp::{message::replace_line_breaks, sse},
    memory::{Reservation, warn_no_room},
    proxy::{
        body::{Body, BodyError},
        denial::Denial,
    },
};

/// An event stream whose messages pass through the hooks.
pub(super) struct HookedSseBody {
    body: Body,
    passage: HookChain,
    max_event_bytes: usize,
    /// The received part of the current event.
    buffer: BytesMut,
    booking: Reservation,
    /// Where the current line begins in the buffer.
    line_start: usize,
    /// The position in the buffer up to which the end of the current line was searched.
    searched: usize,
    /// Whether the last line ended with a carriage return, so that a following line feed belongs to the same line end.
    after_carriage_return: bool,
    /// Whether the current event consists only of comments so far.
    only_comments: bool,
    /// Whether the current event is too large, and is forwarded without inspection.
    is_oversized: bool,
    ended: bool,
}

impl HookedSseBody {
    pub(super) fn new(body: Body, passage: HookChain, largest: usize) -> Self {
        Self {
            body,
            max_event_bytes: largest,
            buffer: BytesMut::new(),
            booking: Reservation::of(passage.account.get()),
            passage,
            line_start: 0,
            searched: 0,
            after_carriage_return: false,
            only_comments: true,
            is_oversized: false,
            ended: false,
        }
    }

    /// Processes a chunk of the stream and returns the bytes that can be forwarded.
    fn push(&mut self, piece: &[u8]) -> Bytes {
        let mut out = BytesMut::new();
        self.buffer.put_slice(piece);
        while let Some(end) = self.line_end() {
            let line = &self.buffer[self.line_start..end];
            let blank = line.iter().all(|byte| matches!(byte, b'\n' | b'\r'));
            // Comments before an event are forwarded immediately, because they are signs of life for the client.
            let done = blank || (self.only_comments && line.starts_with(b":")) || self.is_oversized;
            self.only_comments &= line.starts_with(b":");
            (self.line_start, self.searched) = (end, end);
            if done {
                let block = self.split_to(end);
                if self.is_oversized || !blank {
                    if !self.passage.strict || !has_unicode_line_break(&block) {
                        out.put_slice(&block);
                    }
                } else {
                    self.event(block, &mut out);
                }
                self.is_oversized &= !blank;
                self.only_comments = !self.is_oversized;
            }
        }
        if (self.buffer.len() > self.max_event_bytes || !self.booking.resize(self.buffer.len()))
            && !self.ended
        {
            self.too_large(&mut out);
        }
        self.booking.reserve_until_dropped(out.freeze())
    }

    /// The end of the current line, including its line end.
    fn line_end(&mut self) -> Option<usize> {
        if self.after_carriage_return && self.buffer.get(self.line_start) == Some(&b'\n') {
            // The line feed of a line end whose carriage return was at the end of the previous chunk.
            self.line_start += 1;
            self.searched = self.searched.max(self.line_start);
            self.after_carriage_return = false;
        }
        if self.line_start < self.buffer.len() {
            self.after_carriage_return = false;
        }
        let Some(found) = memchr::memchr2(b'\n', b'\r', &self.buffer[self.searched..]) else {
            self.searched = self.buffer.len();
            return None;
        };
        let at = self.searched + found;
        let is_return = self.buffer[at] == b'\r';
        if is_return && self.buffer.get(at + 1) == Some(&b'\n') {
            return Some(at + 2);
        }
        self.after_carriage_return = is_return && at + 1 == self.buffer.len();
        Some(at + 1)
    }

    fn split_to(&mut self, end: usize) -> Bytes {
        (self.line_start, self.searched) = (0, 0);
        self.buffer.split_to(end).freeze()
    }

    fn too_large(&mut self, out: &mut BytesMut) {
        if self.passage.strict {
            if self.buffer.len() > self.max_event_bytes {
                let text = format!("a message of the server is larger than {} bytes", self.max_event_bytes);
                self.fail(Reason::AnswerUnclear, &text, out);
            } else {
                warn_no_room("a message from a server was not inspected");
                self.fail(Reason::NoMemory, NO_ROOM, out);
            }
        } else {
            self.is_oversized = true;
            let end = self.buffer.len();
            out.put_slice(&self.split_to(end));
        }
    }

    /// Ends the stream with an error for each request that has no response yet.
    fn fail(&mut self, reason: Reason, text: &str, out: &mut BytesMut) {
        self.ended = true;
        self.buffer = BytesMut::new();
        let denial = Denial::new(reason).input("cause", text);
        self.passage.log_denial(&denial);
        if let Some(error) = self.passage.error_messages(text, &denial) {
            out.put_slice(&sse::message(&error, None));
        }
        self.passage.end(true);
    }

    /// Passes a complete event through the hooks.
    fn event(&mut self, block: Bytes, out: &mut BytesMut) {
        let cleans = self.passage.strict && has_unicode_line_break(&block);
        let block = if cleans { without_unicode_line_breaks(block) } else { block };
        let Some(data) = data(&block) else { return out.put_slice(&block) };
        let cleans = cleans && has_unicode_line_break(&data);
        // Some parsers skip padding before a message, although it is not valid JSON.
        if !matches!(without_padding(&data).first(), Some(b'{' | b'[')) {
            // Not a message, but for example an endpoint or a sign of life.
            return if cleans { rewrite(&block, None, out) } else { out.put_slice(&block) };
        }
        match self.passage.process_text(data.clone()) {
            Ok(HookResult::Unchanged) if cleans => {
                rewrite(&block, Some(&escape_unicode_line_breaks(&data)), out)
            }
            Ok(HookResult::Unchanged) => out.put_slice(&block),
            Ok(HookResult::Replaced(text)) if self.passage.strict => {
                rewrite(&block, Some(&escape_unicode_line_breaks(&text)), out)
            }
            Ok(HookResult::Replaced(text)) => rewrite(&block, Some(&text), out),
            Ok(HookResult::Dropped) => rewrite(&block, None, out),
            Err(_) if !self.passage.strict => out.put_slice(&block),
            Err(malformed) => {
                tracing::warn!(
                    reason = malformed.reason,
                    "dropped an event from the server that cannot be parsed"
                );
                rewrite(&block, None, out);
            }
        }
    }
}

/// The lines of an event, including their line ends.
pub(super) fn lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = block;
    std::iter::from_fn(move || {
        let at = memchr::memchr2(b'\n', b'\r', rest).map_or(rest.len(), |at| at + 1);
        let both = at < rest.len() && rest[at - 1] == b'\r' && rest[at] == b'\n';
        let (line, left) = rest.split_at(at + usize::from(both));
        rest = left;
        (!line.is_empty()).then_some(line)
    })
}

/// The value of a line, if its field is `field`.
pub(super) fn value<'a>(line: &'a [u8], field: &[u8]) -> Option<&'a [u8]> {
    let end = line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
    // The first line of a stream may begin with a byte order mark.
    let line = &line[..end];
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let rest = line.strip_prefix(field)?;
    match rest.strip_prefix(b":") {
        Some(value) => Some(value.strip_prefix(b" ").unwrap_or(value)),
        None => rest.is_empty().then_some(rest),
    }
}

/// The data of an event, with its lines joined; `None` if it has no data.
fn data(block: &Bytes) -> Option<Bytes> {
    let mut values = lines(block).filter_map(|line| value(line, b"data"));
    let first = values.next()?;
    let Some(second) = values.next() else { return Some(block.slice_ref(first)) };
    let mut joined = BytesMut::from(first);
    for next in [second].into_iter().chain(values) {
        joined.put_u8(b'\n');
        joined.put_slice(next);
    }
    Some(joined.freeze())
}

/// Writes an event with different data, or without data.
fn rewrite(block: &[u8], text: Option<&[u8]>, out: &mut BytesMut) {
    let mut text = text.map(BytesMut::from);
    let is_data = |line: &[u8]| value(line, b"data").is_some();
    let remains = |line: &[u8]| value(line, b"id").is_some() || value(line, b"retry").is_some();
    if text.is_none() && !lines(block).any(remains) {
        // Without data, an event has no effect, unless it has an `id` or `retry` field, which a client needs to
        // reconnect.
        return lines(block).filter(|line| line.starts_with(b":")).for_each(|line| out.put_slice(line));
    }
    for line in lines(block) {
        if !is_data(line) {
            out.put_slice(line);
        } else if let Some(mut text) = text.take() {
            replace_line_breaks(&mut text);
            out.put_slice(b"data: ");
            out.put_slice(&text);
            let end = line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
            out.put_slice(if line[end..].is_empty() { b"\n" } else { &line[end..] });
        }
    }
}

impl HttpBody for HookedSseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        while !self.ended {
            let Poll::Ready(polled) = Pin::new(&mut self.body).poll_frame(cx) else { return Poll::Pending };
            let out = match polled.map(|polled| polled.map(Frame::into_data)) {
                Some(Ok(Ok(piece))) => self.push(&piece),
                // Trailers contain nothing that an MCP client reads.
                Some(Ok(Err(_))) => continue,
                Some(Err(error)) => {
                    self.ended = true;
                    self.passage.end(true);
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    self.ended = true;
                    // An event without its final empty line is not valid, but some clients process it.
                    let block = std::mem::take(&mut self.buffer).freeze();
                    let mut out = BytesMut::new();
                    if self.is_oversized {
                        out.put_slice(&block)
                    } else {
                        self.event(block, &mut out)
                    }
                    self.passage.end(false);
                    out.freeze()
                }
            };
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(out))));
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}
