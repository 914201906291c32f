//! Processes that are known by more than their pid.
//!
//! A pid is used again after its process ended. The start time tells the two apart where the kernel shows it
//! (Linux); elsewhere the pid alone has to do, and only the [`Lock`](super::Lock) is sure.

#[cfg(target_os = "linux")]
use std::{io, os::fd::OwnedFd};
use std::{process, time::Duration};

use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process, test_kill_process},
};
use serde::{Deserialize, Serialize};
#[cfg(target_os = "linux")]
use tokio::io::{Interest, unix::AsyncFd};

use crate::{Error, ErrorKind, Result};

/// How often a process is looked at where the kernel cannot tell of its end.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// One process, never another that got its pid later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessId {
    /// Its pid.
    pub pid: u32,
    /// When it started, in clock ticks since boot, where that is known.
    pub start_time: Option<u64>,
}

impl ProcessId {
    /// Returns this process.
    pub fn current() -> Self {
        Self::of(process::id())
    }

    /// Tells whether the process lives. One that ended and waits for its parent does not.
    pub fn is_alive(self) -> bool {
        match self.start_time {
            Some(_) => start_time(self.pid) == self.start_time,
            None => self.raw().is_some_and(|pid| !matches!(test_kill_process(pid), Err(Errno::SRCH))),
        }
    }

    /// Asks the process to end. Returns false if it has ended already.
    pub fn terminate(self) -> Result<bool> {
        self.signal(Signal::TERM)
    }

    /// Ends the process at once. Returns false if it has ended already.
    pub fn kill(self) -> Result<bool> {
        self.signal(Signal::KILL)
    }

    /// Waits until the process has ended, but not longer than `limit`. Tells whether it has.
    ///
    /// # Panics
    ///
    /// Panics outside a tokio runtime with I/O and time.
    pub async fn wait_exit(self, limit: Duration) -> bool {
        tokio::time::timeout(limit, self.exited()).await.is_ok()
    }

    fn of(pid: u32) -> Self {
        Self { pid, start_time: start_time(pid) }
    }

    fn raw(self) -> Option<Pid> {
        i32::try_from(self.pid).ok().and_then(Pid::from_raw)
    }

    fn signal(self, signal: Signal) -> Result<bool> {
        let Some(pid) = self.raw().filter(|_| self.is_alive()) else { return Ok(false) };
        match kill_process(pid, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => {
                let message = format!("cannot signal the process {}", self.pid);
                Err(Error::new(ErrorKind::Io, message).source(error))
            }
        }
    }

    #[cfg(target_os = "linux")]
    async fn exited(self) {
        use rustix::process::{PidfdFlags, pidfd_open};

        let handle = self.raw().and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // The check comes after the opening: what it then finds alive is what was opened.
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
    async fn gone(self) {
        self.looked_at_until_gone().await;
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

/// Returns when a living process started, if it lives and the kernel says so.
#[cfg(target_os = "linux")]
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&String::from_utf8_lossy(&stat))
}

#[cfg(not(target_os = "linux"))]
fn start_time(_pid: u32) -> Option<u64> {
    None
}

/// Reads field 22 of `/proc/PID/stat`, unless field 3 says that the process has ended.
#[cfg(target_os = "linux")]
fn parse_stat(stat: &str) -> Option<u64> {
    // Field 2 is the name in parentheses, which may itself have spaces and parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let ended = matches!(fields.next()?, "Z" | "X" | "x");
    fields.nth(18)?.parse().ok().filter(|_| !ended)
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
