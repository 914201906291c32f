//! The signals that end a command.

use mcpm::{Error, ErrorKind, Result};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};

/// Listens for SIGINT, SIGTERM, SIGQUIT and SIGHUP, which a terminal sends when it is closed. None of them is missed that
/// comes from then on, also while nobody waits. A SIGHUP that was ignored from the start, as under `nohup`, stays ignored.
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

    /// Waits for one of them.
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

/// Asks a child of this process to end.
pub(crate) fn terminate(process: u32) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Whether whoever started this process has it ignore SIGHUP. Linux tells; elsewhere it is taken for not ignored.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u128::from_str_radix(mask.trim(), 16).ok());
    // The mask begins with signal 1, which is SIGHUP.
    ignored.is_some_and(|mask| mask & 1 == 1)
}
