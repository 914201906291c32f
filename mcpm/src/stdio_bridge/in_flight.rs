//! Tracks the requests of the client that have no response yet.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::mcp::{
    era::Era,
    message::{Message, same_id},
};

/// Maximum number of requests in flight; each has its own connection.
const MAX_REQUESTS: usize = 256;
/// How long the server may still respond to a request of the older era after its cancellation.
const CANCEL_GRACE: Duration = Duration::from_secs(10);
/// A request whose response arrives only when its subscription ends, so the bridge does not wait for it at the end of
/// the input.
pub(super) const LISTEN: &str = "subscriptions/listen";

/// The requests of the client that have no response yet.
#[derive(Debug)]
pub(super) struct InFlight {
    requests: Mutex<HashMap<u64, InFlightRequest>>,
    /// Number of requests so far.
    registered: AtomicU64,
    /// Number of requests whose responses the bridge waits for when the input ends.
    awaited: watch::Sender<usize>,
}

#[derive(Debug)]
struct InFlightRequest {
    id: Bytes,
    era: Era,
    /// Whether the request was written to a connection, so that the server may execute it.
    is_sent: bool,
    cancel: CancellationToken,
}

/// A request in flight. Dropping it removes the request.
#[derive(Debug)]
pub(super) struct Registration {
    pub(super) claim: Claim,
    is_awaited: bool,
    era: Era,
    cancel: CancellationToken,
}

/// The right to respond to a request, which only one task can use.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    in_flight: Arc<InFlight>,
    key: u64,
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
        let request = InFlightRequest { id: message.id(), era, is_sent: false, cancel: cancel.clone() };
        requests.insert(key, request);
        let is_awaited = message.method() != LISTEN;
        if is_awaited {
            self.awaited.send_modify(|count| *count += 1);
        }
        let claim = Claim { in_flight: Arc::clone(self), key };
        Some(Registration { claim, is_awaited, era, cancel })
    }

    /// Cancels a request. Returns whether the server must be notified: closing the connection cancels a stateless
    /// request, and a request that was not sent needs no cancellation.
    pub(super) fn cancel(&self, id: &[u8]) -> bool {
        let mut requests = self.lock();
        let found = requests.iter().find(|(_, request)| same_id(&request.id, id));
        let Some((&key, request)) = found else { return false };
        request.cancel.cancel();
        let is_told = request.era == Era::Legacy && request.is_sent;
        if !request.is_sent {
            requests.remove(&key);
        }
        is_told
    }

    /// Cancels and removes all requests, and returns their ids.
    pub(super) fn cancel_all(&self) -> Vec<Bytes> {
        let requests = std::mem::take(&mut *self.lock());
        requests.values().for_each(|request| request.cancel.cancel());
        requests.into_values().map(|request| request.id).collect()
    }

    /// Waits until all requests except subscriptions have a response.
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
    /// Waits until the response is no longer needed, because the request was cancelled. In a session, the server may
    /// still respond for a while after the cancellation.
    pub(super) async fn abandoned(&self) {
        self.cancel.cancelled().await;
        if self.era == Era::Legacy && self.claim.is_sent() {
            sleep(CANCEL_GRACE).await;
        }
    }
}

impl Claim {
    /// Removes the request. Returns `false` if it was removed before, so that each request gets only one response.
    pub(super) fn take(&self) -> bool {
        self.in_flight.lock().remove(&self.key).is_some()
    }

    /// Records that the request is written to a connection.
    pub(super) fn mark_sent(&self) {
        if let Some(request) = self.in_flight.lock().get_mut(&self.key) {
            request.is_sent = true;
        }
    }

    /// Records that the server has not executed the request. Returns whether the request may be sent again: a request
    /// that was cancelled meanwhile must not be sent again, and is removed.
    pub(super) fn mark_unsent(&self) -> bool {
        let mut requests = self.in_flight.lock();
        let Some(request) = requests.get_mut(&self.key) else { return false };
        request.is_sent = false;
        let is_cancelled = request.cancel.is_cancelled();
        if is_cancelled {
            requests.remove(&self.key);
        }
        !is_cancelled
    }

    fn is_sent(&self) -> bool {
        self.in_flight.lock().get(&self.key).is_some_and(|request| request.is_sent)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.claim.take();
        if self.is_awaited {
            self.claim.in_flight.awaited.send_modify(|count| *count -= 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cancelled_is_not_sent_again() {
        let in_flight = InFlight::new();
        let parse = |id: u32| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call"}}"#);
            Message::parse(Bytes::from(text)).expect("a message")
        };
        let register = |id| in_flight.register(&parse(id), Era::Legacy).expect("there is room");
        let (cancelled, other, waiting) = (register(1), register(2), register(3));
        for registration in [&cancelled, &other, &waiting] {
            registration.claim.mark_sent();
        }
        assert!(in_flight.cancel(b"1"), "the server may be executing it");
        assert!(!cancelled.claim.mark_unsent());
        assert!(!cancelled.claim.take(), "it gets no response");
        assert!(other.claim.mark_unsent());
        assert!(waiting.claim.mark_unsent());
        assert!(!in_flight.cancel(b"3"), "the server has not executed it");
        assert!(!waiting.claim.take());
        assert!(other.claim.take());
    }
}
