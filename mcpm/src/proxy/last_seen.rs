//! Records the outcomes of the last exchange with a server and of its last check, for `/health`.
//!
//! A response with the same status as the previous one costs only a comparison.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use http::StatusCode;
use tokio::time::Instant;

use super::check_outcome::{Finding, Passed};

/// Lifetime of the result of a failed check: until then, `/health` does not repeat the check.
const FAILED_CHECK_TTL: Duration = Duration::from_secs(10);
/// There was no exchange yet.
const NO_EXCHANGE: u16 = 0;
/// The last exchange failed without a status.
const FAILED: u16 = 1;

/// The last observations of one generation of a server.
#[derive(Debug, Default)]
pub(crate) struct LastSeen {
    /// Status of the last response, [`NO_EXCHANGE`] or [`FAILED`].
    status: AtomicU16,
    /// Why the last exchange failed, if it did.
    failure: Mutex<String>,
    check: Mutex<Option<Result<(), (Finding, Instant)>>>,
}

/// The last exchange with a server: its status and a description.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct LastExchange {
    status: Option<u16>,
    reason: Option<String>,
}

impl LastSeen {
    /// Records the status of a response.
    pub(super) fn record_status(&self, status: StatusCode) {
        if self.status.load(Ordering::Relaxed) != status.as_u16() {
            self.status.store(status.as_u16(), Ordering::Relaxed);
        }
    }

    /// Records a failed exchange.
    pub(super) fn record_failure(&self, reason: &str) {
        reason.clone_into(&mut self.failure.lock().unwrap_or_else(PoisonError::into_inner));
        self.status.store(FAILED, Ordering::Relaxed);
    }

    /// Records the outcome of a check.
    pub(super) fn record_check(&self, outcome: &Result<Passed, Finding>) {
        let outcome = match outcome {
            Ok(_) => Ok(()),
            Err(finding) => Err((finding.clone(), Instant::now())),
        };
        *self.check.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    }

    /// The outcome of the last check, unless the check has to be repeated.
    pub(super) fn cached_check(&self) -> Option<Result<(), Finding>> {
        match &*self.check.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(Ok(())) => Some(Ok(())),
            Some(Err((finding, at))) if at.elapsed() < FAILED_CHECK_TTL => Some(Err(finding.clone())),
            _ => None,
        }
    }

    /// The last exchange, if there was one.
    pub(super) fn last(&self) -> Option<LastExchange> {
        match self.status.load(Ordering::Relaxed) {
            NO_EXCHANGE => None,
            FAILED => {
                let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Some(LastExchange { status: None, reason: Some(failure) })
            }
            status => {
                let reason = StatusCode::from_u16(status).ok().filter(|status| !status.is_success());
                let reason = reason.and_then(|status| status.canonical_reason()).map(str::to_owned);
                Some(LastExchange { status: Some(status), reason })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failed_check_expires_and_a_passed_one_does_not() {
        let seen = LastSeen::default();
        assert_eq!(seen.cached_check(), None);
        seen.record_check(&Err(Finding::WebPage));
        assert_eq!(seen.cached_check(), Some(Err(Finding::WebPage)));
        tokio::time::advance(FAILED_CHECK_TTL).await;
        assert_eq!(seen.cached_check(), None);
        seen.record_check(&Ok(Passed::Mcp));
        tokio::time::advance(FAILED_CHECK_TTL).await;
        assert_eq!(seen.cached_check(), Some(Ok(())));
    }

    #[test]
    fn the_last_exchange_has_a_status_or_a_reason() {
        let seen = LastSeen::default();
        let last =
            |status, reason: Option<&str>| Some(LastExchange { status, reason: reason.map(str::to_owned) });
        assert_eq!(seen.last(), None);
        seen.record_status(StatusCode::OK);
        assert_eq!(seen.last(), last(Some(200), None));
        seen.record_failure("connection refused");
        assert_eq!(seen.last(), last(None, Some("connection refused")));
        seen.record_status(StatusCode::NOT_FOUND);
        assert_eq!(seen.last(), last(Some(404), Some("Not Found")));
    }
}
