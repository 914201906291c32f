//! The restart policy: a limited number of attempts with exponential backoff. Restarts that fail because the container
//! engine is unavailable do not count as attempts.

use std::time::Duration;

use super::process::ProcessExit;
use crate::options::RestartMode;

/// The policy for restarts of a server that has exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Maximum number of consecutive restarts; 0 never restarts.
    pub attempts: u32,
    /// Delay before the first restart; it doubles with each further restart.
    pub first_delay: Duration,
    /// Maximum delay before a restart.
    pub max_delay: Duration,
    /// Uptime after which the count of restarts begins again from 0.
    pub stable_after: Duration,
    /// Whether a server that exited with code 0 is not restarted.
    pub only_after_failure: bool,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            attempts: 10,
            first_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(30),
            stable_after: Duration::from_secs(30),
            only_after_failure: false,
        }
    }
}

impl RestartPolicy {
    /// Never restarts: the workload ends with the server.
    pub const NEVER: Self = Self {
        attempts: 0,
        first_delay: Duration::ZERO,
        max_delay: Duration::ZERO,
        stable_after: Duration::ZERO,
        only_after_failure: false,
    };

    /// Returns the delay before restart `attempt`, counted from 1, or `None` if there is no such restart.
    pub fn delay(&self, attempt: u32) -> Option<Duration> {
        let doubled = self.first_delay.saturating_mul(1 << attempt.saturating_sub(1).min(16));
        (1..=self.attempts).contains(&attempt).then(|| doubled.min(self.max_delay))
    }
}

impl From<RestartMode> for RestartPolicy {
    fn from(mode: RestartMode) -> Self {
        match mode {
            RestartMode::No => Self::NEVER,
            RestartMode::OnFailure => Self { only_after_failure: true, ..Self::default() },
            RestartMode::Always => Self::default(),
        }
    }
}

/// Counts the consecutive restarts of one server.
#[derive(Debug)]
pub(crate) struct Backoff {
    policy: RestartPolicy,
    attempt: u32,
    /// Number of consecutive failed starts whose cause was outside of the server.
    outage: u32,
}

impl Backoff {
    pub(crate) fn new(policy: RestartPolicy) -> Self {
        Self { policy, attempt: 0, outage: 0 }
    }

    /// Resets the count.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.policy);
    }

    /// Returns the number of the next consecutive restart and the delay before it, after a server has ended that had
    /// run for `lived`; `None` if the server is not restarted.
    ///
    /// A start that fails because the engine is unavailable is retried without limit, and does not count as an
    /// attempt.
    pub(crate) fn next(&mut self, ended: &ProcessExit, lived: Duration) -> Option<(u32, Duration)> {
        if lived >= self.policy.stable_after {
            self.reset();
        }
        if ended.transient {
            self.outage += 1;
            let delay = self.policy.delay(self.outage.min(self.policy.attempts))?;
            return Some((self.attempt.max(1), delay));
        }
        let succeeded = ended.exit.is_some_and(|exit| exit.code == 0);
        if succeeded && self.policy.only_after_failure {
            return None;
        }
        self.outage = 0;
        self.attempt += 1;
        self.policy.delay(self.attempt).map(|delay| (self.attempt, delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ended(passing: bool) -> ProcessExit {
        ProcessExit { exit: None, reason: "ended".to_owned(), transient: passing }
    }

    fn policy() -> RestartPolicy {
        let max_delay = SECOND * 5;
        RestartPolicy { attempts: 4, first_delay: SECOND, max_delay, ..RestartPolicy::default() }
    }

    #[test]
    fn the_mode_decides_by_the_exit_code() {
        for (mode, code, restarts) in [
            (RestartMode::No, 1, false),
            (RestartMode::OnFailure, 1, true),
            (RestartMode::OnFailure, 0, false),
            (RestartMode::Always, 0, true),
        ] {
            let exit = Some(crate::runtime::Exit::with_code(code));
            let ended = ProcessExit { exit, ..ended(false) };
            let next = Backoff::new(RestartPolicy::from(mode)).next(&ended, SECOND * 60);
            assert_eq!(next.is_some(), restarts, "{mode}: {code}");
        }
        let unknown = Backoff::new(RestartPolicy::from(RestartMode::OnFailure)).next(&ended(false), SECOND);
        assert!(unknown.is_some(), "a server that was lost has failed");
    }

    #[test]
    fn the_backoff_doubles_up_to_its_limit() {
        let mut backoff = Backoff::new(policy());
        let delays: Vec<_> = std::iter::from_fn(|| backoff.next(&ended(false), Duration::ZERO)).collect();
        assert_eq!(delays, [(1, SECOND), (2, SECOND * 2), (3, SECOND * 4), (4, SECOND * 5)]);
        assert_eq!(Backoff::new(RestartPolicy::NEVER).next(&ended(false), SECOND), None);
        assert_eq!(RestartPolicy { attempts: u32::MAX, ..policy() }.delay(u32::MAX), Some(SECOND * 5));
    }

    #[test]
    fn a_steady_run_resets_the_count() {
        let mut backoff = Backoff::new(policy());
        for _ in 0..4 {
            assert!(backoff.next(&ended(false), SECOND * 29).is_some());
        }
        assert_eq!(backoff.next(&ended(false), SECOND * 30), Some((1, SECOND)));
        assert_eq!(backoff.next(&ended(false), Duration::ZERO), Some((2, SECOND * 2)));
    }

    #[test]
    fn an_engine_outage_uses_no_attempts() {
        let mut backoff = Backoff::new(policy());
        assert_eq!(backoff.next(&ended(false), Duration::ZERO), Some((1, SECOND)));
        for expected in [1, 2, 4, 5, 5, 5, 5] {
            let (attempt, delay) = backoff.next(&ended(true), Duration::ZERO).expect("another attempt");
            assert_eq!((attempt, delay), (1, SECOND * expected));
        }
        assert_eq!(backoff.next(&ended(false), Duration::ZERO), Some((2, SECOND * 2)));
        assert_eq!(Backoff::new(RestartPolicy::NEVER).next(&ended(true), SECOND), None);
    }
}
