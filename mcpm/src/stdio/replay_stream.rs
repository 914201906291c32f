//! A stream of messages to one client. A client that reconnects can resume it, if it is replayable.
//!
//! The writer never waits for a slow reader: the stream is charged to an [`Account`], and ends when the account has no
//! room for another message. A replayable stream also keeps the last messages that were read, and the response, so that
//! a client whose connection broke can resume the stream (MCP 2025-11-25, transports, "Resumability and redelivery").

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::memory::{Account, is_small, warn_no_room};

/// Maximum number of bytes that are kept for a replay after they were read, in addition to the response.
const MAX_REPLAY_BYTES: usize = 256 << 10;
/// Bytes charged for a queued message in addition to its length.
const MESSAGE_OVERHEAD: usize = 64;
/// Bytes charged for a stream in addition to its messages.
pub(super) const STREAM_OVERHEAD: usize = 512;
/// How long a stream that has ended can be replayed.
const REPLAY_RETENTION: Duration = Duration::from_secs(5 * 60);

/// How a stream ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// The stream is complete; the last message was the response, if one was expected.
    Complete,
    /// The call was cancelled, or its session ended.
    Cancelled,
    /// The server ended before it responded.
    ServerEnded(String),
    /// The reader is too slow: its unread messages leave no room for more.
    Overflow,
    /// The memory budget has no room for a message, although the reader has read all others.
    NoRoom,
    /// The replay buffer was discarded to make room for newer responses.
    GivenUp,
    /// The call timed out.
    TimedOut,
    /// Another connection took over the stream.
    Superseded,
}

impl StreamEnd {
    fn is_for_want_of_room(&self) -> bool {
        matches!(self, Self::Overflow | Self::NoRoom | Self::GivenUp)
    }
}

/// One item of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StreamItem {
    /// A message, its position in the stream, and whether it is the expected response.
    Message { position: u64, bytes: Bytes, is_response: bool },
    /// The end of the stream.
    End(StreamEnd),
}

/// The writing side of a stream, shared by the multiplexer.
#[derive(Debug)]
pub(crate) struct MessageStream {
    number: u64,
    /// The id of the request whose response is sent here; empty if there is none.
    request: Bytes,
    inner: Mutex<StreamState>,
}

#[derive(Debug)]
struct StreamState {
    messages: VecDeque<Bytes>,
    /// Position of the first message in the buffer; positions begin at 1.
    first_position: u64,
    /// Position of the first unread message.
    next_unread: u64,
    buffered_bytes: usize,
    has_response: bool,
    end: Option<StreamEnd>,
    ended_at: Option<Instant>,
    account: Arc<Account>,
    replayable: bool,
    /// Whether a client that lost its connection can resume, because it has received an event id.
    resumable: bool,
    /// Incremented with each reader; older readers end.
    reader_generation: u64,
    attached: bool,
    waker: Option<Waker>,
}

impl MessageStream {
    /// Creates a stream without a request; `number` identifies it within its session.
    pub(crate) fn new(number: u64, replayable: bool, account: Arc<Account>) -> Arc<Self> {
        Self::for_request(Bytes::new(), number, replayable, account)
    }

    /// Creates a stream for the response to the request with this id.
    pub(crate) fn for_request(
        request: Bytes,
        number: u64,
        replayable: bool,
        account: Arc<Account>,
    ) -> Arc<Self> {
        account.reserve(STREAM_OVERHEAD);
        let inner = StreamState {
            messages: VecDeque::new(),
            first_position: 1,
            next_unread: 1,
            buffered_bytes: 0,
            has_response: false,
            end: None,
            ended_at: None,
            account,
            replayable,
            resumable: false,
            reader_generation: 0,
            attached: false,
            waker: None,
        };
        Arc::new(Self { number, request, inner: Mutex::new(inner) })
    }

    /// Returns the number of the stream within its session.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the id of the request whose response is sent here; empty if there is none.
    pub(crate) fn request(&self) -> &Bytes {
        &self.request
    }

    /// Creates the next stream with the same number; its positions continue those of this one.
    pub(crate) fn successor(&self) -> Arc<Self> {
        let inner = self.lock();
        let next = Self::new(self.number, inner.replayable, Arc::clone(&inner.account));
        let place = inner.first_position + inner.messages.len() as u64;
        drop(inner);
        {
            let mut fresh = next.lock();
            (fresh.first_position, fresh.next_unread) = (place, place);
        }
        next
    }

    /// Adds a message; returns `false` if the message was not added, because the stream has ended or is full.
    pub(crate) fn push(&self, bytes: Bytes) -> bool {
        self.add(bytes, false)
    }

    /// Adds the expected response and ends the stream.
    pub(crate) fn push_response(&self, bytes: Bytes) {
        self.add(bytes, true);
    }

    /// Ends the stream; unread messages can still be read.
    pub(crate) fn end(&self, end: StreamEnd) {
        let mut inner = self.lock();
        inner.finish(end);
        wake(inner);
    }

    /// Whether the stream ended for lack of memory.
    pub(crate) fn has_overflowed(&self) -> bool {
        self.lock().end.as_ref().is_some_and(StreamEnd::is_for_want_of_room)
    }

    /// Whether there is a reader, or a reader is expected: the first one, or one that reconnects.
    pub(crate) fn is_reachable(&self) -> bool {
        let inner = self.lock();
        let expected = inner.reader_generation == 0;
        inner.end.is_none() && (expected || inner.attached || inner.resumable)
    }

    /// Whether there is a reader now.
    pub(crate) fn is_attached(&self) -> bool {
        self.lock().attached
    }

    /// Returns the number of unread messages.
    pub(crate) fn unread(&self) -> usize {
        let inner = self.lock();
        inner.messages.len() - usize::try_from(inner.next_unread - inner.first_position).unwrap_or_default()
    }

    /// Whether the stream has ended and can be dropped: it is empty, or its retention is over.
    pub(crate) fn is_evictable(&self, now: Instant) -> bool {
        let inner = self.lock();
        let is_old = |at: Instant| now.saturating_duration_since(at) > REPLAY_RETENTION;
        // A client that reconnects to read a lost response gets an error, for which the stream is kept.
        let is_lost = inner.end.as_ref().is_some_and(StreamEnd::is_for_want_of_room);
        let holds_nothing = inner.messages.is_empty() && !is_lost;
        inner.end.is_some() && (holds_nothing || !inner.attached && inner.ended_at.is_some_and(is_old))
    }

    /// Whether the stream has ended and has no reader now.
    pub(crate) fn is_ended_and_detached(&self) -> bool {
        let inner = self.lock();
        inner.end.is_some() && !inner.attached
    }

    /// Drops all messages; a client that reconnects to read them gets an error.
    pub(crate) fn discard(&self) {
        let mut inner = self.lock();
        inner.finish(StreamEnd::GivenUp);
        inner.clear();
        drop(inner);
        warn_no_room("responses that were buffered for replay were dropped");
    }

    /// Attaches a reader after position `after` (0 = from the start), or, with `None`, at the first unread message.
    pub(crate) fn attach_reader(self: &Arc<Self>, after: Option<u64>) -> MessageReader {
        let mut inner = self.lock();
        inner.reader_generation += 1;
        inner.attached = true;
        let last = inner.first_position + inner.messages.len() as u64;
        if inner.has_response
            && inner.messages.is_empty()
            && after.is_none_or(|place| place.saturating_add(1) < last)
        {
            // The response was discarded for lack of memory.
            inner.end = Some(StreamEnd::GivenUp);
        }
        let next = after.map_or(inner.next_unread, |place| {
            place.saturating_add(1).clamp(inner.first_position, inner.next_unread)
        });
        let reader = MessageReader { stream: Arc::clone(self), generation: inner.reader_generation, next };
        wake(inner);
        reader
    }

    fn add(&self, bytes: Bytes, answer: bool) -> bool {
        let mut inner = self.lock();
        if inner.end.is_some() {
            return false;
        }
        let cost = bytes.len() + MESSAGE_OVERHEAD;
        let fits = inner.account.try_reserve(cost);
        if fits {
            inner.buffered_bytes += cost;
            inner.messages.push_back(bytes);
            if answer {
                inner.has_response = true;
                inner.finish(StreamEnd::Complete);
            }
        } else {
            let waits = inner.first_position + inner.messages.len() as u64 > inner.next_unread;
            inner.finish(if waits { StreamEnd::Overflow } else { StreamEnd::NoRoom });
        }
        wake(inner);
        if !fits {
            warn_no_room("a message to a client was dropped, and its stream was closed");
        }
        fits
    }

    fn lock(&self) -> MutexGuard<'_, StreamState> {
        // No code panics while it holds the lock, so the state of a poisoned lock is consistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(mut inner: MutexGuard<'_, StreamState>) {
    let waker = inner.waker.take();
    drop(inner);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The reading side of a stream, held by one HTTP response.
#[derive(Debug)]
pub(crate) struct MessageReader {
    stream: Arc<MessageStream>,
    generation: u64,
    next: u64,
}

impl MessageReader {
    /// Charges bytes that were built from messages, until they are written to the client's connection.
    pub(crate) fn reserve(&self, bytes: Bytes) -> Bytes {
        if is_small(&bytes) {
            return bytes;
        }
        let account = Arc::clone(&self.stream.lock().account);
        account.reserve_until_dropped(bytes)
    }

    /// Returns the stream.
    pub(crate) fn stream(&self) -> &Arc<MessageStream> {
        &self.stream
    }

    /// Records that the client has received an event id, and can resume.
    pub(crate) fn set_resumable(&self) {
        self.stream.lock().resumable = true;
    }

    /// Waits for the next item.
    pub(crate) async fn next(&mut self) -> StreamItem {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Polls for the next item.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<StreamItem> {
        let mut guard = self.stream.lock();
        let inner = &mut *guard;
        if inner.reader_generation != self.generation {
            return Poll::Ready(StreamItem::End(StreamEnd::Superseded));
        }
        let place = self.next;
        let index = usize::try_from(place - inner.first_position).unwrap_or(usize::MAX);
        let Some(bytes) = inner.messages.get(index).cloned() else {
            return match &inner.end {
                Some(end) => Poll::Ready(StreamItem::End(end.clone())),
                None => {
                    inner.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            };
        };
        let answer = inner.has_response && index + 1 == inner.messages.len();
        self.next += 1;
        inner.next_unread = inner.next_unread.max(place + 1);
        inner.trim_replay(self.next);
        Poll::Ready(StreamItem::Message { position: place, bytes, is_response: answer })
    }
}

impl StreamState {
    fn finish(&mut self, end: StreamEnd) {
        if self.end.is_none() {
            self.end = Some(end);
            self.ended_at = Some(Instant::now());
        }
    }

    /// Drops messages that were read and exceed the replay buffer. It keeps messages from position `next` on, because
    /// the current reader may have gone back to an earlier position, and the response, because it cannot be requested
    /// again.
    fn trim_replay(&mut self, next: u64) {
        let limit = if self.replayable { MAX_REPLAY_BYTES } else { 0 };
        while self.first_position < next && self.buffered_bytes > limit {
            if self.replayable && self.has_response && self.messages.len() == 1 {
                return;
            }
            if let Some(bytes) = self.messages.pop_front() {
                self.release(bytes.len() + MESSAGE_OVERHEAD);
            }
            self.first_position += 1;
        }
    }

    fn clear(&mut self) {
        self.first_position += self.messages.len() as u64;
        self.next_unread = self.next_unread.max(self.first_position);
        self.messages = VecDeque::new();
        self.release(self.buffered_bytes);
    }

    fn release(&mut self, bytes: usize) {
        self.buffered_bytes -= bytes;
        self.account.release(bytes);
    }
}

impl Drop for StreamState {
    fn drop(&mut self) {
        self.account.release(self.buffered_bytes + STREAM_OVERHEAD);
    }
}

impl Drop for MessageReader {
    fn drop(&mut self) {
        let mut inner = self.stream.lock();
        if inner.reader_generation != self.generation {
            return;
        }
        inner.attached = false;
        inner.waker = None;
        if inner.replayable && !inner.resumable {
            // The client has no event id to resume with.
            inner.finish(StreamEnd::Cancelled);
            inner.clear();
        }
    }
}

#[cfg(test)]
#[path = "replay_stream_tests.rs"]
mod tests;
