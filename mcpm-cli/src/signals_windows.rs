//! Listens for the console events that end a command, and ends child processes.

use mcpm::{Error, ErrorKind, Result};
use tokio::{
    process::Child,
    signal::windows::{CtrlBreak, CtrlC, CtrlClose, ctrl_break, ctrl_c, ctrl_close},
};

/// Listens for Ctrl-C, Ctrl-Break, and the closing of the console.
pub(crate) struct StopSignals {
    interrupt: CtrlC,
    pause: CtrlBreak,
    close: CtrlClose,
}

impl StopSignals {
    pub(crate) fn listen() -> Result<Self> {
        let failed = |error| Error::new(ErrorKind::Internal, "cannot listen for signals").source(error);
        Ok(Self {
            interrupt: ctrl_c().map_err(failed)?,
            pause: ctrl_break().map_err(failed)?,
            close: ctrl_close().map_err(failed)?,
        })
    }

    /// Waits for one of these events.
    pub(crate) async fn recv(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.pause.recv() => {}
            _ = self.close.recv() => {}
        }
    }
}

/// Ends a child process.
pub(crate) fn terminate(child: &mut Child) {
    // It may have exited already.
    let _ = child.start_kill();
}
