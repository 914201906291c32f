//! Decides how many unused connections to mcpm the shim keeps open, through which mcpm can connect to the server, and
//! when missing ones are opened.
//!
//! A connection that mcpm uses is replaced at once. After one that fails there is a delay, which grows with each
//! failure: mcpm may be restarting, or out of resources.

/// Number of waiting connections.
const IDLE_CONNECTIONS: usize = 4;
/// Delays in milliseconds.
const INITIAL_BACKOFF_MS: u64 = 10;
const MAX_BACKOFF_MS: u64 = 2000;

/// How many connections to open, and when.
#[derive(Debug)]
pub(crate) struct ReverseConnections {
    missing: usize,
    pause: u64,
    /// When the next are opened, in milliseconds of any clock.
    next: u64,
}

impl ReverseConnections {
    /// `wanted` is whether the server speaks HTTP; if it does not, no connections are opened.
    pub(crate) fn new(wanted: bool) -> Self {
        Self { missing: if wanted { IDLE_CONNECTIONS } else { 0 }, pause: INITIAL_BACKOFF_MS, next: 0 }
    }

    /// Returns the number of connections to open now.
    pub(crate) fn due(&self, now: u64) -> usize {
        if now >= self.next { self.missing } else { 0 }
    }

    /// Returns the time until the next are opened; `None` if there is nothing to do.
    pub(crate) fn wait(&self, now: u64) -> Option<u64> {
        (self.missing > 0).then(|| self.next.saturating_sub(now))
    }

    /// Records that one was opened.
    pub(crate) fn opened(&mut self) {
        self.missing = self.missing.saturating_sub(1);
    }

    /// Records that one was used, which resets the delay.
    pub(crate) fn claimed(&mut self) {
        self.missing += 1;
        self.pause = INITIAL_BACKOFF_MS;
        self.next = 0;
    }

    /// Records that one failed.
    pub(crate) fn lost(&mut self, now: u64) {
        self.missing += 1;
        self.failed(now);
    }

    /// Records that one could not be opened.
    pub(crate) fn failed(&mut self, now: u64) {
        // Several that fail at once count once.
        if now >= self.next {
            self.next = now + self.pause;
            self.pause = (self.pause * 2).min(MAX_BACKOFF_MS);
        }
    }
}
