//! Tracks requests whose responses arrive on another stream.
//!
//! With the deprecated transport, the HTTP response to a POST is 202, and the JSON-RPC response is a message in the
//! stream of the session (MCP 2024-11-05, transports, "HTTP with SSE"). A stream names the endpoint to which messages
//! are posted. While the stream is open, a request that is posted to this endpoint is pending until its response has
//! been sent on the stream.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use url::Url;

use crate::mcp::message::Message;

/// Maximum number of pending requests. Further requests count as ended when their POST has ended.
const MAX_PENDING: usize = 10_000;

/// A request whose response may arrive on another stream.
pub(super) trait PendingRequest: std::fmt::Debug + Send + Sync {
    /// Whether a message may be the response to this request.
    fn awaits_response(&self, response: &Message) -> bool;

    /// Records a response that was sent on the stream. Returns whether the request awaits no further response.
    fn complete(&self, response: &Message) -> bool;

    /// Records that the stream has ended.
    fn on_stream_closed(&self);
}

/// The open streams by their endpoints, with the requests that are pending on each.
#[derive(Debug, Default)]
pub(super) struct SsePending(Mutex<PendingByEndpoint>);

#[derive(Debug, Default)]
struct PendingByEndpoint {
    by_endpoint: HashMap<Arc<str>, Vec<Arc<dyn PendingRequest>>>,
    count: usize,
}

impl SsePending {
    fn lock(&self) -> MutexGuard<'_, PendingByEndpoint> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a stream that was opened with a GET of `path`, and the endpoint that it names. Returns the endpoint's path.
    pub(super) fn open(&self, endpoint: &str, path: &str) -> Option<Arc<str>> {
        let base = Url::parse("http://here").and_then(|base| base.join(path));
        let url = base.and_then(|base| base.join(endpoint)).ok()?;
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let endpoint: Arc<str> = format!("{}{query}", url.path()).into();
        self.lock().by_endpoint.entry(Arc::clone(&endpoint)).or_default();
        Some(endpoint)
    }

    /// Adds a request that was posted to an endpoint. Returns whether it is pending on a stream.
    pub(super) fn register<P>(&self, endpoint: &str, request: impl FnOnce() -> Arc<P>) -> bool
    where
        P: PendingRequest + 'static,
    {
        let mut pending = self.lock();
        if pending.count == MAX_PENDING {
            return false;
        }
        let Some(requests) = pending.by_endpoint.get_mut(endpoint) else { return false };
        requests.push(request());
        pending.count += 1;
        true
    }

    /// Removes a request.
    pub(super) fn forget(&self, endpoint: &str, request: &dyn PendingRequest) {
        let mut pending = self.lock();
        let Some(requests) = pending.by_endpoint.get_mut(endpoint) else { return };
        let before = requests.len();
        let address = std::ptr::from_ref(request).addr();
        requests.retain(|other| Arc::as_ptr(other).addr() != address);
        let removed = before - requests.len();
        pending.count -= removed;
    }

    /// Records a response that is sent on the stream of an endpoint.
    pub(super) fn on_response(&self, endpoint: &str, response: &Message) {
        // The lock is released before `complete` is called, because a completed request may call this type again.
        let request = {
            let pending = self.lock();
            let requests = pending.by_endpoint.get(endpoint).into_iter().flatten();
            requests.filter(|request| request.awaits_response(response)).map(Arc::clone).next()
        };
        if let Some(request) = request
            && request.complete(response)
        {
            self.forget(endpoint, &*request);
        }
    }

    /// Removes the stream of an endpoint, and ends the requests that are pending on it.
    pub(super) fn close(&self, endpoint: &str) {
        let requests = {
            let mut pending = self.lock();
            let requests = pending.by_endpoint.remove(endpoint).unwrap_or_default();
            pending.count -= requests.len();
            requests
        };
        requests.iter().for_each(|request| request.on_stream_closed());
    }
}
