//! Accounts for the memory that clients and servers can make the proxy hold.
//!
//! Data that is held until somebody reads, answers or finishes it is charged to an account: a request body that is
//! being read, lines queued for a server's pipe, unread messages on a stream. All accounts share one budget. An
//! account may hold at most twice the unused part of the budget (a dynamic threshold, as in shared-memory switches:
//! Choudhury and Hahne, 1998). A single greedy client can therefore use at most two thirds of the budget, several
//! greedy clients get equal shares, and there is always room for a client that needs little.
//!
//! Queues and streams may exceed the budget by a small reserve that is shared in the same way, so that a small
//! message is rarely rejected because of others. Bodies may not exceed the budget.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::{Bytes, BytesMut};

use crate::rate_limit::LogLimit;

/// Most bytes held by all accounts.
pub(crate) const MEMORY_BUDGET_BYTES: usize = 48 << 20;
/// Most bytes by which small accounts may exceed the budget, together.
const RESERVE: usize = 16 << 20;
/// An account may hold one part in this many of the rest of the reserve: 64 KiB at first, and less when hundreds of
/// accounts use the reserve.
const PARTS: usize = 256;
/// A message or body up to this size is not charged: connections and calls are limited in number.
const MAX_UNRESERVED_BYTES: usize = 16 << 10;

/// The budget of this process: it protects the memory of the process, however many proxies run in it.
static BUDGET: Budget = Budget::new(MEMORY_BUDGET_BYTES);

/// Whether bytes are so few that they are not charged while they are written.
pub(crate) fn is_small(bytes: &Bytes) -> bool {
    bytes.len() <= MAX_UNRESERVED_BYTES
}

/// The bytes held by all accounts.
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

/// The caller whose account is charged.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Payer {
    /// An authenticated caller, by issuer and subject.
    Person(Arc<str>),
    /// An unauthenticated caller, by address or network.
    Peer(IpAddr),
    /// All unauthenticated callers of this machine, or behind a reverse proxy, which cannot be distinguished.
    Unknown,
}

/// The accounts of callers.
static PAYERS: LazyLock<Mutex<HashMap<Payer, Weak<Account>>>> = LazyLock::new(Mutex::default);

/// The memory held for one caller, stream or process. Dropping it releases everything.
#[derive(Debug)]
pub(crate) struct Account {
    budget: &'static Budget,
    used: AtomicUsize,
    payer: Option<Payer>,
}

impl Default for Account {
    fn default() -> Self {
        Self { budget: &BUDGET, used: AtomicUsize::new(0), payer: None }
    }
}

impl Account {
    /// Creates an account for one stream or process.
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Returns the one account of a caller, however many requests, sessions and proxies it uses.
    pub(crate) fn of(payer: Payer) -> Arc<Self> {
        let mut payers = lock(&PAYERS);
        let known = payers.get(&payer).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let new =
                Arc::new(Self { budget: &BUDGET, used: AtomicUsize::new(0), payer: Some(payer.clone()) });
            payers.insert(payer, Arc::downgrade(&new));
            new
        })
    }

    /// Reserves `bytes` if there is room for them.
    #[must_use = "if there is no room, the data must not be kept"]
    pub(crate) fn try_reserve(&self, bytes: usize) -> bool {
        // Two concurrent reservations may both pass: the threshold is approximate.
        let fits = self.has_room(bytes);
        if fits {
            self.reserve(bytes);
        }
        fits
    }

    /// Whether there is room for `bytes` more, in the budget or in the reserve of small accounts.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.has_share(bytes) || self.with(bytes) <= self.left_of(self.budget.limit + RESERVE, bytes) / PARTS
    }

    /// Whether there is room for `bytes` more in the budget.
    fn has_share(&self, bytes: usize) -> bool {
        self.with(bytes) <= self.left_of(self.budget.limit, bytes).saturating_mul(2)
    }

    /// Returns the size of this account with `bytes` more.
    fn with(&self, bytes: usize) -> usize {
        self.used.load(Ordering::Relaxed).saturating_add(bytes)
    }

    /// Returns what is left of `limit` with `bytes` more in all accounts.
    fn left_of(&self, limit: usize, bytes: usize) -> usize {
        limit.saturating_sub(self.budget.used.load(Ordering::Relaxed).saturating_add(bytes))
    }

    /// Reserves `bytes` even if there is no room, for data that is limited elsewhere.
    pub(crate) fn reserve(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.budget.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Charges bytes on their way to a client until the connection has written them. They were already charged in
    /// another form, so there is room.
    pub(crate) fn reserve_until_dropped(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        if is_small(&bytes) {
            return bytes;
        }
        self.reserve(bytes.len());
        Bytes::from_owner(ReservedBytes { bytes, account: Arc::clone(self) })
    }

    /// Releases reserved bytes.
    pub(crate) fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The account of a response, created at the first charge: most responses are small and not charged.
#[derive(Debug)]
pub(crate) struct LazyAccount {
    payer: Option<Payer>,
    account: OnceLock<Arc<Account>>,
}

impl LazyAccount {
    /// The account of a caller; without one, an account of its own.
    pub(crate) fn new(payer: Option<Payer>) -> Self {
        Self { payer, account: OnceLock::new() }
    }

    /// Returns the account.
    pub(crate) fn get(&self) -> Arc<Account> {
        let create = || self.payer.clone().map_or_else(Account::new, Account::of);
        Arc::clone(self.account.get_or_init(create))
    }

    /// Charges bytes on their way to a client, like [`Account::reserve_until_dropped`].
    pub(crate) fn reserve_until_dropped(&self, bytes: Bytes) -> Bytes {
        if is_small(&bytes) { bytes } else { self.get().reserve_until_dropped(bytes) }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(*self.used.get_mut(), Ordering::Relaxed);
        if let Some(payer) = self.payer.take() {
            let mut payers = lock(&PAYERS);
            // A new account may exist for the same caller.
            if payers.get(&payer).is_some_and(|account| account.strong_count() == 0) {
                payers.remove(&payer);
            }
        }
    }
}

/// Logs that something was dropped for lack of memory.
pub(crate) fn warn_no_room(what: &'static str) {
    static LOG: LogLimit = LogLimit::new();
    if let Some(suppressed) = LOG.admit(what) {
        tracing::warn!(what, suppressed, "the memory budget for clients and servers is exhausted");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that are charged until they are dropped.
struct ReservedBytes {
    bytes: Bytes,
    account: Arc<Account>,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for ReservedBytes {
    fn drop(&mut self) {
        self.account.release(self.bytes.len());
    }
}

/// The reservation of a buffer that grows and shrinks, from a minimum size on.
#[derive(Debug, Default)]
pub(crate) struct Reservation {
    account: Arc<Account>,
    reserved: usize,
}

impl Reservation {
    /// Creates a reservation on an account that others use too.
    pub(crate) fn of(account: Arc<Account>) -> Self {
        Self { account, reserved: 0 }
    }

    /// Charges bytes made from the buffer that are on their way to a client.
    pub(crate) fn reserve_until_dropped(&self, bytes: Bytes) -> Bytes {
        self.account.reserve_until_dropped(bytes)
    }

    /// Adjusts the reservation to `bytes`; returns `false`, without a change, if there is no room.
    #[must_use = "if there is no room, the data must not be kept"]
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        let more = counted(bytes).saturating_sub(self.reserved);
        let fits = more == 0 || self.account.try_reserve(more);
        if fits {
            self.shrink(bytes);
            self.reserved += more;
        }
        fits
    }

    /// Releases what a buffer of `bytes` does not need.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let less = self.reserved.saturating_sub(counted(bytes));
        if less > 0 {
            self.account.release(less);
            self.reserved -= less;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.account.release(self.reserved);
    }
}

/// Returns the part of a size that is charged.
fn counted(bytes: usize) -> usize {
    if bytes <= MAX_UNRESERVED_BYTES { 0 } else { bytes }
}

/// A body that is read in chunks, and stays charged until the last reference to its bytes is dropped.
#[derive(Debug)]
pub(crate) struct ReservedBuffer {
    bytes: BytesMut,
    reservation: Reservation,
}

impl ReservedBuffer {
    /// Creates an empty buffer, charged to the account of the caller.
    pub(crate) fn new(account: Arc<Account>) -> Self {
        Self { bytes: BytesMut::new(), reservation: Reservation::of(account) }
    }

    /// Appends a chunk; returns `false`, without a change, if there is no room.
    pub(crate) fn append(&mut self, piece: &[u8]) -> bool {
        let all = self.bytes.len() + piece.len();
        let more = counted(all).saturating_sub(self.reservation.reserved);
        let fits = (more == 0 || self.reservation.account.has_share(more)) && self.reservation.resize(all);
        if fits {
            self.bytes.extend_from_slice(piece);
        }
        fits
    }

    /// Returns the length.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes, which stay charged while any part of them is referenced.
    pub(crate) fn freeze(self) -> Bytes {
        if self.reservation.reserved == 0 {
            return self.bytes.freeze();
        }
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for ReservedBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts(limit: usize, count: usize) -> Vec<Account> {
        let budget: &'static Budget = Box::leak(Box::new(Budget::new(limit)));
        (0..count).map(|_| Account { budget, used: AtomicUsize::new(0), payer: None }).collect()
    }

    fn take_all(account: &Account) -> usize {
        while account.try_reserve(1 << 10) {}
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
    fn a_small_account_finds_room_beside_hundreds_of_greedy_ones() {
        for (greedy, room) in [(20, 48 << 10), (300, 16 << 10), (1000, 1 << 10)] {
            let mut accounts = accounts(48 << 20, greedy + 1);
            for _ in 0..3 {
                for account in &accounts[1..] {
                    take_all(account);
                }
            }
            assert!(accounts[0].has_room(room), "{greedy}");
            let held = accounts[0].budget.used.load(Ordering::Relaxed);
            assert!(held <= (48 << 20) + RESERVE, "{held}");
            accounts.truncate(1);
            assert_eq!(accounts[0].budget.used.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn bodies_of_one_caller_leave_room_for_others_and_none_uses_the_reserve() {
        let mut accounts = accounts(48 << 20, 2).into_iter().map(Arc::new);
        let (greedy, other) = (accounts.next().expect("one"), accounts.next().expect("another"));
        let read = |account: &Arc<Account>, length: usize| {
            let mut buffer = ReservedBuffer::new(Arc::clone(account));
            while buffer.len() < length {
                if !buffer.append(&[0; 4 << 10]) {
                    return Err(buffer);
                }
            }
            Ok(buffer)
        };
        let large: Vec<_> = (0..4).map(|_| read(&greedy, 16 << 20)).collect();
        assert_eq!(large.iter().filter(|read| read.is_ok()).count(), 2);
        assert!(read(&other, 8 << 20).is_ok());
        // A size below the minimum needs no room.
        let small: Vec<_> = (0..300).map(|_| read(&greedy, 64 << 10)).collect();
        assert!(
            small.iter().all(|read| read.as_ref().is_err_and(|buffer| buffer.len() == MAX_UNRESERVED_BYTES))
        );
        assert!(greedy.budget.used.load(Ordering::Relaxed) <= greedy.budget.limit);
        assert!(other.has_room(48 << 10));
    }

    #[test]
    fn a_caller_has_one_account_as_long_as_anything_is_kept() {
        let payer = || Payer::Person("one who has one account".into());
        let (first, second) = (Account::of(payer()), Account::of(payer()));
        assert!(Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&first, &Account::of(Payer::Peer([192, 0, 2, 1].into()))));
        drop((first, second));
        assert!(!lock(&PAYERS).contains_key(&payer()));
    }

    #[test]
    fn a_booking_is_given_back_with_its_buffer() {
        let account = Arc::new(accounts(1 << 20, 1).remove(0));
        let mut booking = Reservation::of(Arc::clone(&account));
        assert!(booking.resize(100 << 10) && booking.resize(200 << 10) && !booking.resize(2 << 20));
        assert_eq!(account.used.load(Ordering::Relaxed), 200 << 10);
        booking.shrink(50 << 10);
        assert_eq!(account.used.load(Ordering::Relaxed), 50 << 10);
        drop(booking);
        assert_eq!(account.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_buffer_stays_reserved_until_its_bytes_are_dropped() {
        let account = accounts(1 << 20, 1).remove(0);
        let budget = account.budget;
        let mut buffer = ReservedBuffer::new(Arc::new(account));
        assert!(buffer.append(&[0; MAX_UNRESERVED_BYTES]));
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
        assert!(buffer.append(&[0; MAX_UNRESERVED_BYTES]));
        assert!(!buffer.append(&[0; 1 << 20]));
        let bytes = buffer.freeze();
        let part = bytes.slice(..1);
        drop(bytes);
        assert_eq!(budget.used.load(Ordering::Relaxed), 2 * MAX_UNRESERVED_BYTES);
        drop(part);
        assert_eq!(budget.used.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn outgoing_bytes_stay_reserved_until_they_are_written() {
        let account = Arc::new(accounts(1 << 20, 1).remove(0));
        let small = account.reserve_until_dropped(Bytes::from(vec![0; MAX_UNRESERVED_BYTES]));
        let large = account.reserve_until_dropped(Bytes::from(vec![0; MAX_UNRESERVED_BYTES + 1]));
        assert_eq!(account.used.load(Ordering::Relaxed), MAX_UNRESERVED_BYTES + 1);
        drop((small, large));
        assert_eq!(account.used.load(Ordering::Relaxed), 0);
    }
}
