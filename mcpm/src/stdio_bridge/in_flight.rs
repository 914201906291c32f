//! The requests of the client that are not answered yet.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::mcp::{
    era::Era,
    message::{Message, same_id},
};

/// Most requests in flight; each has a connection of its own.
const MAX_REQUESTS: usize = 256;
/// A request that is answered only when its subscription ends, so nobody waits for it.
pub(super) const LISTEN: &str = "subscriptions/listen";

/// The requests of the client that are not answered yet.
#[derive(Debug)]
pub(super) struct InFlight {
    requests: Mutex<HashMap<u64, InFlightRequest>>,
    /// Number of requests so far.
    registered: AtomicU64,
    /// Number of requests whose responses are waited for when the input ends.
    awaited: watch::Sender<usize>,
}

#[derive(Debug)]
struct InFlightRequest {
    id: Bytes,
    era: Era,
    cancel: CancellationToken,
}

/// A request in flight. Dropping it removes the request.
#[derive(Debug)]
pub(super) struct Registration {
    in_flight: Arc<InFlight>,
    key: u64,
    is_awaited: bool,
    /// Cancelled when the request is.
    pub(super) cancel: CancellationToken,
}

impl InFlight {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            requests: Mutex::default(),
            registered: AtomicU64::new(0),
            awaited: watch::Sender::new(0),
        })
    }

    /// Registers a request; `None` if there are too many.
    pub(super) fn register(self: &Arc<Self>, message: &Message, era: Era) -> Option<Registration> {
        let mut requests = self.lock();
        if requests.len() >= MAX_REQUESTS {
            return None;
        }
        let key = self.registered.fetch_add(1, Ordering::Relaxed);
        let cancel = CancellationToken::new();
        requests.insert(key, InFlightRequest { id: message.id(), era, cancel: cancel.clone() });
        let is_awaited = message.method() != LISTEN;
        if is_awaited {
            self.awaited.send_modify(|count| *count += 1);
        }
        Some(Registration { in_flight: Arc::clone(self), key, is_awaited, cancel })
    }

    /// Returns the era of a request, and the token that cancels it.
    pub(super) fn find(&self, id: &[u8]) -> Option<(Era, CancellationToken)> {
        let requests = self.lock();
        let found = requests.values().find(|request| same_id(&request.id, id))?;
        Some((found.era, found.cancel.clone()))
    }

    /// Cancels and removes all requests, and returns their ids.
    pub(super) fn cancel_all(&self) -> Vec<Bytes> {
        let requests = std::mem::take(&mut *self.lock());
        requests.values().for_each(|request| request.cancel.cancel());
        requests.into_values().map(|request| request.id).collect()
    }

    /// Waits until all requests are answered, except for subscriptions.
    pub(super) async fn wait_until_answered(&self) {
        // The sender is in `self`, so the channel cannot be closed.
        let _ = self.awaited.subscribe().wait_for(|count| *count == 0).await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, InFlightRequest>> {
        // No code panics while it holds the lock.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registration {
    /// Removes the request. Returns `false` if it was removed before, so that each request is answered once.
    pub(super) fn claim(&self) -> bool {
        self.in_flight.lock().remove(&self.key).is_some()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.claim();
        if self.is_awaited {
            self.in_flight.awaited.send_modify(|count| *count -= 1);
        }
    }
}
