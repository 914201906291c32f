//! The signals that end a command.

use mcpm::{Error, ErrorKind, Result};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};

/// Listens for SIGINT, SIGTERM and SIGQUIT. None of them is missed that comes from then on, also while nobody waits.
pub(crate) struct Stop([Signals; 3]);

impl Stop {
    pub(crate) fn listen() -> Result<Self> {
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Error::new(ErrorKind::Internal, "cannot listen for signals").source(error))
        };
        let (interrupt, terminate) = (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        Ok(Self([interrupt, terminate, listen(SignalKind::quit())?]))
    }

    /// Waits for one of them.
    pub(crate) async fn asked(&mut self) {
        let [interrupt, terminate, quit] = &mut self.0;
        tokio::select! {
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
