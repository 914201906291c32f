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
const AT_ONCE: usize = 32;
/// How many more may be asked about whose last answer was of use.
const RESERVED: usize = 16;
/// How long it counts that an answer was of use.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);
/// How long a token waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most answers that are kept.
const MOST: usize = 10_000;
/// Most bytes that they may have, all together.
const HEAVIEST: usize = 16 << 20;
/// How often those are taken out that hold no more.
const SWEEP: Duration = Duration::from_secs(30);

/// The SHA-256 of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

impl Key {
    pub(super) fn of(token: &str) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, token.as_bytes());
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Self(bytes)
    }
}

/// What was answered about a token.
#[derive(Debug, Clone)]
pub(super) struct Answer<T> {
    pub(super) said: T,
    /// How long it holds from now on.
    pub(super) holds: Duration,
    /// When it ends by the clock, which goes on while the machine sleeps.
    pub(super) ends: Option<SystemTime>,
    /// Whether it is of use to somebody who was let in.
    pub(super) good: bool,
    /// About how many bytes it has.
    pub(super) size: usize,
}

/// Answers by token.
pub(super) struct Answers<T> {
    kept: Mutex<Kept<T>>,
    /// Held by who asks about a token.
    turns: Mutex<HashMap<Key, Weak<tokio::sync::Mutex<()>>>>,
    room: Semaphore,
    reserved: Semaphore,
}

struct Kept<T> {
    by_key: HashMap<Key, (Answer<T>, Instant)>,
    size: usize,
    swept: Instant,
    /// When the answers were of use that were so last.
    good: HashMap<Key, Instant>,
}

impl<T> Default for Answers<T> {
    fn default() -> Self {
        let kept = Kept { by_key: HashMap::new(), size: 0, swept: Instant::now(), good: HashMap::new() };
        let (room, reserved) = (Semaphore::new(AT_ONCE), Semaphore::new(RESERVED));
        Self { kept: Mutex::new(kept), turns: Mutex::default(), room, reserved }
    }
}

impl<T> std::fmt::Debug for Answers<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Answers(..)")
    }
}

impl<T: Clone> Answers<T> {
    /// What was answered, or is answered now: to one who asks, for all who wait. `None` for who waited in vain.
    pub(super) async fn once(&self, key: Key, ask: impl Future<Output = Answer<T>>) -> Option<T> {
        if let Some(said) = self.kept(&key) {
            return Some(said);
        }
        let turn = self.turn(key);
        let turns = async {
            let turn = turn.lock().await;
            // Whoever had it before may have asked.
            let kept = self.kept(&key);
            let room = if kept.is_some() { None } else { self.room(&key).await };
            (turn, kept, room)
        };
        let (_turn, kept, _room) = tokio::time::timeout(PATIENCE, turns).await.ok()?;
        if kept.is_some() {
            return kept;
        }
        let answer = ask.await;
        let said = answer.said.clone();
        self.keep(key, answer);
        Some(said)
    }

    /// Keeps an answer, in place of an older one.
    pub(super) fn keep(&self, key: Key, answer: Answer<T>) {
        self.lock().put(key, answer);
    }

    /// Forgets what was answered about a token, if that is what `is` says.
    pub(super) fn forget(&self, key: &Key, is: impl FnOnce(&T) -> bool) {
        let mut kept = self.lock();
        if kept.by_key.get(key).is_some_and(|(answer, _)| is(&answer.said)) {
            kept.remove(key);
        }
    }

    async fn room(&self, key: &Key) -> Option<SemaphorePermit<'_>> {
        if !self.lock().was_good(key) {
            return self.room.acquire().await.ok();
        }
        tokio::select! {
            biased;
            room = self.room.acquire() => room.ok(),
            room = self.reserved.acquire() => room.ok(),
        }
    }

    fn turn(&self, key: Key) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
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
    pub(super) fn kept(&self, key: &Key) -> Option<T> {
        let kept = self.lock();
        let (answer, since) = kept.by_key.get(key)?;
        answer.holds_yet(*since).then(|| answer.said.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Kept<T>> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Answer<T> {
    fn holds_yet(&self, since: Instant) -> bool {
        since.elapsed() < self.holds && self.ends.is_none_or(|ends| SystemTime::now() < ends)
    }
}

impl<T> Kept<T> {
    fn put(&mut self, key: Key, answer: Answer<T>) {
        self.remove(&key);
        if answer.good {
            self.remember(key);
        }
        if self.swept.elapsed() >= SWEEP || self.is_full(&answer) {
            self.swept = Instant::now();
            self.retain(Answer::holds_yet);
        }
        if self.is_full(&answer) && answer.good {
            self.retain(|answer, _| answer.good);
        }
        if self.is_full(&answer) && answer.good {
            // The older half, so that this is rare.
            let last = median(self.by_key.values().map(|(_, since)| *since));
            self.retain(|_, since| Some(since) > last);
        }
        // What is asked about by strangers must not drive out what is of use.
        if !self.is_full(&answer) && !answer.holds.is_zero() {
            self.size += answer.size;
            self.by_key.insert(key, (answer, Instant::now()));
        }
    }

    fn was_good(&self, key: &Key) -> bool {
        self.good.get(key).is_some_and(|at| at.elapsed() < REMEMBERED)
    }

    fn remember(&mut self, key: Key) {
        if self.good.len() >= MOST && !self.good.contains_key(&key) {
            self.good.retain(|_, at| at.elapsed() < REMEMBERED);
        }
        if self.good.len() >= MOST
            && let Some(last) = median(self.good.values().copied())
        {
            self.good.retain(|_, at| *at > last);
        }
        self.good.insert(key, Instant::now());
    }

    fn is_full(&self, next: &Answer<T>) -> bool {
        self.by_key.len() >= MOST || self.size + next.size > HEAVIEST
    }

    fn remove(&mut self, key: &Key) {
        if let Some((answer, _)) = self.by_key.remove(key) {
            self.size -= answer.size;
        }
    }

    fn retain(&mut self, stays: impl Fn(&Answer<T>, Instant) -> bool) {
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

    fn answer<T>(said: T) -> Answer<T> {
        Answer { said, holds: Duration::from_secs(10), ends: None, good: true, size: 1 }
    }

    fn key(number: usize) -> Key {
        Key::of(&number.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn one_asks_about_a_token_for_all_who_wait() {
        let (answers, asked) = (Answers::default(), AtomicUsize::new(0));
        let ask = |number| {
            let asked = &asked;
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                asked.fetch_add(1, Relaxed);
                answer(number)
            }
        };
        for number in [1, 2] {
            let all = join_all((0..50).map(|_| answers.once(key(number), ask(number)))).await;
            assert!(all.iter().all(|one| *one == Some(number)));
        }
        assert_eq!(asked.load(Relaxed), 2);
        // It holds for as long as it says.
        tokio::time::advance(Duration::from_secs(8)).await;
        assert_eq!(answers.once(key(1), ask(3)).await, Some(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(answers.once(key(1), ask(3)).await, Some(3));
        answers.forget(&key(1), |said| *said == 4);
        assert_eq!(answers.once(key(1), ask(5)).await, Some(3), "another answer than the one to forget");
        answers.forget(&key(1), |said| *said == 3);
        assert_eq!(answers.once(key(1), ask(5)).await, Some(5));
        let over = Answer { ends: Some(SystemTime::now()), ..answer(6) };
        answers.once(key(9), async { over }).await;
        assert_eq!(answers.once(key(9), ask(7)).await, Some(7), "the clock says that it is over");
    }

    #[tokio::test(start_paused = true)]
    async fn few_tokens_are_asked_about_at_once() {
        let (answers, now, most) = (Answers::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let ask = |number: usize, time: Duration| {
            let (answers, now, most) = (&answers, &now, &most);
            answers.once(key(number), async move {
                most.fetch_max(now.fetch_add(1, Relaxed) + 1, Relaxed);
                tokio::time::sleep(time).await;
                now.fetch_sub(1, Relaxed);
                answer(number)
            })
        };
        let all = join_all((0..100).map(|number| ask(number, Duration::from_secs(1)))).await;
        assert!(all.iter().all(Option::is_some));
        assert_eq!(most.load(Relaxed), AT_ONCE);
        // Who waits too long is told to come again.
        let all = join_all((100..140).map(|number| ask(number, PATIENCE * 2))).await;
        assert_eq!(all.iter().filter(|one| one.is_none()).count(), 40 - AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_do_not_keep_those_waiting_whose_tokens_held() {
        let answers = Answers::default();
        for number in 0..RESERVED {
            answers.once(key(number), async { answer(number) }).await;
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        let mut strangers = std::pin::pin!(join_all(
            (100..100 + 10 * AT_ONCE).map(|number| answers.once(key(number), std::future::pending()))
        ));
        assert!(strangers.as_mut().now_or_never().is_none());
        let known = (0..RESERVED).map(|number| answers.once(key(number), async move { answer(number + 1) }));
        let known = tokio::time::timeout(Duration::from_secs(1), join_all(known)).await.expect("turns");
        assert_eq!(known, (1..=RESERVED).map(Some).collect::<Vec<_>>());
        let stranger = answers.once(key(99), async { answer(0) }).await;
        assert_eq!(stranger, None, "they wait for one another");
    }

    #[tokio::test(start_paused = true)]
    async fn who_hangs_up_leaves_the_question_to_the_next() {
        let answers = Answers::default();
        let silent = answers.once(key(1), std::future::pending());
        assert!(tokio::time::timeout(Duration::from_secs(1), silent).await.is_err());
        assert_eq!(answers.once(key(1), async { answer(1) }).await, Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_of_no_use_any_more_is_not_kept() {
        let answers = Answers::default();
        for number in 0..100 {
            answers.once(key(number), async { answer(number) }).await;
        }
        assert_eq!(answers.lock().by_key.len(), 100);
        tokio::time::advance(SWEEP).await;
        answers.once(key(100), async { answer(100) }).await;
        let kept = answers.lock();
        assert_eq!((kept.by_key.len(), kept.size), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_do_not_drive_out_those_who_were_let_in() {
        let answers = Answers::default();
        let bad = |said| Answer { good: false, ..answer(said) };
        answers.once(key(0), async { answer(0) }).await;
        for number in 1..MOST + 100 {
            answers.once(key(number), async { bad(number) }).await;
        }
        assert_eq!(answers.lock().by_key.len(), MOST);
        assert_eq!(answers.once(key(0), async { answer(7) }).await, Some(0));
        // Who is let in drives strangers out, and then the older half of their like.
        for number in MOST + 100..2 * MOST + 100 {
            answers.once(key(number), async { answer(number) }).await;
            tokio::time::advance(Duration::from_micros(1)).await;
        }
        let kept = answers.lock();
        assert!(kept.by_key.len() >= MOST / 2 && kept.by_key.len() <= MOST, "{}", kept.by_key.len());
        assert!(kept.by_key.values().all(|(answer, _)| answer.good));
        assert!(kept.by_key.contains_key(&key(2 * MOST + 99)));
    }

    #[tokio::test(start_paused = true)]
    async fn large_answers_are_fewer() {
        let answers = Answers::default();
        let large = |said| Answer { size: HEAVIEST / 4, ..answer(said) };
        for number in 0..20 {
            answers.once(key(number), async { large(number) }).await;
            tokio::time::advance(Duration::from_micros(1)).await;
            assert!(answers.lock().size <= HEAVIEST);
        }
        assert_eq!(answers.once(key(19), async { large(0) }).await, Some(19));
    }
}
