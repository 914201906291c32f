//! A stream of messages on its way to one client, which the client may read again from a point it names.
//!
//! The writer never waits for a slow reader: what a stream holds is booked on an [`Account`], and the stream ends
//! when there is no room for more. A replayable stream also keeps the last messages that were read, and the answer,
//! so that a client whose connection broke can go on (MCP 2025-11-25, transports, "Resumability and redelivery").

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::memory::{Account, is_small, warn_no_room};

/// Most bytes kept after they were read, for a replay; the answer is kept beyond that.
const REPLAY_LIMIT: usize = 256 << 10;
/// What one queued message costs beside its bytes.
const MESSAGE_OVERHEAD: usize = 64;
/// What a stream costs beside its messages.
pub(super) const STREAM_OVERHEAD: usize = 512;
/// How long a stream that has ended can be read again.
const KEPT_FOR: Duration = Duration::from_secs(5 * 60);

/// How a stream ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// Everything was said; the last message was the answer, if one was awaited.
    Complete,
    /// The call was cancelled, or its session ended.
    Cancelled,
    /// The server behind ended before it answered.
    ServerEnded(String),
    /// The reader fell so far behind that what waits for it leaves no room for more.
    Overflow,
    /// What is held for others leaves no room for a message, although the reader has read all before it.
    NoRoom,
    /// What was kept to be read again was given up for newer answers.
    GivenUp,
    /// Nothing came for too long.
    TimedOut,
    /// Another connection took over the stream.
    Superseded,
}

impl End {
    fn is_for_want_of_room(&self) -> bool {
        matches!(self, Self::Overflow | Self::NoRoom | Self::GivenUp)
    }
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
    answered: bool,
    end: Option<End>,
    ended_at: Option<Instant>,
    account: Arc<Account>,
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
    pub(crate) fn new(number: u64, replayable: bool, account: Arc<Account>) -> Arc<Self> {
        Self::answering(Bytes::new(), number, replayable, account)
    }

    /// Makes an empty stream that answers the request of that id.
    pub(crate) fn answering(
        request: Bytes,
        number: u64,
        replayable: bool,
        account: Arc<Account>,
    ) -> Arc<Self> {
        account.force(STREAM_OVERHEAD);
        let inner = Inner {
            messages: VecDeque::new(),
            first: 1,
            unread: 1,
            kept_bytes: 0,
            answered: false,
            end: None,
            ended_at: None,
            account,
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

    /// Makes the stream that follows this one under the same number; places go on where this one ended.
    pub(crate) fn successor(&self) -> Arc<Self> {
        let inner = self.lock();
        let next = Self::new(self.number, inner.replayable, Arc::clone(&inner.account));
        let place = inner.first + inner.messages.len() as u64;
        drop(inner);
        {
            let mut fresh = next.lock();
            (fresh.first, fresh.unread) = (place, place);
        }
        next
    }

    /// Adds a message; `false` when it will not be read, since the stream has ended or is full.
    pub(crate) fn push(&self, bytes: Bytes) -> bool {
        self.add(bytes, false)
    }

    /// Adds the awaited answer and ends the stream.
    pub(crate) fn answer(&self, bytes: Bytes) {
        self.add(bytes, true);
    }

    /// Ends the stream; what waits can still be read.
    pub(crate) fn end(&self, end: End) {
        let mut inner = self.lock();
        inner.finish(end);
        wake(inner);
    }

    /// Whether the stream ended for want of room.
    pub(crate) fn has_overflowed(&self) -> bool {
        self.lock().end.as_ref().is_some_and(End::is_for_want_of_room)
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

    /// Whether the stream has ended and need not be kept: it holds nothing, or nobody has come back for long.
    pub(crate) fn is_spent(&self, now: Instant) -> bool {
        let inner = self.lock();
        let is_old = |at: Instant| now.saturating_duration_since(at) > KEPT_FOR;
        // Whoever comes back for an answer that is lost is told so.
        let is_lost = inner.end.as_ref().is_some_and(End::is_for_want_of_room);
        let holds_nothing = inner.messages.is_empty() && !is_lost;
        inner.end.is_some() && (holds_nothing || !inner.attached && inner.ended_at.is_some_and(is_old))
    }

    /// Whether the stream has ended and nobody reads it now.
    pub(crate) fn is_left(&self) -> bool {
        let inner = self.lock();
        inner.end.is_some() && !inner.attached
    }

    /// Drops what is kept; who comes back for it is told that it is lost.
    pub(crate) fn forget(&self) {
        let mut inner = self.lock();
        inner.finish(End::GivenUp);
        inner.clear();
        drop(inner);
        warn_no_room("answers that were kept to be read again were given up");
    }

    /// Attaches a reader after `place` (0 = from the start), or at the first unread message when `None`.
    pub(crate) fn read(self: &Arc<Self>, after: Option<u64>) -> Reader {
        let mut inner = self.lock();
        inner.reader += 1;
        inner.attached = true;
        let last = inner.first + inner.messages.len() as u64;
        if inner.answered
            && inner.messages.is_empty()
            && after.is_none_or(|place| place.saturating_add(1) < last)
        {
            // The answer was given up for want of room.
            inner.end = Some(End::GivenUp);
        }
        let next =
            after.map_or(inner.unread, |place| place.saturating_add(1).clamp(inner.first, inner.unread));
        let reader = Reader { outlet: Arc::clone(self), number: inner.reader, next };
        wake(inner);
        reader
    }

    fn add(&self, bytes: Bytes, answer: bool) -> bool {
        let mut inner = self.lock();
        if inner.end.is_some() {
            return false;
        }
        let cost = bytes.len() + MESSAGE_OVERHEAD;
        let fits = inner.account.take(cost);
        if fits {
            inner.kept_bytes += cost;
            inner.messages.push_back(bytes);
            if answer {
                inner.answered = true;
                inner.finish(End::Complete);
            }
        } else {
            let waits = inner.first + inner.messages.len() as u64 > inner.unread;
            inner.finish(if waits { End::Overflow } else { End::NoRoom });
        }
        wake(inner);
        if !fits {
            warn_no_room("a message on its way to a client was dropped, and its stream ended");
        }
        fits
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
    /// Books bytes that are made of messages until the client's connection has written them.
    pub(crate) fn hold(&self, bytes: Bytes) -> Bytes {
        if is_small(&bytes) {
            return bytes;
        }
        let account = Arc::clone(&self.outlet.lock().account);
        account.hold(bytes)
    }

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
        inner.unread = inner.unread.max(place + 1);
        inner.forget_read(self.next);
        Poll::Ready(Item::Message { place, bytes, answer })
    }
}

impl Inner {
    fn finish(&mut self, end: End) {
        if self.end.is_none() {
            self.end = Some(end);
            self.ended_at = Some(Instant::now());
        }
    }

    /// Drops messages that were read and are beyond what a replay keeps; none that the present reader, who may
    /// have gone back, reads at `next` or after, and not the answer, which nobody could ask for again.
    fn forget_read(&mut self, next: u64) {
        let limit = if self.replayable { REPLAY_LIMIT } else { 0 };
        while self.first < next && self.kept_bytes > limit {
            if self.replayable && self.answered && self.messages.len() == 1 {
                return;
            }
            if let Some(bytes) = self.messages.pop_front() {
                self.release(bytes.len() + MESSAGE_OVERHEAD);
            }
            self.first += 1;
        }
    }

    fn clear(&mut self) {
        self.first += self.messages.len() as u64;
        self.unread = self.unread.max(self.first);
        self.messages = VecDeque::new();
        self.release(self.kept_bytes);
    }

    fn release(&mut self, bytes: usize) {
        self.kept_bytes -= bytes;
        self.account.give(bytes);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.account.give(self.kept_bytes + STREAM_OVERHEAD);
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
            inner.finish(End::Cancelled);
            inner.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::{mcp::session::Session, memory::MAX_HELD_BYTES};

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn outlet(replayable: bool) -> Arc<Outlet> {
        Outlet::new(1, replayable, Account::new())
    }

    /// The next step, which is there already.
    fn next(reader: &mut Reader) -> Item {
        reader.next().now_or_never().expect("a step without a wait")
    }

    #[test]
    fn a_reader_gets_everything_in_order_and_then_the_end() {
        let outlet = outlet(false);
        let mut reader = outlet.read(None);
        outlet.push(bytes("a"));
        outlet.answer(bytes("b"));
        assert_eq!(next(&mut reader), Item::Message { place: 1, bytes: bytes("a"), answer: false });
        assert_eq!(next(&mut reader), Item::Message { place: 2, bytes: bytes("b"), answer: true });
        assert_eq!(next(&mut reader), Item::End(End::Complete));
        assert!(outlet.is_spent(Instant::now()));
    }

    #[test]
    fn a_stream_is_reachable_until_its_first_reader_is_gone_for_good() {
        let outlet = outlet(true);
        assert!(outlet.is_reachable());
        let reader = outlet.read(None);
        assert!(outlet.is_reachable());
        drop(reader);
        assert!(!outlet.is_reachable());
    }

    #[test]
    fn a_second_reader_takes_over_and_can_go_back() {
        let outlet = outlet(true);
        let mut first = outlet.read(None);
        outlet.push(bytes("a"));
        outlet.push(bytes("b"));
        next(&mut first);
        next(&mut first);
        let mut second = outlet.read(Some(1));
        assert_eq!(next(&mut first), Item::End(End::Superseded));
        drop(first);
        assert!(outlet.is_attached());
        assert_eq!(next(&mut second), Item::Message { place: 2, bytes: bytes("b"), answer: false });
    }

    #[test]
    fn a_reader_that_falls_behind_ends_instead_of_losing_messages_silently() {
        let outlet = outlet(false);
        let part = Bytes::from(vec![b'x'; MAX_HELD_BYTES / 2]);
        assert!(outlet.push(part.clone()));
        assert!(!outlet.push(part));
        let mut reader = outlet.read(None);
        assert!(matches!(next(&mut reader), Item::Message { place: 1, .. }));
        assert_eq!(next(&mut reader), Item::End(End::Overflow));
    }

    #[test]
    fn a_reader_that_has_read_all_is_told_that_there_is_no_room() {
        let outlet = outlet(false);
        let mut reader = outlet.read(None);
        assert!(outlet.push(bytes("a")));
        assert!(matches!(next(&mut reader), Item::Message { place: 1, .. }));
        outlet.answer(Bytes::from(vec![b'x'; MAX_HELD_BYTES]));
        assert_eq!(next(&mut reader), Item::End(End::NoRoom));
    }

    #[test]
    fn a_large_answer_can_be_read_again() {
        let outlet = outlet(true);
        let mut reader = outlet.read(None);
        reader.set_resumable();
        let answer = Bytes::from(vec![b'x'; 2 * REPLAY_LIMIT]);
        outlet.push(answer.clone());
        outlet.answer(answer.clone());
        while !matches!(next(&mut reader), Item::End(_)) {}
        drop(reader);
        let mut reader = outlet.read(Some(0));
        assert_eq!(next(&mut reader), Item::Message { place: 2, bytes: answer, answer: true });
        assert_eq!(next(&mut reader), Item::End(End::Complete));
    }

    #[test]
    fn an_answer_that_was_given_up_is_said_to_be_lost() {
        let outlet = outlet(true);
        outlet.answer(bytes("a"));
        outlet.forget();
        assert_eq!(next(&mut outlet.read(Some(0))), Item::End(End::GivenUp));
    }

    #[test]
    fn streams_that_ended_are_not_kept_when_there_is_no_room_for_them() {
        let account = Account::new();
        let mut session = Session::new(None, false, Arc::clone(&account), Instant::now());
        let kept = |session: &mut Session| {
            for _ in 0..4 {
                session.open_stream(bytes("1")).answer(bytes("a"));
            }
            (1..100).filter(|number| session.stream(*number).is_some()).count()
        };
        assert_eq!(kept(&mut session), 4);
        account.force(2 * MAX_HELD_BYTES);
        assert_eq!(kept(&mut session), 1);
    }

    #[test]
    fn a_stream_that_has_ended_is_kept_for_a_while() {
        let outlet = outlet(true);
        let reader = outlet.read(None);
        reader.set_resumable();
        outlet.answer(bytes("a"));
        let later = Instant::now() + KEPT_FOR + Duration::from_secs(1);
        assert!(!outlet.is_spent(later));
        drop(reader);
        assert!(!outlet.is_spent(Instant::now()) && outlet.is_spent(later));
    }
}
