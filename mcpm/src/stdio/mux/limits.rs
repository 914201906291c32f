//! Timeouts and limits of the multiplexers of a server, and of the router that selects among its processes.

use std::time::Duration;

/// Timeouts, and limits of the resources that clients can use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MuxLimits {
    /// A call without any activity is cancelled after this time.
    pub(crate) call_idle_timeout: Duration,
    /// A call is cancelled after this time, despite activity.
    pub(crate) call_timeout: Duration,
    /// An unused session ends after this time.
    pub(crate) session_idle_timeout: Duration,
    /// A process that was not used for this time can be reassigned to a client that needs one.
    pub(crate) reclaim_after: Duration,
    /// Timeout of the server's response to a handshake.
    pub(crate) handshake_timeout: Duration,
    /// How long a request waits for a process that is started for the first time.
    pub(crate) start_timeout: Duration,
    /// An unused process ends after this time, unless it is the last one.
    pub(crate) process_idle_timeout: Duration,
    /// How long a request waits for a server that is restarting.
    pub(crate) restart_timeout: Duration,
    /// Maximum number of calls in flight.
    pub(crate) max_calls: usize,
    /// Maximum number of sessions.
    pub(crate) max_sessions: usize,
    /// Maximum number of sessions of one caller, across all of its clients.
    pub(crate) max_sessions_per_caller: usize,
    /// Maximum number of processes that serve only one caller.
    pub(crate) max_processes_per_caller: usize,
}

impl Default for MuxLimits {
    fn default() -> Self {
        Self {
            call_idle_timeout: Duration::from_secs(10 * 60),
            call_timeout: Duration::from_secs(6 * 3600),
            session_idle_timeout: Duration::from_secs(2 * 3600),
            process_idle_timeout: Duration::from_secs(5 * 60),
            reclaim_after: Duration::from_secs(60),
            start_timeout: Duration::from_secs(75),
            handshake_timeout: Duration::from_secs(60),
            restart_timeout: Duration::from_secs(15),
            max_calls: 4096,
            max_sessions: 10_000,
            max_sessions_per_caller: 1000,
            max_processes_per_caller: 4,
        }
    }
}
