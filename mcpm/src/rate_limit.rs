//! Limits the work for events that peers can cause any number of times, such as log lines, with token buckets.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Log lines of one kind that are written at once, before the rate applies.
const LOG_BURST: u32 = 32;
/// Time after which one more line of a kind is written.
const LOG_REFILL: Duration = Duration::from_secs(10);

/// A token bucket: full at first, and one more token after each refill time.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    burst: u32,
    refill: Duration,
    tokens: u32,
    refilled: Instant,
}

impl TokenBucket {
    pub(crate) fn new(burst: u32, refill: Duration, now: Instant) -> Self {
        Self { burst, refill, tokens: burst, refilled: now }
    }

    /// Takes a token, if there is one.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(self.refilled);
        let tokens = u32::try_from(elapsed.as_nanos() / self.refill.as_nanos()).unwrap_or(self.burst);
        let tokens = tokens.min(self.burst);
        if tokens > 0 {
            self.tokens = self.tokens.saturating_add(tokens).min(self.burst);
            // The rest of a refill time counts for the next token.
            self.refilled =
                if self.tokens == self.burst { now } else { self.refilled + self.refill * tokens };
        }
        let has = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        has
    }
}

/// Limits log lines that peers can cause: each kind has its own rate.
#[derive(Debug)]
pub(crate) struct LogLimit(Mutex<BTreeMap<&'static str, (TokenBucket, u64)>>);

impl LogLimit {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Returns the number of lines of that kind that were suppressed since the last one; `None` if this one is to be
    /// suppressed too.
    pub(crate) fn admit(&self, kind: &'static str) -> Option<Option<u64>> {
        self.admit_at(kind, Instant::now())
    }

    fn admit_at(&self, kind: &'static str, now: Instant) -> Option<Option<u64>> {
        // No code panics while it holds the lock.
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let full = || (TokenBucket::new(LOG_BURST, LOG_REFILL, now), 0);
        let (bucket, suppressed) = kinds.entry(kind).or_insert_with(full);
        if bucket.take(now) {
            return Some(Some(std::mem::take(suppressed)).filter(|count| *count > 0));
        }
        *suppressed += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_refills_at_its_rate_up_to_its_burst() {
        let begin = Instant::now();
        let mut bucket = TokenBucket::new(3, Duration::from_secs(2), begin);
        let mut taken = |after: f64| {
            let now = begin + Duration::from_secs_f64(after);
            (0..10).filter(|_| bucket.take(now)).count()
        };
        assert_eq!([taken(0.0), taken(1.9), taken(5.0), taken(6.0), taken(100.0)], [3, 0, 2, 1, 3]);
    }

    #[test]
    fn a_flood_of_one_kind_is_counted_and_hides_no_other() {
        let (limit, begin) = (LogLimit::new(), Instant::now());
        let admitted = (0..1000).filter(|_| limit.admit_at("flood", begin).is_some()).count();
        assert_eq!(admitted, LOG_BURST as usize);
        assert_eq!(limit.admit_at("other", begin), Some(None));
        assert_eq!(limit.admit_at("flood", begin + LOG_REFILL), Some(Some(1000 - u64::from(LOG_BURST))));
        assert_eq!(limit.admit_at("flood", begin + LOG_REFILL), None);
    }
}
