//! A stream of messages on its way to one client, which the client may read again from a point it names.
//!
//! The writer never waits for a slow reader: an outlet holds a bounded number of unread bytes and ends itself
//! when a reader falls too far behind. A replayable outlet also keeps the last messages that were read, so
//! that a client whose connection broke can go on (MCP 2025-11-25, transports, "Resumability and redelivery").

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;

/// Most bytes that wait for a reader.
const UNREAD_LIMIT: usize = 32 << 20;
/// Most bytes kept after they were read, for a replay.
const REPLAY_LIMIT: usize = 256 << 10;
/// What one queued message costs beside its bytes.
const MESSAGE_OVERHEAD: usize = 64;

/// How a stream ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// Everything was said; the last message was the answer, if one was awaited.
    Complete,
    /// The call was cancelled, or its session ended.
    Cancelled,
    /// The server behind ended before it answered.
    ServerEnded(String),
    /// The reader fell more than the limit behind.
    Overflow,
    /// Nothing came for too long.
    TimedOut,
    /// Another connection took over the stream.
    Superseded,
}

/// One step of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A message, its place in the stream, and whether it is the awaited answer.
    Message { place: u64, bytes: Bytes, answer: bool },
    /// Nothing follows.
    End(End),
}

/// The writing side, shared by the router.
#[derive(Debug)]
pub(crate) struct Outlet {
    number: u64,
    /// The id of the request that is answered here; empty when none is.
    request: Bytes,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    messages: VecDeque<Bytes>,
    /// Place of the first message still kept; places begin at 1.
    first: u64,
    /// Place of the first message not read yet.
    unread: u64,
    kept_bytes: usize,
    unread_bytes: usize,
    answered: bool,
    end: Option<End>,
    replayable: bool,
    /// Whether a client that lost its connection could come back: it was told an event id.
    resumable: bool,
    /// Grows with each reader; an older reader ends.
    reader: u64,
    attached: bool,
    waker: Option<Waker>,
}

impl Outlet {
    /// Makes an empty stream that answers no request; `number` tells it from the session's others.
    pub(crate) fn new(number: u64, replayable: bool) -> Arc<Self> {
        Self::answering(Bytes::new(), number, replayable)
    }

    /// Makes an empty stream that answers the request of that id.
    pub(crate) fn answering(request: Bytes, number: u64, replayable: bool) -> Arc<Self> {
        let inner = Inner {
            messages: VecDeque::new(),
            first: 1,
            unread: 1,
            kept_bytes: 0,
            unread_bytes: 0,
            answered: false,
            end: None,
            replayable,
            resumable: false,
            reader: 0,
            attached: false,
            waker: None,
        };
        Arc::new(Self { number, request, inner: Mutex::new(inner) })
    }

    /// The number given by the session.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The id of the request that is answered here; empty when none is.
    pub(crate) fn request(&self) -> &Bytes {
        &self.request
    }

    /// Adds a message.
    pub(crate) fn push(&self, bytes: Bytes) {
        self.add(bytes, false);
    }

    /// Adds the awaited answer and ends the stream.
    pub(crate) fn answer(&self, bytes: Bytes) {
        self.add(bytes, true);
    }

    /// Ends the stream; what waits can still be read.
    pub(crate) fn end(&self, end: End) {
        let mut inner = self.lock();
        inner.end.get_or_insert(end);
        wake(inner);
    }

    /// Whether somebody reads, will do so in a moment, or could come back and read.
    pub(crate) fn is_reachable(&self) -> bool {
        let inner = self.lock();
        let expected = inner.reader == 0;
        inner.end.is_none() && (expected || inner.attached || inner.resumable)
    }

    /// Whether somebody reads now.
    pub(crate) fn is_attached(&self) -> bool {
        self.lock().attached
    }

    /// How many messages wait for a reader.
    pub(crate) fn unread(&self) -> usize {
        let inner = self.lock();
        inner.messages.len() - usize::try_from(inner.unread - inner.first).unwrap_or_default()
    }

    /// Whether the stream has ended and holds nothing unread.
    pub(crate) fn is_spent(&self) -> bool {
        let inner = self.lock();
        inner.end.is_some() && inner.messages.is_empty()
    }

    /// Attaches a reader after `place` (0 = from the start), or at the first unread message when `None`.
    pub(crate) fn read(self: &Arc<Self>, after: Option<u64>) -> Reader {
        let mut inner = self.lock();
        inner.reader += 1;
        inner.attached = true;
        let next =
            after.map_or(inner.unread, |place| place.saturating_add(1).clamp(inner.first, inner.unread));
        let reader = Reader { outlet: Arc::clone(self), number: inner.reader, next };
        wake(inner);
        reader
    }

    fn add(&self, bytes: Bytes, answer: bool) {
        let mut inner = self.lock();
        if inner.end.is_some() {
            return;
        }
        inner.unread_bytes += bytes.len() + MESSAGE_OVERHEAD;
        // One message alone may be larger than the limit.
        if inner.unread_bytes > UNREAD_LIMIT && inner.unread < inner.first + inner.messages.len() as u64 {
            inner.end = Some(End::Overflow);
        } else {
            inner.kept_bytes += bytes.len();
            inner.messages.push_back(bytes);
            if answer {
                inner.answered = true;
                inner.end = Some(End::Complete);
            }
        }
        wake(inner);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(mut inner: MutexGuard<'_, Inner>) {
    let waker = inner.waker.take();
    drop(inner);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The reading side, held by one response.
#[derive(Debug)]
pub(crate) struct Reader {
    outlet: Arc<Outlet>,
    number: u64,
    next: u64,
}

impl Reader {
    /// The stream that is read.
    pub(crate) fn outlet(&self) -> &Arc<Outlet> {
        &self.outlet
    }

    /// Notes that the client was told an event id and can come back.
    pub(crate) fn set_resumable(&self) {
        self.outlet.lock().resumable = true;
    }

    /// Waits for the next step.
    pub(crate) async fn next(&mut self) -> Item {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Polls for the next step.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Item> {
        let mut guard = self.outlet.lock();
        let inner = &mut *guard;
        if inner.reader != self.number {
            return Poll::Ready(Item::End(End::Superseded));
        }
        let place = self.next;
        let index = usize::try_from(place - inner.first).unwrap_or(usize::MAX);
        let Some(bytes) = inner.messages.get(index).cloned() else {
            return match &inner.end {
                Some(end) => Poll::Ready(Item::End(end.clone())),
                None => {
                    inner.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            };
        };
        let answer = inner.answered && index + 1 == inner.messages.len();
        self.next += 1;
        if place >= inner.unread {
            inner.unread = place + 1;
            inner.unread_bytes = inner.unread_bytes.saturating_sub(bytes.len() + MESSAGE_OVERHEAD);
        }
        inner.forget_read(self.next);
        Poll::Ready(Item::Message { place, bytes, answer })
    }
}

impl Inner {
    /// Drops messages that were read and are beyond what a replay keeps; none that the present reader, who may
    /// have gone back, reads at `next` or after.
    fn forget_read(&mut self, next: u64) {
        let limit = if self.replayable { REPLAY_LIMIT } else { 0 };
        while self.first < next && self.kept_bytes > limit {
            if let Some(bytes) = self.messages.pop_front() {
                self.kept_bytes -= bytes.len();
            }
            self.first += 1;
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut inner = self.outlet.lock();
        if inner.reader != self.number {
            return;
        }
        inner.attached = false;
        inner.waker = None;
        if inner.replayable && !inner.resumable {
            // The client was never told how to come back.
            inner.end.get_or_insert(End::Cancelled);
            inner.messages.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[tokio::test]
    async fn a_reader_gets_everything_in_order_and_then_the_end() {
        let outlet = Outlet::new(1, false);
        let mut reader = outlet.read(None);
        outlet.push(bytes("a"));
        outlet.answer(bytes("b"));
        assert_eq!(reader.next().await, Item::Message { place: 1, bytes: bytes("a"), answer: false });
        assert_eq!(reader.next().await, Item::Message { place: 2, bytes: bytes("b"), answer: true });
        assert_eq!(reader.next().await, Item::End(End::Complete));
        assert!(outlet.is_spent());
    }

    #[test]
    fn a_stream_is_reachable_until_its_first_reader_is_gone_for_good() {
        let outlet = Outlet::new(1, true);
        assert!(outlet.is_reachable());
        let reader = outlet.read(None);
        assert!(outlet.is_reachable());
        drop(reader);
        assert!(!outlet.is_reachable());
    }

    #[tokio::test]
    async fn a_second_reader_takes_over_and_can_go_back() {
        let outlet = Outlet::new(1, true);
        let mut first = outlet.read(None);
        outlet.push(bytes("a"));
        outlet.push(bytes("b"));
        first.next().await;
        first.next().await;
        let mut second = outlet.read(Some(1));
        assert_eq!(first.next().await, Item::End(End::Superseded));
        drop(first);
        assert!(outlet.is_attached());
        assert_eq!(second.next().await, Item::Message { place: 2, bytes: bytes("b"), answer: false });
    }

    #[tokio::test]
    async fn a_reader_that_falls_behind_ends_instead_of_losing_messages_silently() {
        let outlet = Outlet::new(1, false);
        let half = Bytes::from(vec![b'x'; UNREAD_LIMIT / 2]);
        outlet.push(half.clone());
        outlet.push(half);
        let mut reader = outlet.read(None);
        assert!(matches!(reader.next().await, Item::Message { place: 1, .. }));
        assert_eq!(reader.next().await, Item::End(End::Overflow));
    }
}
