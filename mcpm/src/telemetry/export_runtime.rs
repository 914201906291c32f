//! The thread on which connections to a collector live.
//!
//! It is none of the program's: a program that is busy, or has one thread for everything, neither delays telemetry
//! nor is delayed by it, and what waits can be sent while the program's own runtime is being torn down.

use std::thread::{Builder, JoinHandle};

use tokio::{runtime::Handle, sync::oneshot};

use crate::{Error, ErrorKind, Result};

/// A runtime on a thread of its own. Dropping it ends both.
#[derive(Debug)]
pub(super) struct ExportRuntime {
    handle: Handle,
    /// The thread waits for this to be dropped.
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
                // It ends with an error, since nothing is ever sent.
                let _ = runtime.block_on(stopped);
            })
            .map_err(failed)?;
        Ok(Self { handle, _stop: stop })
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle.clone()
    }
}

/// Runs something on a thread of its own, if there can be one.
pub(super) fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) -> Option<JoinHandle<()>> {
    match Builder::new().name(name.to_owned()).spawn(work) {
        Ok(thread) => Some(thread),
        Err(error) => {
            tracing::warn!(%error, "no thread for the last telemetry");
            None
        }
    }
}
