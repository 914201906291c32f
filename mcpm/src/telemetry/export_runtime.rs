//! Runs connections to a collector on a thread and a runtime of their own.
//!
//! This runtime is separate from that of the program: a busy or single-threaded program neither delays telemetry nor is
//! delayed by it, and pending telemetry can be sent while the program's runtime shuts down.

use std::thread::{Builder, JoinHandle};

use tokio::{runtime::Handle, sync::oneshot};

use crate::{Error, ErrorKind, Result};

/// A runtime on its own thread. Dropping it ends both.
#[derive(Debug)]
pub(super) struct ExportRuntime {
    handle: Handle,
    /// The thread ends when this sender is dropped.
    _stop: oneshot::Sender<()>,
}

impl ExportRuntime {
    pub(super) fn start() -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Io, "cannot start a thread for telemetry").source(error)
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        Builder::new()
            .name("mcpm-telemetry".to_owned())
            .spawn(move || {
                // This returns an error when the sender is dropped, because nothing is ever sent.
                let _ = runtime.block_on(stopped);
            })
            .map_err(failed)?;
        Ok(Self { handle, _stop: stop })
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

/// Runs a function on its own thread, if one can be started.
pub(super) fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    match Builder::new().name(name.to_owned()).spawn(work) {
        Ok(thread) => Some(thread),
        Err(error) => {
            tracing::warn!(%error, "cannot start a thread to send the last telemetry");
            None
        }
    }
}
