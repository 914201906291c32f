//! One document of an identity provider, kept and fetched again when that is due.
//!
//! One request fetches at a time, and whoever waited for it takes its outcome. A document that is due is used until
//! there is a newer one, up to a bound: a provider that is down for a while costs nobody their work.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Semaphore, time::Instant};

use crate::{Error, ErrorKind, Result};

/// After that a document is due.
const DUE: Duration = Duration::from_secs(10 * 60);
/// After that it is of no use any more.
const USELESS: Duration = Duration::from_secs(24 * 3600);
/// Pause after a failure while there is a document to use.
const PAUSE: Duration = Duration::from_secs(30);
/// Pause between two fetches that a token asks for, which anybody can send.
const ASKED_PAUSE: Duration = Duration::from_secs(30);

/// A document, once it was fetched.
#[derive(Debug)]
pub(super) struct Kept<T> {
    state: Mutex<State<T>>,
    turn: Semaphore,
}

#[derive(Debug)]
struct State<T> {
    document: Option<(Arc<T>, Instant)>,
    /// Fetches that came to an end, and how the last one did.
    done: u64,
    failure: Option<(String, Instant)>,
    /// When a token last asked for a fetch.
    asked: Option<Instant>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        let state = State { document: None, done: 0, failure: None, asked: None };
        Self { state: Mutex::new(state), turn: Semaphore::new(1) }
    }
}

impl<T> Kept<T> {
    /// The document, fetched if it is due.
    ///
    /// # Errors
    /// `Upstream` when there is none and it cannot be fetched.
    pub(super) async fn get(&self, fetch: impl Future<Output = Result<T>>) -> Result<Arc<T>> {
        let (seen, usable) = {
            let state = self.lock();
            let now = Instant::now();
            match &state.document {
                Some((document, since)) if now - *since < DUE => return Ok(Arc::clone(document)),
                Some((document, since)) if now - *since < USELESS => {
                    let paused = state.failure.as_ref().is_some_and(|(_, at)| now - *at < PAUSE);
                    if paused {
                        return Ok(Arc::clone(document));
                    }
                    (state.done, Some(Arc::clone(document)))
                }
                _ => (state.done, None),
            }
        };
        let Some(old) = usable else { return self.fetch(seen, fetch).await };
        // One request sees to it; the others need not wait.
        let Ok(_turn) = self.turn.try_acquire() else { return Ok(old) };
        match fetch.await {
            Ok(document) => Ok(self.settle(document)),
            Err(error) => {
                tracing::warn!(%error, "a document of the identity provider is due and cannot be fetched");
                self.fail(&error);
                Ok(old)
            }
        }
    }

    /// A document that is newer than `old`, in which a token has not found what it needs; `None` when that was
    /// asked for a moment ago, or it cannot be fetched.
    pub(super) async fn newer(&self, old: &Arc<T>, fetch: impl Future<Output = Result<T>>) -> Option<Arc<T>> {
        let Ok(_turn) = self.turn.acquire().await else { return None };
        {
            let mut state = self.lock();
            if let Some((document, _)) = &state.document
                && !Arc::ptr_eq(document, old)
            {
                return Some(Arc::clone(document));
            }
            let now = Instant::now();
            if state.asked.is_some_and(|at| now - at < ASKED_PAUSE) {
                return None;
            }
            state.asked = Some(now);
        }
        match fetch.await {
            Ok(document) => Some(self.settle(document)),
            Err(error) => {
                tracing::warn!(%error, "a document of the identity provider cannot be fetched");
                self.fail(&error);
                None
            }
        }
    }

    async fn fetch(&self, seen: u64, fetch: impl Future<Output = Result<T>>) -> Result<Arc<T>> {
        let stopping = |_| Error::new(ErrorKind::Upstream, "the proxy is stopping");
        let _turn = self.turn.acquire().await.map_err(stopping)?;
        {
            let state = self.lock();
            // Somebody else has fetched meanwhile: that was for all who waited.
            if state.done != seen {
                return match (&state.document, &state.failure) {
                    (_, Some((failure, _))) => Err(Error::new(ErrorKind::Upstream, failure.clone())),
                    (Some((document, _)), None) => Ok(Arc::clone(document)),
                    (None, None) => Err(Error::new(ErrorKind::Internal, "a fetch had no outcome")),
                };
            }
        }
        match fetch.await {
            Ok(document) => Ok(self.settle(document)),
            Err(error) => {
                self.fail(&error);
                Err(error)
            }
        }
    }

    fn settle(&self, document: T) -> Arc<T> {
        let document = Arc::new(document);
        let mut state = self.lock();
        state.document = Some((Arc::clone(&document), Instant::now()));
        state.failure = None;
        state.done += 1;
        document
    }

    fn fail(&self, error: &Error) {
        let mut state = self.lock();
        state.failure = Some((error.to_string(), Instant::now()));
        state.done += 1;
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn down() -> Error {
        Error::new(ErrorKind::Upstream, "down")
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_share_one_fetch_and_its_outcome() {
        let (kept, fetches) = (Kept::<u32>::default(), AtomicU32::new(0));
        for outcome in [Err(()), Ok(7)] {
            let fetch = || async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                fetches.fetch_add(1, Ordering::Relaxed);
                outcome.map_err(|()| down())
            };
            let all = futures_util::future::join_all((0..50).map(|_| kept.get(fetch()))).await;
            assert!(all.iter().all(|one| one.is_ok() == outcome.is_ok()));
        }
        assert_eq!(fetches.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_document_that_is_due_is_used_while_the_provider_is_down() {
        let kept = Kept::default();
        assert_eq!(*kept.get(async { Ok(1) }).await.expect("fetched"), 1);
        assert_eq!(*kept.get(async { panic!("it is not due") }).await.expect("kept"), 1);
        tokio::time::advance(DUE).await;
        assert_eq!(*kept.get(async { Err(down()) }).await.expect("kept"), 1);
        assert_eq!(*kept.get(async { panic!("that was a moment ago") }).await.expect("kept"), 1);
        tokio::time::advance(PAUSE).await;
        assert_eq!(*kept.get(async { Ok(2) }).await.expect("fetched"), 2);
        tokio::time::advance(USELESS).await;
        assert!(kept.get(async { Err(down()) }).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_may_ask_for_a_newer_document_once_in_a_while() {
        let kept = Kept::default();
        let old = kept.get(async { Ok(1) }).await.expect("fetched");
        let newer = kept.newer(&old, async { Ok(2) }).await.expect("fetched");
        assert_eq!(*newer, 2);
        // Who still holds the old one gets what is there.
        assert_eq!(*kept.newer(&old, async { panic!("it is there") }).await.expect("kept"), 2);
        assert!(kept.newer(&newer, async { panic!("too soon") }).await.is_none());
        tokio::time::advance(ASKED_PAUSE).await;
        assert_eq!(*kept.newer(&newer, async { Ok(3) }).await.expect("fetched"), 3);
    }
}
