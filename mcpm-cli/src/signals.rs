//! Listens for the signals that end a command, and sends SIGTERM to child processes.

use mcpm::{Error, ErrorKind, Result};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    process::Child,
    signal::unix::{Signal as Signals, SignalKind, signal},
};

/// Listens for SIGINT, SIGTERM, SIGQUIT and SIGHUP, which a terminal sends when it is closed. Signals that arrive
/// while nothing waits are not lost. If SIGHUP was ignored from the start, as under `nohup`, it stays ignored.
pub(crate) struct StopSignals {
    signals: [Signals; 3],
    hangup: Option<Signals>,
}

impl StopSignals {
    pub(crate) fn listen() -> Result<Self> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Error::new(ErrorKind::Internal, "cannot listen for signals").source(error))
        };
        let (interrupt, terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        let hangup = if ignores_hangup() { None } else { Some(listen(SignalKind::hangup())?) };
        Ok(Self { signals: [interrupt, terminate, listen(SignalKind::quit())?], hangup })
    }

    /// Waits for one of these signals.
    pub(crate) async fn recv(&mut self) {
        let [interrupt, terminate, quit] = &mut self.signals;
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = hangup => {}
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = quit.recv() => {}
        }
    }
}

/// Sends SIGTERM to a child process.
pub(crate) fn terminate(child: &mut Child) {
    if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)) {
        // It may have exited already.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Returns whether the parent process has set SIGHUP to be ignored. This is known only on Linux, and assumed to be
/// false elsewhere.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u128::from_str_radix(mask.trim(), 16).ok());
    // The mask starts with signal 1, which is SIGHUP.
    ignored.is_some_and(|mask| mask & 1 == 1)
}
