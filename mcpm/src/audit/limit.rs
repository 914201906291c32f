//! Limits audit events that unauthenticated peers can cause in any number.
//!
//! Each [`LimitedCause`] has its own token bucket and its own allowance of bytes. Only unlimited events refill the
//! allowances. So the events of a flood of any duration fill no more than a share of the log, and do not suppress
//! events of other causes. Events beyond a limit, or without room in the queue, are counted, and a summary event
//! reports their number. When the allowance of a cause is used up, there is at most one summary event of this cause per
//! hour.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use serde_json::{Map, Value};

use super::{EventType, put};
use crate::rate_limit::TokenBucket;

/// Number of events of one cause that are recorded without delay before the rate applies.
const BURST: u32 = 256;
/// The interval after which one more event of a cause may be recorded.
const REFILL: Duration = Duration::from_secs(1);
/// Maximum allowance of a cause: the file size divided by this number.
const MAX_ALLOWANCE: u64 = 32;
/// Number of bytes of unlimited events that add one byte to each allowance.
const BYTES_PER_BYTE: u64 = 16;
/// Interval between summaries.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(60);
/// Interval between summaries when the allowance is used up.
const LONG_SUMMARY_INTERVAL: Duration = Duration::from_secs(3600);
/// Approximate size of a summary event in bytes.
const SUMMARY_BYTES: u64 = 512;

/// A cause of events that needs no authentication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LimitedCause {
    /// Requests of unauthenticated callers.
    Unauthenticated,
    /// Denied connections of an isolated server.
    ConnectionRefused,
    /// Successful requests that need no authentication, such as those for `/health`.
    Public,
    /// Errors that a server sends on a stream that belongs to no request.
    StreamError,
}

impl LimitedCause {
    fn name(self) -> &'static str {
        match self {
            Self::Unauthenticated => "unauthenticated",
            Self::ConnectionRefused => "connection_refused",
            Self::Public => "public",
            Self::StreamError => "stream_error",
        }
    }
}

/// The limits of one log.
#[derive(Debug)]
pub(super) struct Limit {
    max_allowance: u64,
    /// Bytes of unlimited events that have not been credited to the allowances yet.
    earned: AtomicU64,
    /// Whether any event was suppressed since the last summary.
    has_suppressed: AtomicBool,
    causes: Mutex<BTreeMap<LimitedCause, LimitState>>,
}

/// The state of one cause.
#[derive(Debug)]
struct LimitState {
    bucket: TokenBucket,
    allowance: u64,
    /// The events that were suppressed since the last summary, and when the first of them occurred.
    suppressed: Option<(Suppressed, Instant)>,
}

/// Events that were counted but not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Suppressed {
    pub(super) cause: LimitedCause,
    pub(super) since: SystemTime,
    types: BTreeMap<&'static str, u64>,
}

impl Suppressed {
    /// Adds the fields of the summary event.
    pub(super) fn describe(&self, extra: &mut Map<String, Value>) {
        put(extra, "cause", Some(self.cause.name()));
        put(extra, "events", Some(self.types.values().sum::<u64>()));
        let types = self.types.iter().map(|(name, count)| ((*name).to_owned(), Value::from(*count)));
        put(extra, "types", Some(types.collect::<Map<_, _>>()));
    }
}

impl Limit {
    /// Creates the limits of a log with this maximum file size.
    pub(super) fn new(file_size: u64) -> Self {
        Self {
            max_allowance: file_size / MAX_ALLOWANCE,
            earned: AtomicU64::new(0),
            has_suppressed: AtomicBool::new(false),
            causes: Mutex::default(),
        }
    }

    fn causes(&self) -> MutexGuard<'_, BTreeMap<LimitedCause, LimitState>> {
        // No code panics while it holds the lock.
        let mut causes = self.causes.lock().unwrap_or_else(PoisonError::into_inner);
        let earned = self.earned.swap(0, Ordering::Relaxed) / BYTES_PER_BYTE;
        for state in causes.values_mut() {
            state.allowance = state.allowance.saturating_add(earned).min(self.max_allowance);
        }
        causes
    }

    /// Credits an unlimited event of this size to the allowances.
    pub(super) fn earn(&self, bytes: u64) {
        self.earned.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Debits the allowance of a cause.
    pub(super) fn spend(&self, cause: LimitedCause, bytes: u64) {
        if let Some(state) = self.causes().get_mut(&cause) {
            state.allowance = state.allowance.saturating_sub(bytes);
        }
    }

    /// Returns the line of an event if it is within the limits and the queue has room; otherwise counts it.
    pub(super) fn admit(
        &self,
        cause: LimitedCause,
        kind: EventType,
        now: Instant,
        room: bool,
        line: impl FnOnce() -> Vec<u8>,
    ) -> Option<Vec<u8>> {
        let mut causes = self.causes();
        let state = causes.entry(cause).or_insert_with(|| LimitState {
            bucket: TokenBucket::new(BURST, REFILL, now),
            allowance: self.max_allowance,
            suppressed: None,
        });
        if room && state.bucket.take(now) {
            let line = line();
            if let Some(left) = state.allowance.checked_sub(line.len() as u64) {
                state.allowance = left;
                return Some(line);
            }
        }
        let (suppressed, _) = state.suppressed.get_or_insert_with(|| {
            tracing::warn!(
                cause = cause.name(),
                "too many audit events of this cause; further events are only counted"
            );
            (Suppressed { cause, since: SystemTime::now(), types: BTreeMap::new() }, now)
        });
        *suppressed.types.entry(kind.name()).or_default() += 1;
        self.has_suppressed.store(true, Ordering::Relaxed);
        None
    }

    /// Whether any event was suppressed since the last summary.
    pub(super) fn has_suppressed(&self) -> bool {
        self.has_suppressed.load(Ordering::Relaxed)
    }

    /// Takes the counts of suppressed events of each cause whose summary is due.
    pub(super) fn due(&self, now: Instant) -> Vec<Suppressed> {
        self.take_if(|state, since| {
            let short = state.allowance >= SUMMARY_BYTES;
            let interval = if short { SUMMARY_INTERVAL } else { LONG_SUMMARY_INTERVAL };
            now.saturating_duration_since(since) >= interval
        })
    }

    /// Takes all counts of suppressed events.
    pub(super) fn take(&self) -> Vec<Suppressed> {
        self.take_if(|_, _| true)
    }

    fn take_if(&self, is_due: impl Fn(&LimitState, Instant) -> bool) -> Vec<Suppressed> {
        let (mut causes, mut summaries) = (self.causes(), Vec::new());
        for state in causes.values_mut() {
            if let Some(since) = state.suppressed.as_ref().map(|(_, since)| *since)
                && is_due(state, since)
            {
                summaries.extend(state.suppressed.take().map(|(suppressed, _)| suppressed));
            }
        }
        self.has_suppressed.store(causes.values().any(|state| state.suppressed.is_some()), Ordering::Relaxed);
        summaries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: usize = 600;
    const FILE: u64 = 1 << 20;
    const CAUSES: [LimitedCause; 4] = [
        LimitedCause::Unauthenticated,
        LimitedCause::ConnectionRefused,
        LimitedCause::Public,
        LimitedCause::StreamError,
    ];

    fn admit(limit: &Limit, cause: LimitedCause, now: Instant) -> bool {
        limit.admit(cause, EventType::AuthFailure, now, true, || vec![b'a'; LINE]).is_some()
    }

    #[test]
    fn each_cause_has_a_rate_of_its_own_and_the_rest_is_counted() {
        let (limit, begin) = (Limit::new(u64::MAX), Instant::now());
        let admitted = (0..1000).filter(|_| admit(&limit, LimitedCause::Unauthenticated, begin)).count();
        assert_eq!(admitted, BURST as usize);
        assert!(admit(&limit, LimitedCause::ConnectionRefused, begin), "it has a limit of its own");
        assert!(limit.has_suppressed() && limit.due(begin).is_empty(), "a summary is not due yet");
        let later = begin + Duration::from_millis(10_500);
        let admitted = (0..1000).filter(|_| admit(&limit, LimitedCause::Unauthenticated, later)).count();
        assert_eq!(admitted, 10);
        let summaries = limit.due(begin + SUMMARY_INTERVAL);
        let [suppressed] = &summaries[..] else { panic!("{summaries:?}") };
        let mut extra = Map::new();
        suppressed.describe(&mut extra);
        let expected = serde_json::json!({
            "cause": "unauthenticated", "events": 1734, "types": { "auth_failure": 1734 },
        });
        assert_eq!(Value::from(extra), expected);
        assert!(!limit.has_suppressed() && limit.take().is_empty());
    }

    #[test]
    fn a_flood_of_any_length_fills_no_more_than_a_share_of_a_file() {
        let (limit, begin) = (Limit::new(FILE), Instant::now());
        let mut written = 0;
        // For a month, each cause has one event per second.
        for second in 0..30 * 24 * 3600 {
            let now = begin + Duration::from_secs(second);
            for cause in CAUSES {
                if admit(&limit, cause, now) {
                    written += LINE as u64;
                }
            }
            for suppressed in limit.due(now) {
                limit.spend(suppressed.cause, SUMMARY_BYTES);
                written += SUMMARY_BYTES;
            }
        }
        let causes = CAUSES.len() as u64;
        let summaries = causes * 30 * 24 * SUMMARY_BYTES;
        assert!(written <= causes * FILE / MAX_ALLOWANCE + summaries, "{written}");
        // Unlimited events refill the allowance, up to their share.
        let later = begin + Duration::from_secs(31 * 24 * 3600);
        assert!(!admit(&limit, LimitedCause::Unauthenticated, later));
        limit.earn(BYTES_PER_BYTE * LINE as u64);
        assert!(admit(&limit, LimitedCause::Unauthenticated, later));
        assert!(!admit(&limit, LimitedCause::Unauthenticated, later));
    }

    #[test]
    fn a_cause_that_has_used_up_its_bytes_hides_no_other() {
        let (limit, begin) = (Limit::new(FILE), Instant::now());
        let admitted = (0..3600 * 24)
            .filter(|second| admit(&limit, LimitedCause::Public, begin + Duration::from_secs(*second)));
        assert_eq!(admitted.count() as u64, FILE / MAX_ALLOWANCE / LINE as u64);
        assert!(admit(&limit, LimitedCause::Unauthenticated, begin + Duration::from_secs(3600 * 24)));
    }

    #[test]
    fn without_room_in_the_queue_events_are_counted() {
        let limit = Limit::new(FILE);
        let line = || vec![b'a'; LINE];
        let admitted =
            limit.admit(LimitedCause::Unauthenticated, EventType::Http, Instant::now(), false, line);
        assert!(admitted.is_none() && limit.has_suppressed());
    }
}
