//! Implements the handle of a running workload. Dropping the handle stops the workload.

use std::{sync::Arc, time::Duration};

use super::{
    EventStream, WorkloadSpec, Workloads,
    container::{Containers, UnconfirmedCreations},
    http_server::HttpServer,
    manage::client_transport,
    record::Record,
};
use crate::{
    Environment, Result,
    clients::Clients,
    proxy::{RunningProxy, stdio::StdioServer},
    runtime::Exit,
    state::{Lock, Phase, Status, Store},
    stdio::ProcessExit,
    stdio_bridge::{ConnectOptions, Connection},
};

/// A running workload.
///
/// Dropping it stops the workload at once and blocks until the engine has done so; prefer [`stop`](Self::stop).
#[derive(Debug)]
pub struct RunningWorkload {
    // The fields are in the order in which they must be dropped.
    pub(super) proxy: RunningProxy,
    pub(super) server: ServerHandle,
    pub(super) containers: Option<Containers>,
    // Boxed, since it is large and handles are moved.
    pub(super) on_drop: Box<StopOnDrop>,
    pub(super) _lock: Lock,
}

/// The server behind the proxy.
#[derive(Debug)]
pub(super) enum ServerHandle {
    Stdio(StdioServer),
    Http(Box<HttpServer>),
    /// A remote server.
    Remote,
}

impl RunningWorkload {
    /// Returns its name.
    pub fn name(&self) -> &str {
        self.on_drop.spec.name.as_str()
    }

    /// Returns the URL for clients; empty for a workload that only its own process can use.
    pub fn url(&self) -> &str {
        self.proxy.url()
    }

    /// Connects to the server from this process, without a port. Requests pass the whole proxy, and callers
    /// authenticate as over the port. Nothing is sent before the first message.
    ///
    /// # Errors
    /// `Upstream` if the workload has stopped.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn connect(&self) -> Result<Connection> {
        self.connect_with(ConnectOptions::default())
    }

    /// Connects to the server with options.
    ///
    /// # Errors
    /// `Upstream` if the workload has stopped; `InvalidOption` for a token that is not valid in a header.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn connect_with(&self, mut options: ConnectOptions) -> Result<Connection> {
        options.mode = options.mode.or(Some(client_transport(self.spec())));
        self.proxy.connect_with(options)
    }

    /// Returns its spec.
    pub fn spec(&self) -> &WorkloadSpec {
        &self.on_drop.spec
    }

    /// Returns its status.
    pub fn status(&self) -> Status {
        self.on_drop.record.status()
    }

    /// Subscribes to events from now on.
    pub fn events(&self) -> EventStream {
        self.on_drop.record.events.subscribe()
    }

    /// Returns the output of the server; with `follow`, the stream continues until the workload has ended.
    ///
    /// # Errors
    /// `NotFound` for a remote server.
    pub async fn logs(&self, follow: bool, tail: Option<usize>) -> Result<super::Logs> {
        Workloads::new(self.on_drop.environment.clone()).logs(self.name(), follow, tail).await
    }

    /// Waits until the server has exited and will not be restarted; returns how it exited, if that is known.
    pub async fn wait(&self) -> Option<Exit> {
        self.on_drop.record.wait_for_end().await.exit
    }

    /// Stops the workload; the server gets `grace` to exit by itself. Its container and its record stay, so that it
    /// can be started again, unless it was launched as ephemeral.
    ///
    /// # Errors
    /// The errors of the engine; the workload is recorded as stopped in any case.
    pub async fn stop(self, grace: Duration) -> Result<()> {
        self.end(grace, false).await
    }

    /// Stops the workload as [`stop`](Self::stop) does, and records that something other than mcpm, such as a shutdown
    /// of the machine, told its process to end. [`Workloads::interrupted`](super::Workloads::interrupted) then lists
    /// the workload.
    ///
    /// # Errors
    /// As for [`stop`](Self::stop).
    pub async fn interrupt(self, grace: Duration) -> Result<()> {
        self.end(grace, true).await
    }

    async fn end(mut self, grace: Duration, interrupted: bool) -> Result<()> {
        let record = Arc::clone(&self.on_drop.record);
        let gone = record.status().phase == Phase::Failed;
        if !gone {
            record.update(Phase::Stopping, None, |status| status.interrupted = interrupted);
        }
        self.proxy.stop().await;
        let outcome = match &self.server {
            ServerHandle::Stdio(server) => {
                server.stop(grace).await;
                Ok(())
            }
            ServerHandle::Http(server) => server.stop(grace).await,
            ServerHandle::Remote => Ok(()),
        };
        self.proxy.flush().await;
        let isolation = self.containers.as_ref().and_then(|containers| containers.isolation.as_ref());
        let learnt = isolation.and_then(|isolation| isolation.finish_recording());
        learnt.iter().for_each(|message| record.warn(message.clone()));
        self.on_drop.armed = false;
        if !gone {
            // A workload in the background has no subscribers; the process that stops it reads the record.
            record.update(Phase::Stopped, learnt, |status| {
                status.supervisor = None;
                status.interrupted = interrupted;
            });
            record.finish(ProcessExit { exit: None, reason: "was stopped".to_owned(), transient: false });
        }
        if self.on_drop.ephemeral {
            if let Some(containers) = &self.containers {
                containers.remove_all().await?;
            }
            self.on_drop.store.remove(&self.on_drop.spec.name)?;
            Clients::new(self.on_drop.environment.clone()).remove_workload(self.on_drop.spec.name.as_str());
        }
        outcome
    }

    /// Detaches the workload from the handle: its proxy runs until this process ends, and its container continues after
    /// that.
    pub fn detach(self) {
        // The handle is leaked on purpose.
        std::mem::forget(self);
    }
}

/// Stops a workload that was not stopped, from a context that cannot await.
#[derive(Debug)]
pub(super) struct StopOnDrop {
    pub(super) spec: WorkloadSpec,
    pub(super) environment: Environment,
    pub(super) store: Store,
    pub(super) record: Arc<Record>,
    pub(super) ephemeral: bool,
    pub(super) creations: UnconfirmedCreations,
    pub(super) armed: bool,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        end_containers(self.spec.clone(), self.environment.clone(), self.ephemeral, self.creations.clone());
        if self.record.status().phase != Phase::Failed {
            self.record.update(Phase::Stopped, None, |status| status.supervisor = None);
        }
        if self.ephemeral
            && let Err(error) = self.store.remove(&self.spec.name)
        {
            tracing::warn!(%error, "the workload's record could not be removed");
        }
    }
}

/// Stops a workload's containers from a context that cannot await, on a thread and a connection of its own, since the
/// workload's async runtime may be shutting down. Blocks until the engine has done so.
pub(super) fn end_containers(
    spec: WorkloadSpec,
    environment: Environment,
    remove: bool,
    creations: UnconfirmedCreations,
) {
    if spec.container().is_none() {
        return;
    }
    let ending = std::thread::spawn(move || {
        let Ok(executor) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        executor.block_on(async move {
            let ended = async {
                let Some(containers) = Containers::for_workload(&spec, &environment).await? else {
                    return Ok(());
                };
                if remove {
                    containers.wait_for_abandoned(&creations).await?;
                }
                containers.stop_all(Duration::ZERO).await?;
                if remove { containers.remove_all().await } else { Ok(()) }
            };
            if let Err(error) = ended.await {
                tracing::warn!(%error, "a container could not be removed");
            }
        });
    });
    if ending.join().is_err() {
        tracing::warn!("a workload could not be stopped");
    }
}
