//! Requests that are answered on another stream: with the deprecated transport a POST is answered 202, and what was
//! asked for with a message in the stream of the session (MCP 2024-11-05, transports, "HTTP with SSE").
//!
//! A stream names the place where messages are posted. Requests that are posted there, to a stream that is open, last
//! until their answer has gone out on it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use url::Url;

use super::request_telemetry::RequestTelemetry;
use crate::mcp::message::Message;

/// Most requests that are waited for; those beyond last until they were posted.
const MAX_PENDING: usize = 10_000;

/// Open streams by their places, and what is answered on them.
#[derive(Debug, Default)]
pub(super) struct SsePending(Mutex<PendingByEndpoint>);

#[derive(Debug, Default)]
struct PendingByEndpoint {
    by_endpoint: HashMap<Arc<str>, Vec<Arc<RequestTelemetry>>>,
    count: usize,
}

impl SsePending {
    fn lock(&self) -> MutexGuard<'_, PendingByEndpoint> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream, which was opened with a GET of `path`, names the place of its session. Returns the place.
    pub(super) fn open(&self, place: &str, path: &str) -> Option<Arc<str>> {
        let here = Url::parse("http://here").and_then(|base| base.join(path));
        let url = here.and_then(|here| here.join(place)).ok()?;
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let place: Arc<str> = format!("{}{query}", url.path()).into();
        self.lock().by_endpoint.entry(Arc::clone(&place)).or_default();
        Some(place)
    }

    /// Whether what is posted to a place is answered on a stream, which is then waited for.
    pub(super) fn register(&self, place: &str, journey: &Arc<RequestTelemetry>) -> bool {
        let mut places = self.lock();
        if places.count == MAX_PENDING {
            return false;
        }
        let Some(waiting) = places.by_endpoint.get_mut(place) else { return false };
        waiting.push(Arc::clone(journey));
        places.count += 1;
        true
    }

    /// A request is no longer waited for.
    pub(super) fn forget(&self, place: &str, journey: &Arc<RequestTelemetry>) {
        let mut places = self.lock();
        let Some(waiting) = places.by_endpoint.get_mut(place) else { return };
        let before = waiting.len();
        waiting.retain(|other| !Arc::ptr_eq(other, journey));
        let gone = before - waiting.len();
        places.count -= gone;
    }

    /// An answer goes out on the stream of a place.
    pub(super) fn on_response(&self, place: &str, answer: &Message) {
        // Whoever is told of it comes back here, and then nothing may be held.
        let asked = {
            let places = self.lock();
            let waiting = places.by_endpoint.get(place).into_iter().flatten();
            waiting.filter(|journey| journey.awaits_response(answer)).map(Arc::clone).next()
        };
        if let Some(journey) = asked
            && journey.complete_on_sse(answer)
        {
            self.forget(place, &journey);
        }
    }

    /// A stream is over, and no answer comes any more.
    pub(super) fn close(&self, place: &str) {
        let left = {
            let mut places = self.lock();
            let left = places.by_endpoint.remove(place).unwrap_or_default();
            places.count -= left.len();
            left
        };
        left.iter().for_each(|journey| journey.on_sse_closed());
    }
}
