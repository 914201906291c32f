//! Fetches a document of an identity provider, and fetches it again when it is stale.
//!
//! There is at most one fetch at a time, and all callers that wait for it share its outcome. Each fetch is a separate
//! task, so a client that disconnects does not cancel a fetch that others need. A stale document is used until a
//! newer one is fetched, up to a maximum age, so that an outage of the provider does not interrupt service.

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

/// Age at which a document is stale and fetched again.
const DUE: Duration = Duration::from_secs(10 * 60);
/// Age at which a document must not be used any more.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);
/// Retry interval after a failure while there is a document to use.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Retry interval after a failure while there is no document. It is short, because callers get 503 until the retry.
const INITIAL_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum interval between fetches that tokens with an unknown key cause; any caller can send such tokens.
const FORCED_REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// A document and the task that fetches it.
#[derive(Debug)]
pub(super) struct RefreshingDocument<T> {
    shared: Arc<RefreshingShared<T>>,
    /// The running fetch, which is aborted when this is dropped.
    fetches: Mutex<JoinSet<()>>,
    fetch_lock: Arc<Semaphore>,
}

#[derive(Debug)]
struct RefreshingShared<T>(Mutex<RefreshingState<T>>);

#[derive(Debug)]
struct RefreshingState<T> {
    document: Option<(Arc<T>, Instant)>,
    /// The number of completed fetches, and the outcome of the last one.
    completed: u64,
    failure: Option<(String, Instant)>,
    /// When the last forced fetch completed.
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
    /// Returns the document, fetching it first if it is missing or too old.
    ///
    /// # Errors
    /// `Upstream` if there is no document and the fetch fails, or has failed within the retry interval.
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
        // One request refreshes a stale document; the others use it.
        let Ok(turn) = Arc::clone(&self.fetch_lock).try_acquire_owned() else { return Ok(old) };
        let fetched = self.spawn_fetch(turn, fetch, false).await;
        Ok(fetched.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot refresh a document of the identity provider; the old one is used");
            old
        }))
    }

    /// Returns the document unless it is stale.
    pub(super) fn fresh(&self) -> Option<Arc<T>> {
        let state = self.shared.lock();
        let (document, since) = state.document.as_ref()?;
        (since.elapsed() < DUE).then(|| Arc::clone(document))
    }

    /// Whether every fetch so far has failed.
    pub(super) fn is_missing(&self) -> bool {
        let state = self.shared.lock();
        state.document.is_none() && state.failure.is_some()
    }

    /// The error of the last fetch; `None` if it succeeded.
    pub(super) fn failure(&self) -> Option<String> {
        self.shared.lock().failure.as_ref().map(|(failure, _)| failure.clone())
    }

    /// Fetches a document newer than `old`, which does not contain the key of a token; `None` if the last forced fetch
    /// was too recent.
    ///
    /// # Errors
    /// `Upstream` if the fetch fails, or has failed within the retry interval; it is then unknown whether the key
    /// exists.
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
            // Another caller has fetched the document meanwhile.
            if state.completed != seen {
                return match (&state.document, &state.failure) {
                    (_, Some((failure, _))) => Err(Error::new(ErrorKind::Upstream, failure.clone())),
                    (Some((document, _)), None) => Ok(Arc::clone(document)),
                    (None, None) => {
                        Err(Error::new(ErrorKind::Internal, "a fetch completed without a result"))
                    }
                };
            }
        }
        self.spawn_fetch(turn, fetch, false).await
    }

    /// Runs a fetch in its own task and waits for it.
    async fn spawn_fetch(
        &self,
        turn: OwnedSemaphorePermit,
        fetch: impl Future<Output = Result<T>> + Send + 'static,
        forced: bool,
    ) -> Result<Arc<T>> {
        let (sender, receiver) = oneshot::channel();
        let shared = Arc::clone(&self.shared);
        {
            let mut tasks = self.fetches.lock().unwrap_or_else(PoisonError::into_inner);
            // Removes completed tasks.
            while tasks.try_join_next().is_some() {}
            tasks.spawn(async move {
                let outcome = shared.record(fetch.await, forced);
                drop(turn);
                // The caller may have disconnected.
                let _ = sender.send(outcome);
            });
        }
        receiver.await.unwrap_or_else(|_| Err(stopping()))
    }
}

fn stopping() -> Error {
    Error::new(ErrorKind::Upstream, "fetching the document was aborted because mcpm is stopping")
}

impl<T> RefreshingShared<T> {
    /// Records the outcome of a fetch.
    fn record(&self, outcome: Result<T>, forced: bool) -> Result<Arc<T>> {
        let now = Instant::now();
        let mut state = self.lock();
        state.completed += 1;
        if forced {
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
        // No code panics while it holds the lock, so the state of a poisoned lock is consistent.
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
        // A caller with the old document gets the current one.
        let there = kept.force_refresh(&old, async { panic!("it is there") }).await.expect("kept");
        assert_eq!(there.as_deref(), Some(&2));
        assert!(kept.force_refresh(&newer, async { panic!("too soon") }).await.expect("kept").is_none());
        tokio::time::advance(FORCED_REFRESH_INTERVAL).await;
        let third = kept.force_refresh(&newer, async { Ok(3) }).await.expect("fetched").expect("newer");
        assert_eq!(*third, 3);
        // After a failed fetch it is unknown whether the key exists.
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
