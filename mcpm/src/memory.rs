//! Accounts for the memory that clients and servers can make the proxy hold.
//!
//! Whatever is kept for somebody until they read, answer or finish is booked on an account: a request body that is
//! being read, lines on their way into a server's pipe, messages on a stream that nobody reads yet. All accounts draw
//! on one budget. An account may hold at most twice what is left of the budget (a dynamic threshold, as in
//! shared-memory switches: Choudhury and Hahne, 1998), so that a single greedy client gets two thirds of it, several
//! share what is left, and a client that needs little always finds room.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::{Bytes, BytesMut};

/// Most bytes held in all.
pub(crate) const MAX_HELD_BYTES: usize = 48 << 20;
/// What an account may hold even when others have used up the budget.
const FLOOR: usize = 64 << 10;
/// How far small accounts may exceed the budget, all together.
const FLOORS: usize = 16 << 20;
/// A message or body up to this size is not booked: connections and calls are bounded in number.
const SMALL: usize = 16 << 10;

/// The budget of this process: its memory is what is protected, however many proxies run in it.
static BUDGET: Budget = Budget::new(MAX_HELD_BYTES);

/// Whether bytes are too few to be booked while they are written.
pub(crate) fn is_small(bytes: &Bytes) -> bool {
    bytes.len() <= SMALL
}

/// What is held in all.
#[derive(Debug)]
struct Budget {
    limit: usize,
    used: AtomicUsize,
}

impl Budget {
    const fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }
}

/// What is held for one client, body or process. Dropping it gives everything back.
#[derive(Debug)]
pub(crate) struct Account {
    budget: &'static Budget,
    used: AtomicUsize,
}

impl Default for Account {
    fn default() -> Self {
        Self { budget: &BUDGET, used: AtomicUsize::new(0) }
    }
}

impl Account {
    /// Returns a new account for whatever is kept on behalf of one client, body or process.
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Books `bytes` if there is room for them.
    #[must_use = "what is refused must not be kept"]
    pub(crate) fn take(&self, bytes: usize) -> bool {
        // Two accounts that take at the same moment may both pass: the threshold is a share, not a promise.
        let fits = self.has_room(bytes);
        if fits {
            self.force(bytes);
        }
        fits
    }

    /// Whether `bytes` more find room now.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let own = self.used.load(Ordering::Relaxed).saturating_add(bytes);
        let all = self.budget.used.load(Ordering::Relaxed).saturating_add(bytes);
        let left = self.budget.limit.saturating_sub(all);
        own <= left.saturating_mul(2) || own <= FLOOR && all <= self.budget.limit + FLOORS
    }

    /// Books `bytes` whether or not there is room, for what is bounded in number elsewhere.
    pub(crate) fn force(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Books bytes that are on their way to a client, until the connection has written them. They were booked before in
    /// the form in which they came, so they find room.
    pub(crate) fn hold(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        if is_small(&bytes) {
            return bytes;
        }
        self.force(bytes.len());
        Bytes::from_owner(Held { bytes, account: Arc::clone(self) })
    }

    /// Gives back what was booked.
    pub(crate) fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(*self.used.get_mut(), Ordering::Relaxed);
    }
}

/// Bytes that are booked until they are dropped.
struct Held {
    bytes: Bytes,
    account: Arc<Account>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.account.give(self.bytes.len());
    }
}

/// What a buffer that grows and shrinks is booked with, from a small size on.
#[derive(Debug, Default)]
pub(crate) struct Booking {
    account: Arc<Account>,
    booked: usize,
}

impl Booking {
    /// Books what was made of the buffer and is on its way to a client.
    pub(crate) fn hold(&self, bytes: Bytes) -> Bytes {
        self.account.hold(bytes)
    }

    /// Books a buffer that now holds `bytes`; `false`, with nothing changed, when there is no room for that.
    #[must_use = "what is refused must not be kept"]
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        let bytes = if bytes <= SMALL { 0 } else { bytes };
        if bytes > self.booked && !self.account.take(bytes - self.booked) {
            return false;
        }
        self.account.give(self.booked.saturating_sub(bytes));
        self.booked = bytes;
        true
    }
}

/// A buffer that grows piece by piece and stays booked until the last reference to its bytes is gone.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: BytesMut,
    booking: Booking,
}

impl Buffer {
    /// Appends a piece; `false`, with nothing appended, when there is no room for it.
    pub(crate) fn append(&mut self, piece: &[u8]) -> bool {
        let fits = self.booking.resize(self.bytes.len() + piece.len());
        if fits {
            self.bytes.extend_from_slice(piece);
        }
        fits
    }

    /// The length so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes so far, which stay booked as long as any part of them is referenced.
    pub(crate) fn freeze(self) -> Bytes {
        if self.booking.booked == 0 {
            return self.bytes.freeze();
        }
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts(limit: usize, count: usize) -> Vec<Account> {
        let budget: &'static Budget = Box::leak(Box::new(Budget::new(limit)));
        (0..count).map(|_| Account { budget, used: AtomicUsize::new(0) }).collect()
    }

    fn take_all(account: &Account) -> usize {
        while account.take(1 << 10) {}
        account.used.load(Ordering::Relaxed)
    }

    #[test]
    fn one_account_gets_two_thirds_and_leaves_room_for_others() {
        let accounts = accounts(48 << 20, 3);
        assert_eq!(take_all(&accounts[0]), 32 << 20);
        assert!(take_all(&accounts[1]) > 10 << 20);
        assert!(take_all(&accounts[2]) > 3 << 20);
        assert!(!accounts[0].has_room(1));
    }

    #[test]
    fn a_small_account_finds_room_beside_any_number_of_greedy_ones() {
        let mut accounts = accounts(48 << 20, 200);
        for _ in 0..3 {
            for account in &accounts[1..] {
                take_all(account);
            }
        }
        assert!(accounts[0].has_room(FLOOR));
        let held = accounts[0].budget.used.load(Ordering::Relaxed);
        assert!(held <= (48 << 20) + FLOORS, "{held}");
        accounts.truncate(1);
        assert_eq!(accounts[0].budget.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_buffer_stays_booked_until_its_bytes_are_gone() {
        let account = accounts(1 << 20, 1).remove(0);
        let budget = account.budget;
        let mut buffer =
            Buffer { bytes: BytesMut::new(), booking: Booking { account: Arc::new(account), booked: 0 } };
        assert!(buffer.append(&[0; SMALL]));
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
        assert!(buffer.append(&[0; SMALL]));
        assert!(!buffer.append(&[0; 1 << 20]));
        let bytes = buffer.freeze();
        let part = bytes.slice(..1);
        drop(bytes);
        assert_eq!(budget.used.load(Ordering::Relaxed), 2 * SMALL);
        drop(part);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn bytes_on_their_way_stay_booked_until_they_are_written() {
        let account = Arc::new(accounts(1 << 20, 1).remove(0));
        let small = account.hold(Bytes::from(vec![0; SMALL]));
        let large = account.hold(Bytes::from(vec![0; SMALL + 1]));
        assert_eq!(account.used.load(Ordering::Relaxed), SMALL + 1);
        drop((small, large));
        assert_eq!(account.used.load(Ordering::Relaxed), 0);
    }
}
