//! One document of an identity provider, kept and fetched again when that is due.
//!
//! One fetch is under way at a time, and whoever waited for it takes its outcome. It is nobody's own: a client that
//! hangs up ends its request, and not the fetch that others need. A document that is due is used until there is a newer
//! one, up to a bound: a provider that is down for a while costs nobody their work.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    task::JoinSet,
    time::Instant,
};

use crate::{Error, ErrorKind, Result};

/// After that a document is due.
const DUE: Duration = Duration::from_secs(10 * 60);
/// After that it is of no use any more.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);
/// Pause after a failure while there is a document to use.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Pause after a failure while there is none, as long as callers are told to wait: anybody can ask.
const INITIAL_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Pause between two fetches that a token asks for, which anybody can send.
const FORCED_REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// A document, once it was fetched.
#[derive(Debug)]
pub(super) struct RefreshingDocument<T> {
    shared: Arc<RefreshingShared<T>>,
    /// The fetch that is under way. It ends with this at the latest.
    fetches: Mutex<JoinSet<()>>,
    fetch_lock: Arc<Semaphore>,
}

#[derive(Debug)]
struct RefreshingShared<T>(Mutex<RefreshingState<T>>);

#[derive(Debug)]
struct RefreshingState<T> {
    document: Option<(Arc<T>, Instant)>,
    /// Fetches that came to an end, and how the last one did.
    completed: u64,
    failure: Option<(String, Instant)>,
    /// When a fetch ended that a token asked for.
    forced_at: Option<Instant>,
}

impl<T> Default for RefreshingDocument<T> {
    fn default() -> Self {
        let state = RefreshingState { document: None, completed: 0, failure: None, forced_at: None };
        Self {
            shared: Arc::new(RefreshingShared(Mutex::new(state))),
            fetches: Mutex::default(),
            fetch_lock: Arc::new(Semaphore::new(1)),
        }
    }
}

impl<T: Send + Sync + 'static> RefreshingDocument<T> {
    /// The document, fetched if it is due.
    ///
    /// # Errors
    /// `Upstream` when there is none and it cannot be fetched, or could not be a moment ago.
    pub(super) async fn get(
        &self,
        fetch: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<Arc<T>> {
        let (seen, usable) = {
            let state = self.shared.lock();
            let now = Instant::now();
            match &state.document {
                Some((document, since)) if now - *since < DUE => return Ok(Arc::clone(document)),
                Some((document, since)) if now - *since < MAX_AGE => {
                    let paused = state.failure.as_ref().is_some_and(|(_, at)| now - *at < RETRY_INTERVAL);
                    if paused {
                        return Ok(Arc::clone(document));
                    }
                    (state.completed, Some(Arc::clone(document)))
                }
                _ => match &state.failure {
                    Some((failure, at)) if now - *at < INITIAL_RETRY_INTERVAL => {
                        return Err(Error::new(ErrorKind::Upstream, failure.clone()));
                    }
                    _ => (state.completed, None),
                },
            }
        };
        let Some(old) = usable else { return self.fetch(seen, fetch).await };
        // One request sees to it; the others need not wait.
        let Ok(turn) = Arc::clone(&self.fetch_lock).try_acquire_owned() else { return Ok(old) };
        let fetched = self.spawn_fetch(turn, fetch, false).await;
        Ok(fetched.unwrap_or_else(|error| {
            tracing::warn!(%error, "a document of the identity provider is due and cannot be fetched");
            old
        }))
    }

    /// The document, unless it is due.
    pub(super) fn fresh(&self) -> Option<Arc<T>> {
        let state = self.shared.lock();
        let (document, since) = state.document.as_ref()?;
        (since.elapsed() < DUE).then(|| Arc::clone(document))
    }

    /// Whether nothing was fetched yet, though it was tried.
    pub(super) fn is_missing(&self) -> bool {
        let state = self.shared.lock();
        state.document.is_none() && state.failure.is_some()
    }

    /// Why the last fetch failed; `None` when it did not.
    pub(super) fn failure(&self) -> Option<String> {
        self.shared.lock().failure.as_ref().map(|(failure, _)| failure.clone())
    }

    /// A document that is newer than `old`, in which a token has not found what it needs; `None` when one was fetched
    /// a moment ago.
    ///
    /// # Errors
    /// `Upstream` when it cannot be fetched, or could not be a moment ago: then nobody knows what is in it.
    pub(super) async fn force_refresh(
        &self,
        old: &Arc<T>,
        fetch: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<Option<Arc<T>>> {
        let turn = self.fetch_permit().await?;
        {
            let state = self.shared.lock();
            if let Some((document, _)) = &state.document
                && !Arc::ptr_eq(document, old)
            {
                return Ok(Some(Arc::clone(document)));
            }
            if state.forced_at.is_some_and(|at| at.elapsed() < FORCED_REFRESH_INTERVAL) {
                return match &state.failure {
                    Some((failure, _)) => Err(Error::new(ErrorKind::Upstream, failure.clone())),
                    None => Ok(None),
                };
            }
        }
        self.spawn_fetch(turn, fetch, true).await.map(Some)
    }

    async fn fetch_permit(&self) -> Result<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.fetch_lock).acquire_owned().await;
        turn.map_err(|_| stopping())
    }

    async fn fetch(
        &self,
        seen: u64,
        fetch: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<Arc<T>> {
        let turn = self.fetch_permit().await?;
        {
            let state = self.shared.lock();
            // Somebody else has fetched meanwhile: that was for all who waited.
            if state.completed != seen {
                return match (&state.document, &state.failure) {
                    (_, Some((failure, _))) => Err(Error::new(ErrorKind::Upstream, failure.clone())),
                    (Some((document, _)), None) => Ok(Arc::clone(document)),
                    (None, None) => Err(Error::new(ErrorKind::Internal, "a fetch had no outcome")),
                };
            }
        }
        self.spawn_fetch(turn, fetch, false).await
    }

    /// Fetches in a task of its own, and waits for it.
    async fn spawn_fetch(
        &self,
        turn: OwnedSemaphorePermit,
        fetch: impl Future<Output = Result<T>> + Send + 'static,
        asked: bool,
    ) -> Result<Arc<T>> {
        let (tell, told) = oneshot::channel();
        let shared = Arc::clone(&self.shared);
        {
            let mut tasks = self.fetches.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that have ended are taken out.
            while tasks.try_join_next().is_some() {}
            tasks.spawn(async move {
                let outcome = shared.record(fetch.await, asked);
                drop(turn);
                // Who asked for it may be gone.
                let _ = tell.send(outcome);
            });
        }
        told.await.unwrap_or_else(|_| Err(stopping()))
    }
}

fn stopping() -> Error {
    Error::new(ErrorKind::Upstream, "the fetch was given up")
}

impl<T> RefreshingShared<T> {
    /// Notes how a fetch ended.
    fn record(&self, outcome: Result<T>, asked: bool) -> Result<Arc<T>> {
        let now = Instant::now();
        let mut state = self.lock();
        state.completed += 1;
        if asked {
            state.forced_at = Some(now);
        }
        match outcome {
            Ok(document) => {
                let document = Arc::new(document);
                state.document = Some((Arc::clone(&document), now));
                state.failure = None;
                Ok(document)
            }
            Err(error) => {
                state.failure = Some((error.to_string(), now));
                Err(error)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, RefreshingState<T>> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        let (kept, fetches) = (RefreshingDocument::<u32>::default(), Arc::new(AtomicU32::new(0)));
        for outcome in [Err(()), Ok(7)] {
            let fetch = || {
                let fetches = Arc::clone(&fetches);
                async move {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    fetches.fetch_add(1, Ordering::Relaxed);
                    outcome.map_err(|()| down())
                }
            };
            let all = futures_util::future::join_all((0..50).map(|_| kept.get(fetch()))).await;
            assert!(all.iter().all(|one| one.is_ok() == outcome.is_ok()));
            tokio::time::advance(INITIAL_RETRY_INTERVAL).await;
        }
        assert_eq!(fetches.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_fetch_is_not_retried_at_once() {
        let kept = RefreshingDocument::default();
        assert!(kept.get(async { Err(down()) }).await.is_err());
        let failure = kept.get(async { panic!("that was a moment ago") }).await.expect_err("no document");
        assert_eq!(failure.to_string(), "down");
        tokio::time::advance(INITIAL_RETRY_INTERVAL).await;
        assert_eq!(*kept.get(async { Ok(1) }).await.expect("fetched"), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stale_document_is_used_while_the_provider_is_down() {
        let kept = RefreshingDocument::default();
        assert_eq!(*kept.get(async { Ok(1) }).await.expect("fetched"), 1);
        assert_eq!(*kept.get(async { panic!("it is not due") }).await.expect("kept"), 1);
        tokio::time::advance(DUE).await;
        assert_eq!(*kept.get(async { Err(down()) }).await.expect("kept"), 1);
        assert_eq!(*kept.get(async { panic!("that was a moment ago") }).await.expect("kept"), 1);
        tokio::time::advance(RETRY_INTERVAL).await;
        assert_eq!(*kept.get(async { Ok(2) }).await.expect("fetched"), 2);
        tokio::time::advance(MAX_AGE).await;
        assert!(kept.get(async { Err(down()) }).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn forced_refreshes_are_rate_limited() {
        let kept = RefreshingDocument::default();
        let old = kept.get(async { Ok(1) }).await.expect("fetched");
        let newer = kept.force_refresh(&old, async { Ok(2) }).await.expect("fetched").expect("newer");
        assert_eq!(*newer, 2);
        // Who still holds the old one gets what is there.
        let there = kept.force_refresh(&old, async { panic!("it is there") }).await.expect("kept");
        assert_eq!(there.as_deref(), Some(&2));
        assert!(kept.force_refresh(&newer, async { panic!("too soon") }).await.expect("kept").is_none());
        tokio::time::advance(FORCED_REFRESH_INTERVAL).await;
        let third = kept.force_refresh(&newer, async { Ok(3) }).await.expect("fetched").expect("newer");
        assert_eq!(*third, 3);
        // What cannot be fetched is not known, which is another thing than not being there.
        tokio::time::advance(FORCED_REFRESH_INTERVAL).await;
        assert!(kept.force_refresh(&third, async { Err(down()) }).await.is_err());
        assert!(kept.force_refresh(&third, async { panic!("too soon") }).await.is_err());
        assert_eq!(*kept.get(async { panic!("it is not due") }).await.expect("kept"), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_request_does_not_cancel_the_fetch() {
        let kept = RefreshingDocument::default();
        let old = kept.get(async { Ok(1) }).await.expect("fetched");
        let (answer, answered) = oneshot::channel();
        let fetch = async move { answered.await.map_err(|_| down()) };
        let second = Duration::from_secs(1);
        assert!(tokio::time::timeout(second, kept.force_refresh(&old, fetch)).await.is_err(), "it hangs up");
        answer.send(2).expect("somebody who waits");
        let newer = kept.force_refresh(&old, async { panic!("one is under way") }).await.expect("fetched");
        assert_eq!(newer.as_deref(), Some(&2));
    }

    #[tokio::test(start_paused = true)]
    async fn dropping_the_document_cancels_its_fetch() {
        let kept = RefreshingDocument::<u32>::default();
        let (answer, answered) = oneshot::channel::<u32>();
        let fetch = async move { answered.await.map_err(|_| down()) };
        assert!(tokio::time::timeout(Duration::from_secs(1), kept.get(fetch)).await.is_err());
        drop(kept);
        let mut answer = answer;
        answer.closed().await;
    }
}
