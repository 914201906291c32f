//! The signals that end a command.

use mcpm::{Error, ErrorKind, Result};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGINT, SIGTERM or SIGQUIT.
pub(crate) async fn stop() -> Result<()> {
    let listen = |kind| {
        signal(kind)
            .map_err(|error| Error::new(ErrorKind::Internal, "cannot listen for signals").source(error))
    };
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut quit = listen(SignalKind::quit())?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = quit.recv() => {}
    }
    Ok(())
}

/// Asks a child of this process to end.
pub(crate) fn terminate(process: u32) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _ = kill_process(pid, Signal::TERM);
    }
}
