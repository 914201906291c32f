//! Connections that wait until mcpm wants to reach the server: how many are missing, and when they are made again.
//!
//! One that mcpm takes is replaced at once. One that breaks, or that cannot be made, is tried again after a pause, which
//! grows while nothing else comes of it: mcpm may be restarting, or have no room.

/// How many wait.
const IDLE_CONNECTIONS: usize = 4;
/// Pauses in milliseconds.
const INITIAL_BACKOFF_MS: u64 = 10;
const MAX_BACKOFF_MS: u64 = 2000;

/// When to make how many.
#[derive(Debug)]
pub(crate) struct ReverseConnections {
    missing: usize,
    pause: u64,
    /// When the next are made, in milliseconds of any clock.
    next: u64,
}

impl ReverseConnections {
    /// None when no server is to be reached.
    pub(crate) fn new(wanted: bool) -> Self {
        Self { missing: if wanted { IDLE_CONNECTIONS } else { 0 }, pause: INITIAL_BACKOFF_MS, next: 0 }
    }

    /// How many are to be made now.
    pub(crate) fn due(&self, now: u64) -> usize {
        if now >= self.next { self.missing } else { 0 }
    }

    /// How long nothing is to be made; `None` for as long as nothing else happens.
    pub(crate) fn wait(&self, now: u64) -> Option<u64> {
        (self.missing > 0).then(|| self.next.saturating_sub(now))
    }

    /// One was made.
    pub(crate) fn opened(&mut self) {
        self.missing = self.missing.saturating_sub(1);
    }

    /// One was taken, so that all is well.
    pub(crate) fn claimed(&mut self) {
        self.missing += 1;
        self.pause = INITIAL_BACKOFF_MS;
        self.next = 0;
    }

    /// One broke.
    pub(crate) fn lost(&mut self, now: u64) {
        self.missing += 1;
        self.failed(now);
    }

    /// One could not be made.
    pub(crate) fn failed(&mut self, now: u64) {
        // Several that break at once count once.
        if now >= self.next {
            self.next = now + self.pause;
            self.pause = (self.pause * 2).min(MAX_BACKOFF_MS);
        }
    }
}
