//! Limits the connections of isolated containers, and the log lines about failed connections.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Semaphore;

/// Most connections to hosts at once.
const MAX_HOST_CONNECTIONS: usize = 256;
/// Most connections of any kind at once; more wait.
const MAX_CONNECTIONS: usize = 512;
/// Most failed connections that are logged in a period, since a server can retry without end.
const MAX_LOGGED_FAILURES: u32 = 64;
const FAILURE_LOG_PERIOD: Duration = Duration::from_secs(60);

/// Limits of the connections of one workload, and of the log lines about them.
#[derive(Debug)]
pub(super) struct ConnectionLimits {
    /// Start of the period, and number of failures logged since.
    reports: Mutex<(Instant, u32)>,
    /// Connections of any kind.
    pub(super) any_connections: Arc<Semaphore>,
    /// Connections to hosts.
    pub(super) host_connections: Arc<Semaphore>,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            reports: Mutex::new((Instant::now(), 0)),
            any_connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            host_connections: Arc::new(Semaphore::new(MAX_HOST_CONNECTIONS)),
        }
    }
}

impl ConnectionLimits {
    /// Logs the failure of an allowed connection, at a lower level if there were many.
    pub(super) fn log_failure(&self, reason: &str) {
        if self.may_log(Instant::now()) {
            tracing::info!("{reason}");
        } else {
            tracing::debug!("{reason}");
        }
    }

    fn may_log(&self, now: Instant) -> bool {
        // No code panics while it holds the lock.
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(reports.0) >= FAILURE_LOG_PERIOD {
            *reports = (now, 0);
        }
        reports.1 = reports.1.saturating_add(1);
        reports.1 <= MAX_LOGGED_FAILURES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_logged_up_to_a_bound_in_each_period() {
        let bounds = ConnectionLimits::default();
        let begin = Instant::now();
        assert_eq!(
            (0..2 * MAX_LOGGED_FAILURES).filter(|_| bounds.may_log(begin)).count(),
            MAX_LOGGED_FAILURES as usize
        );
        assert!(bounds.may_log(begin + FAILURE_LOG_PERIOD));
    }
}
