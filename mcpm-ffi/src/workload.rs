//! Workloads as Python and Swift see them.

use std::{sync::Arc, time::Duration};

use mcpm::{options::WorkloadOptions, state::Phase};

use crate::{
    Events, McpmError, executor,
    workload_handle::{StatusSnapshot, WorkloadHandle},
};

/// A workload that runs: an MCP server in a container, behind a proxy of its own.
///
/// It lives as long as this object and this process, so keep it; the end of either ends it at once. Stop it to
/// let its server end by itself.
#[derive(Debug, uniffi::Object)]
pub struct Workload(Arc<WorkloadHandle>);

/// How a workload is.
#[derive(Debug, uniffi::Record)]
pub struct WorkloadStatus {
    /// Where it is in its life.
    pub phase: Phase,
    /// Why it is there, when that is not plain.
    pub reason: Option<String>,
    /// How often its server was started again.
    pub restarts: u32,
    /// How its server last ended.
    pub exit_code: Option<i64>,
}

impl From<StatusSnapshot> for WorkloadStatus {
    fn from(StatusSnapshot { phase, reason, restarts, exit_code }: StatusSnapshot) -> Self {
        Self { phase, reason, restarts, exit_code }
    }
}

#[uniffi::export]
impl Workload {
    /// Starts a workload and returns once clients can connect. Its record and the engine are found through the
    /// variables of this process, as by the command line.
    ///
    /// `events` get what happens meanwhile, the pull of the image included. A start that is cancelled is undone;
    /// its name is free again when that is done.
    #[uniffi::constructor(default(events = None))]
    pub async fn start(
        options: WorkloadOptions,
        events: Option<Arc<Events>>,
    ) -> Result<Arc<Self>, McpmError> {
        let listen = match events {
            Some(events) => Some(events.take_sender()?),
            None => None,
        };
        let started = WorkloadHandle::start(options, move |stream| {
            if let Some(place) = listen {
                // Whoever waited for it may be gone.
                let _ = place.send(stream);
            }
        });
        Ok(Arc::new(Self(executor::spawn_cancellable(started)?.join_or_abort().await?)))
    }

    /// Returns its name.
    pub fn name(&self) -> String {
        self.0.name().to_owned()
    }

    /// Returns where clients connect.
    pub fn url(&self) -> String {
        self.0.url().to_owned()
    }

    /// Returns how it is.
    pub fn status(&self) -> WorkloadStatus {
        self.0.status().into()
    }

    /// Listens to what happens from now on.
    pub fn events(&self) -> Arc<Events> {
        Arc::new(self.0.events().map_or_else(Events::ended, Events::from))
    }

    /// Ends it: its server gets `grace` to end by itself. Its container and its record stay, so that the command
    /// line can start it again. Stopping twice does no harm; a stop whose caller is cancelled goes on.
    pub async fn stop(&self, grace: Duration) -> Result<(), McpmError> {
        let held = Arc::clone(&self.0);
        Ok(executor::spawn_to_completion(async move { held.stop(grace).await })?.join().await?)
    }
}

/// Ends every workload and proxy of this process, and the threads of mcpm. Call it before the process ends; the
/// Python package does it by itself.
#[uniffi::export]
pub fn shutdown() -> Result<(), McpmError> {
    Ok(executor::shutdown()?)
}
