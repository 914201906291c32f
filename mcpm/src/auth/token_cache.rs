//! Caches data about tokens, such as the responses of an identity provider.
//!
//! Concurrent lookups of one token share one request, and the number of concurrent requests is limited. The cache is
//! bounded in entries and bytes. Entries of accepted tokens are never evicted for rejected tokens, because any caller
//! can send many different rejected tokens. Some of the concurrent requests are reserved for tokens that were accepted
//! recently.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, SystemTime},
};

use foldhash::quality::RandomState;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

/// Maximum number of concurrent lookups.
const MAX_CONCURRENT_LOOKUPS: usize = 32;
/// Additional lookups for tokens that were accepted recently.
const RESERVED: usize = 16;
/// How long a token counts as accepted recently.
const KNOWN_GOOD_TTL: Duration = Duration::from_secs(10 * 60);
/// How long a lookup waits for its turn.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of entries.
const MAX_ENTRIES: usize = 10_000;
/// Maximum total size of the entries in bytes.
const MAX_CACHE_BYTES: usize = 16 << 20;
/// Minimum interval between removals of expired entries.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// The SHA-256 digest of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TokenDigest([u8; 32]);

impl TokenDigest {
    pub(super) fn of(token: &str) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Self(bytes)
    }
}

/// The result for a token.
#[derive(Debug, Clone)]
pub(super) struct CachedToken<T> {
    pub(super) value: T,
    /// How long the entry is valid from now on.
    pub(super) ttl: Duration,
    /// When the entry expires by the wall clock, which also advances while the machine sleeps.
    pub(super) expires_at: Option<SystemTime>,
    /// Whether the token was accepted.
    pub(super) is_positive: bool,
    /// Approximate size in bytes.
    pub(super) size: usize,
}

/// Responses by token.
pub(super) struct TokenCache<T> {
    state: Mutex<TokenCacheState<T>>,
    /// One lock per token; the holder looks the token up.
    lookup_locks: Mutex<HashMap<TokenDigest, Weak<tokio::sync::Mutex<()>>>>,
    lookups: Semaphore,
    reserved: Semaphore,
}

struct TokenCacheState<T> {
    by_key: HashMap<TokenDigest, (CachedToken<T>, Instant), RandomState>,
    size: usize,
    swept: Instant,
    /// When tokens were last accepted.
    known_good: HashMap<TokenDigest, Instant>,
}

impl<T> Default for TokenCache<T> {
    fn default() -> Self {
        let state = TokenCacheState {
            by_key: HashMap::default(),
            size: 0,
            swept: Instant::now(),
            known_good: HashMap::new(),
        };
        let (room, reserved) = (Semaphore::new(MAX_CONCURRENT_LOOKUPS), Semaphore::new(RESERVED));
        Self { state: Mutex::new(state), lookup_locks: Mutex::default(), lookups: room, reserved }
    }
}

impl<T> std::fmt::Debug for TokenCache<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Answers(..)")
    }
}

impl<T: Clone> TokenCache<T> {
    /// Returns the cached response or fetches it, once for all callers that wait; `None` if the wait timed out.
    pub(super) async fn get_or_fetch(
        &self,
        key: TokenDigest,
        ask: impl Future<Output = CachedToken<T>>,
    ) -> Option<T> {
        if let Some(value) = self.get(&key) {
            return Some(value);
        }
        let turn = self.lookup_lock(key);
        let turns = async {
            let turn = turn.lock().await;
            // The previous holder of the lock may have fetched it.
            let cached = self.get(&key);
            let room = if cached.is_some() { None } else { self.acquire_lookup(&key).await };
            (turn, cached, room)
        };
        let (_turn, cached, _room) = tokio::time::timeout(LOOKUP_TIMEOUT, turns).await.ok()?;
        if cached.is_some() {
            return cached;
        }
        let answer = ask.await;
        let value = answer.value.clone();
        self.insert(key, answer);
        Some(value)
    }

    /// Stores a response, replacing an older one.
    pub(super) fn insert(&self, key: TokenDigest, answer: CachedToken<T>) {
        self.lock().put(key, answer);
    }

    /// Removes the response about a token if `is` returns true for it.
    pub(super) fn forget(&self, key: &TokenDigest, is: impl FnOnce(&T) -> bool) {
        let mut state = self.lock();
        if state.by_key.get(key).is_some_and(|(answer, _)| is(&answer.value)) {
            state.remove(key);
        }
    }

    async fn acquire_lookup(&self, key: &TokenDigest) -> Option<SemaphorePermit<'_>> {
        if !self.lock().is_known_good(key) {
            return self.lookups.acquire().await.ok();
        }
        tokio::select! {
            biased;
            room = self.lookups.acquire() => room.ok(),
            room = self.reserved.acquire() => room.ok(),
        }
    }

    fn lookup_lock(&self, key: TokenDigest) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.lookup_locks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(&key).and_then(Weak::upgrade) {
            return turn;
        }
        // Locks without waiters are removed when the map would have to grow.
        if turns.len() >= turns.capacity() {
            turns.retain(|_, turn| turn.strong_count() > 0);
        }
        let turn = Arc::default();
        turns.insert(key, Arc::downgrade(&turn));
        turn
    }

    /// Returns the cached response if it is still valid.
    pub(super) fn get(&self, key: &TokenDigest) -> Option<T> {
        let state = self.lock();
        let (answer, since) = state.by_key.get(key)?;
        answer.is_fresh(*since).then(|| answer.value.clone())
    }

    fn lock(&self) -> MutexGuard<'_, TokenCacheState<T>> {
        // No code panics while it holds the lock, so the state of a poisoned lock is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> CachedToken<T> {
    fn is_fresh(&self, since: Instant) -> bool {
        since.elapsed() < self.ttl && self.expires_at.is_none_or(|ends| SystemTime::now() < ends)
    }
}

impl<T> TokenCacheState<T> {
    fn put(&mut self, key: TokenDigest, answer: CachedToken<T>) {
        self.remove(&key);
        if answer.is_positive {
            self.mark_good(key);
        }
        if self.swept.elapsed() >= SWEEP_INTERVAL || self.is_full(&answer) {
            self.swept = Instant::now();
            self.retain(CachedToken::is_fresh);
        }
        if self.is_full(&answer) && answer.is_positive {
            self.retain(|answer, _| answer.is_positive);
        }
        if self.is_full(&answer) && answer.is_positive {
            // Evicts the older half, so that evictions are rare.
            let last = median(self.by_key.values().map(|(_, since)| *since));
            self.retain(|_, since| Some(since) > last);
        }
        // Rejected tokens must not evict accepted ones.
        if !self.is_full(&answer) && !answer.ttl.is_zero() {
            self.size += answer.size;
            self.by_key.insert(key, (answer, Instant::now()));
        }
    }

    fn is_known_good(&self, key: &TokenDigest) -> bool {
        self.known_good.get(key).is_some_and(|at| at.elapsed() < KNOWN_GOOD_TTL)
    }

    fn mark_good(&mut self, key: TokenDigest) {
        if self.known_good.len() >= MAX_ENTRIES && !self.known_good.contains_key(&key) {
            self.known_good.retain(|_, at| at.elapsed() < KNOWN_GOOD_TTL);
        }
        if self.known_good.len() >= MAX_ENTRIES
            && let Some(last) = median(self.known_good.values().copied())
        {
            self.known_good.retain(|_, at| *at > last);
        }
        self.known_good.insert(key, Instant::now());
    }

    fn is_full(&self, next: &CachedToken<T>) -> bool {
        self.by_key.len() >= MAX_ENTRIES || self.size + next.size > MAX_CACHE_BYTES
    }

    fn remove(&mut self, key: &TokenDigest) {
        if let Some((answer, _)) = self.by_key.remove(key) {
            self.size -= answer.size;
        }
    }

    fn retain(&mut self, stays: impl Fn(&CachedToken<T>, Instant) -> bool) {
        self.by_key.retain(|_, (answer, since)| stays(answer, *since));
        self.size = self.by_key.values().map(|(answer, _)| answer.size).sum();
    }
}

fn median(times: impl Iterator<Item = Instant>) -> Option<Instant> {
    let mut times: Vec<Instant> = times.collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use futures_util::{FutureExt as _, future::join_all};

    use super::*;

    fn answer<T>(value: T) -> CachedToken<T> {
        CachedToken { value, ttl: Duration::from_secs(10), expires_at: None, is_positive: true, size: 1 }
    }

    fn key(number: usize) -> TokenDigest {
        TokenDigest::of(&number.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_lookups_of_a_token_are_coalesced() {
        let (answers, count) = (TokenCache::default(), AtomicUsize::new(0));
        let ask = |number| {
            let count = &count;
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                count.fetch_add(1, Relaxed);
                answer(number)
            }
        };
        for number in [1, 2] {
            let all = join_all((0..50).map(|_| answers.get_or_fetch(key(number), ask(number)))).await;
            assert!(all.iter().all(|one| *one == Some(number)));
        }
        assert_eq!(count.load(Relaxed), 2);
        // The entry is valid for its TTL.
        tokio::time::advance(Duration::from_secs(8)).await;
        assert_eq!(answers.get_or_fetch(key(1), ask(3)).await, Some(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(answers.get_or_fetch(key(1), ask(3)).await, Some(3));
        answers.forget(&key(1), |value| *value == 4);
        assert_eq!(
            answers.get_or_fetch(key(1), ask(5)).await,
            Some(3),
            "another answer than the one to forget"
        );
        answers.forget(&key(1), |value| *value == 3);
        assert_eq!(answers.get_or_fetch(key(1), ask(5)).await, Some(5));
        let over = CachedToken { expires_at: Some(SystemTime::now()), ..answer(6) };
        answers.get_or_fetch(key(9), async { over }).await;
        assert_eq!(answers.get_or_fetch(key(9), ask(7)).await, Some(7), "the clock says that it is over");
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_lookups_are_bounded() {
        let (answers, now, peak) = (TokenCache::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let ask = |number: usize, time: Duration| {
            let (answers, now, peak) = (&answers, &now, &peak);
            answers.get_or_fetch(key(number), async move {
                peak.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
                tokio::time::sleep(time).await;
                now.fetch_sub(1, Relaxed);
                answer(number)
            })
        };
        let all = join_all((0..100).map(|number| ask(number, Duration::from_secs(1)))).await;
        assert!(all.iter().all(Option::is_some));
        assert_eq!(peak.load(Relaxed), MAX_CONCURRENT_LOOKUPS);
        // Lookups that wait too long return `None`.
        let all = join_all((100..140).map(|number| ask(number, LOOKUP_TIMEOUT * 2))).await;
        assert_eq!(all.iter().filter(|one| one.is_none()).count(), 40 - MAX_CONCURRENT_LOOKUPS);
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_tokens_do_not_delay_known_good_ones() {
        let answers = TokenCache::default();
        for number in 0..RESERVED {
            answers.get_or_fetch(key(number), async { answer(number) }).await;
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        let mut unknown = std::pin::pin!(join_all(
            (100..100 + 10 * MAX_CONCURRENT_LOOKUPS)
                .map(|number| answers.get_or_fetch(key(number), std::future::pending()))
        ));
        assert!(unknown.as_mut().now_or_never().is_none());
        let known =
            (0..RESERVED).map(|number| answers.get_or_fetch(key(number), async move { answer(number + 1) }));
        let known = tokio::time::timeout(Duration::from_secs(1), join_all(known)).await.expect("turns");
        assert_eq!(known, (1..=RESERVED).map(Some).collect::<Vec<_>>());
        let other = answers.get_or_fetch(key(99), async { answer(0) }).await;
        assert_eq!(other, None, "they wait for one another");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_lookup_is_taken_over_by_a_waiter() {
        let answers = TokenCache::default();
        let silent = answers.get_or_fetch(key(1), std::future::pending());
        assert!(tokio::time::timeout(Duration::from_secs(1), silent).await.is_err());
        assert_eq!(answers.get_or_fetch(key(1), async { answer(1) }).await, Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn expired_entries_are_removed() {
        let answers = TokenCache::default();
        for number in 0..100 {
            answers.get_or_fetch(key(number), async { answer(number) }).await;
        }
        assert_eq!(answers.lock().by_key.len(), 100);
        tokio::time::advance(SWEEP_INTERVAL).await;
        answers.get_or_fetch(key(100), async { answer(100) }).await;
        let state = answers.lock();
        assert_eq!((state.by_key.len(), state.size), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_tokens_do_not_evict_known_good_ones() {
        let answers = TokenCache::default();
        let bad = |value| CachedToken { is_positive: false, ..answer(value) };
        answers.get_or_fetch(key(0), async { answer(0) }).await;
        for number in 1..MAX_ENTRIES + 100 {
            answers.get_or_fetch(key(number), async { bad(number) }).await;
        }
        assert_eq!(answers.lock().by_key.len(), MAX_ENTRIES);
        assert_eq!(answers.get_or_fetch(key(0), async { answer(7) }).await, Some(0));
        // Accepted tokens evict rejected ones first, then the older half of the accepted ones.
        for number in MAX_ENTRIES + 100..2 * MAX_ENTRIES + 100 {
            answers.get_or_fetch(key(number), async { answer(number) }).await;
            tokio::time::advance(Duration::from_micros(1)).await;
        }
        let state = answers.lock();
        assert!(
            state.by_key.len() >= MAX_ENTRIES / 2 && state.by_key.len() <= MAX_ENTRIES,
            "{}",
            state.by_key.len()
        );
        assert!(state.by_key.values().all(|(answer, _)| answer.is_positive));
        assert!(state.by_key.contains_key(&key(2 * MAX_ENTRIES + 99)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_cache_is_bounded_in_bytes() {
        let answers = TokenCache::default();
        let large = |value| CachedToken { size: MAX_CACHE_BYTES / 4, ..answer(value) };
        for number in 0..20 {
            answers.get_or_fetch(key(number), async { large(number) }).await;
            tokio::time::advance(Duration::from_micros(1)).await;
            assert!(answers.lock().size <= MAX_CACHE_BYTES);
        }
        assert_eq!(answers.get_or_fetch(key(19), async { large(0) }).await, Some(19));
    }
}
