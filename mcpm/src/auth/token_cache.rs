//! What an identity provider answered about tokens, kept for a while.
//!
//! However many callers there are, it is asked about a token by one of them at a time, and about few tokens at once.
//! What is kept has bounds in number and size: who is let in decides how much there is of what holds, and strangers,
//! of whom there are any number, cannot drive that out. Nor can they keep those waiting whose tokens held a while ago,
//! for whom some turns are reserved.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, SystemTime},
};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

/// Most tokens that are asked about at once.
const MAX_CONCURRENT_LOOKUPS: usize = 32;
/// How many more may be asked about whose last answer was of use.
const RESERVED: usize = 16;
/// How long it counts that an answer was of use.
const KNOWN_GOOD_TTL: Duration = Duration::from_secs(10 * 60);
/// How long a token waits for its turn.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Most answers that are kept.
const MAX_ENTRIES: usize = 10_000;
/// Most bytes that they may have, all together.
const MAX_CACHE_BYTES: usize = 16 << 20;
/// How often those are taken out that hold no more.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// The SHA-256 of a token.
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

/// What was answered about a token.
#[derive(Debug, Clone)]
pub(super) struct CachedToken<T> {
    pub(super) value: T,
    /// How long it holds from now on.
    pub(super) ttl: Duration,
    /// When it ends by the clock, which goes on while the machine sleeps.
    pub(super) expires_at: Option<SystemTime>,
    /// Whether it is of use to somebody who was let in.
    pub(super) is_positive: bool,
    /// About how many bytes it has.
    pub(super) size: usize,
}

/// Answers by token.
pub(super) struct TokenCache<T> {
    state: Mutex<TokenCacheState<T>>,
    /// Held by who asks about a token.
    lookup_locks: Mutex<HashMap<TokenDigest, Weak<tokio::sync::Mutex<()>>>>,
    lookups: Semaphore,
    reserved: Semaphore,
}

struct TokenCacheState<T> {
    by_key: HashMap<TokenDigest, (CachedToken<T>, Instant)>,
    size: usize,
    swept: Instant,
    /// When the answers were of use that were so last.
    known_good: HashMap<TokenDigest, Instant>,
}

impl<T> Default for TokenCache<T> {
    fn default() -> Self {
        let kept = TokenCacheState {
            by_key: HashMap::new(),
            size: 0,
            swept: Instant::now(),
            known_good: HashMap::new(),
        };
        let (room, reserved) = (Semaphore::new(MAX_CONCURRENT_LOOKUPS), Semaphore::new(RESERVED));
        Self { state: Mutex::new(kept), lookup_locks: Mutex::default(), lookups: room, reserved }
    }
}

impl<T> std::fmt::Debug for TokenCache<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Answers(..)")
    }
}

impl<T: Clone> TokenCache<T> {
    /// What was answered, or is answered now: to one who asks, for all who wait. `None` for who waited in vain.
    pub(super) async fn get_or_fetch(
        &self,
        key: TokenDigest,
        ask: impl Future<Output = CachedToken<T>>,
    ) -> Option<T> {
        if let Some(said) = self.get(&key) {
            return Some(said);
        }
        let turn = self.lookup_lock(key);
        let turns = async {
            let turn = turn.lock().await;
            // Whoever had it before may have asked.
            let kept = self.get(&key);
            let room = if kept.is_some() { None } else { self.acquire_lookup(&key).await };
            (turn, kept, room)
        };
        let (_turn, kept, _room) = tokio::time::timeout(LOOKUP_TIMEOUT, turns).await.ok()?;
        if kept.is_some() {
            return kept;
        }
        let answer = ask.await;
        let said = answer.value.clone();
        self.insert(key, answer);
        Some(said)
    }

    /// Keeps an answer, in place of an older one.
    pub(super) fn insert(&self, key: TokenDigest, answer: CachedToken<T>) {
        self.lock().put(key, answer);
    }

    /// Forgets what was answered about a token, if that is what `is` says.
    pub(super) fn forget(&self, key: &TokenDigest, is: impl FnOnce(&T) -> bool) {
        let mut kept = self.lock();
        if kept.by_key.get(key).is_some_and(|(answer, _)| is(&answer.value)) {
            kept.remove(key);
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
        // Those that nobody waits for any more go when they are the greater part.
        if turns.len() >= turns.capacity() {
            turns.retain(|_, turn| turn.strong_count() > 0);
        }
        let turn = Arc::default();
        turns.insert(key, Arc::downgrade(&turn));
        turn
    }

    /// What was answered, if that holds yet.
    pub(super) fn get(&self, key: &TokenDigest) -> Option<T> {
        let kept = self.lock();
        let (answer, since) = kept.by_key.get(key)?;
        answer.is_fresh(*since).then(|| answer.value.clone())
    }

    fn lock(&self) -> MutexGuard<'_, TokenCacheState<T>> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
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
            // The older half, so that this is rare.
            let last = median(self.by_key.values().map(|(_, since)| *since));
            self.retain(|_, since| Some(since) > last);
        }
        // What is asked about by strangers must not drive out what is of use.
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

    fn answer<T>(said: T) -> CachedToken<T> {
        CachedToken {
            value: said,
            ttl: Duration::from_secs(10),
            expires_at: None,
            is_positive: true,
            size: 1,
        }
    }

    fn key(number: usize) -> TokenDigest {
        TokenDigest::of(&number.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_lookups_of_a_token_are_coalesced() {
        let (answers, asked) = (TokenCache::default(), AtomicUsize::new(0));
        let ask = |number| {
            let asked = &asked;
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                asked.fetch_add(1, Relaxed);
                answer(number)
            }
        };
        for number in [1, 2] {
            let all = join_all((0..50).map(|_| answers.get_or_fetch(key(number), ask(number)))).await;
            assert!(all.iter().all(|one| *one == Some(number)));
        }
        assert_eq!(asked.load(Relaxed), 2);
        // It holds for as long as it says.
        tokio::time::advance(Duration::from_secs(8)).await;
        assert_eq!(answers.get_or_fetch(key(1), ask(3)).await, Some(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(answers.get_or_fetch(key(1), ask(3)).await, Some(3));
        answers.forget(&key(1), |said| *said == 4);
        assert_eq!(
            answers.get_or_fetch(key(1), ask(5)).await,
            Some(3),
            "another answer than the one to forget"
        );
        answers.forget(&key(1), |said| *said == 3);
        assert_eq!(answers.get_or_fetch(key(1), ask(5)).await, Some(5));
        let over = CachedToken { expires_at: Some(SystemTime::now()), ..answer(6) };
        answers.get_or_fetch(key(9), async { over }).await;
        assert_eq!(answers.get_or_fetch(key(9), ask(7)).await, Some(7), "the clock says that it is over");
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_lookups_are_bounded() {
        let (answers, now, most) = (TokenCache::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let ask = |number: usize, time: Duration| {
            let (answers, now, most) = (&answers, &now, &most);
            answers.get_or_fetch(key(number), async move {
                most.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
                tokio::time::sleep(time).await;
                now.fetch_sub(1, Relaxed);
                answer(number)
            })
        };
        let all = join_all((0..100).map(|number| ask(number, Duration::from_secs(1)))).await;
        assert!(all.iter().all(Option::is_some));
        assert_eq!(most.load(Relaxed), MAX_CONCURRENT_LOOKUPS);
        // Who waits too long is told to come again.
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
        let mut strangers = std::pin::pin!(join_all(
            (100..100 + 10 * MAX_CONCURRENT_LOOKUPS)
                .map(|number| answers.get_or_fetch(key(number), std::future::pending()))
        ));
        assert!(strangers.as_mut().now_or_never().is_none());
        let known =
            (0..RESERVED).map(|number| answers.get_or_fetch(key(number), async move { answer(number + 1) }));
        let known = tokio::time::timeout(Duration::from_secs(1), join_all(known)).await.expect("turns");
        assert_eq!(known, (1..=RESERVED).map(Some).collect::<Vec<_>>());
        let stranger = answers.get_or_fetch(key(99), async { answer(0) }).await;
        assert_eq!(stranger, None, "they wait for one another");
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
        let kept = answers.lock();
        assert_eq!((kept.by_key.len(), kept.size), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_tokens_do_not_evict_known_good_ones() {
        let answers = TokenCache::default();
        let bad = |said| CachedToken { is_positive: false, ..answer(said) };
        answers.get_or_fetch(key(0), async { answer(0) }).await;
        for number in 1..MAX_ENTRIES + 100 {
            answers.get_or_fetch(key(number), async { bad(number) }).await;
        }
        assert_eq!(answers.lock().by_key.len(), MAX_ENTRIES);
        assert_eq!(answers.get_or_fetch(key(0), async { answer(7) }).await, Some(0));
        // Who is let in drives strangers out, and then the older half of their like.
        for number in MAX_ENTRIES + 100..2 * MAX_ENTRIES + 100 {
            answers.get_or_fetch(key(number), async { answer(number) }).await;
            tokio::time::advance(Duration::from_micros(1)).await;
        }
        let kept = answers.lock();
        assert!(
            kept.by_key.len() >= MAX_ENTRIES / 2 && kept.by_key.len() <= MAX_ENTRIES,
            "{}",
            kept.by_key.len()
        );
        assert!(kept.by_key.values().all(|(answer, _)| answer.is_positive));
        assert!(kept.by_key.contains_key(&key(2 * MAX_ENTRIES + 99)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_cache_is_bounded_in_bytes() {
        let answers = TokenCache::default();
        let large = |said| CachedToken { size: MAX_CACHE_BYTES / 4, ..answer(said) };
        for number in 0..20 {
            answers.get_or_fetch(key(number), async { large(number) }).await;
            tokio::time::advance(Duration::from_micros(1)).await;
            assert!(answers.lock().size <= MAX_CACHE_BYTES);
        }
        assert_eq!(answers.get_or_fetch(key(19), async { large(0) }).await, Some(19));
    }
}
