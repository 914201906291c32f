//! Identifies processes by their pid and their start time.
//!
//! A pid can be reused after its process has ended. On Linux, the start time distinguishes the old process from the new
//! one. On other systems, only the pid is compared, so only the [`Lock`](super::Lock) is reliable.

#[cfg(target_os = "linux")]
use std::{io, os::fd::OwnedFd};
use std::{process, time::Duration};

use serde::{Deserialize, Serialize};
#[cfg(target_os = "linux")]
use tokio::io::{Interest, unix::AsyncFd};

use crate::{
    Error, ErrorKind, Result,
    platform::{Signal, process_exists, signal_process},
};

/// Poll interval where the kernel cannot report the end of a process.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The identity of a process, which distinguishes it from a later process with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessId {
    /// The pid.
    pub pid: u32,
    /// The start time in clock ticks since boot, if known.
    pub start_time: Option<u64>,
}

impl ProcessId {
    /// Returns the current process.
    pub fn current() -> Self {
        Self::of(process::id())
    }

    /// Returns whether the process is alive. A zombie is not.
    pub fn is_alive(self) -> bool {
        match self.start_time {
            Some(_) => start_time(self.pid) == self.start_time,
            None => process_exists(self.pid),
        }
    }

    /// Sends SIGTERM. Returns `false` if the process has ended already.
    pub fn terminate(self) -> Result<bool> {
        self.signal(Signal::TERM)
    }

    /// Sends SIGKILL. Returns `false` if the process has ended already.
    pub fn kill(self) -> Result<bool> {
        self.signal(Signal::KILL)
    }

    /// Waits until the process has ended, at most for `limit`. Returns whether it has.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with I/O and time.
    pub async fn wait_exit(self, limit: Duration) -> bool {
        tokio::time::timeout(limit, self.exited()).await.is_ok()
    }

    pub(crate) fn of(pid: u32) -> Self {
        Self { pid, start_time: start_time(pid) }
    }

    fn signal(self, signal: Signal) -> Result<bool> {
        if !self.is_alive() {
            return Ok(false);
        }
        signal_process(self.pid, signal).map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot send a signal to the process {}", self.pid))
                .source(error)
        })
    }

    #[cfg(target_os = "linux")]
    pub(crate) async fn exited(self) {
        use rustix::process::{Pid, PidfdFlags, pidfd_open};

        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let handle = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // The check comes after the opening: if the process is alive at that time, the handle is that of this process.
        if let Some(handle) = handle
            && self.is_alive()
            && let Ok(handle) = watch(handle)
            && handle.readable().await.is_ok()
        {
            return;
        }
        self.poll_until_exit().await;
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) async fn exited(self) {
        self.poll_until_exit().await;
    }

    async fn poll_until_exit(self) {
        while self.is_alive() {
            tokio::time::sleep(EXIT_POLL_INTERVAL).await;
        }
    }
}

#[cfg(target_os = "linux")]
#[expect(
    deprecated,
    reason = "its replacement is unsafe for the sake of types that, unlike this, can swap their fd"
)]
fn watch(handle: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(handle, Interest::READABLE)
}

/// The start time of a living process, if the kernel provides it.
#[cfg(target_os = "linux")]
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&String::from_utf8_lossy(&stat))
}

#[cfg(not(target_os = "linux"))]
fn start_time(_pid: u32) -> Option<u64> {
    None
}

/// Parses field 22 of `/proc/PID/stat`, unless field 3 says that the process has ended.
#[cfg(target_os = "linux")]
fn parse_stat(stat: &str) -> Option<u64> {
    // Field 2 is the name in parentheses, which may contain spaces and parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let ended = matches!(fields.next()?, "Z" | "X" | "x");
    fields.nth(18)?.parse().ok().filter(|_| !ended)
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
