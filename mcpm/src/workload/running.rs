//! A workload that runs: what can be asked of it, and how it ends, also when nobody stops it.

use std::{sync::Arc, time::Duration};

use super::{EventStream, WorkloadSpec, container::Containers, http_server::HttpServer, record::Record};
use crate::{
    Environment, Result,
    proxy::{RunningProxy, stdio::StdioServer},
    runtime::Exit,
    state::{Lock, Phase, Status, Store},
    stdio::ProcessExit,
};

/// A workload that runs.
///
/// Dropping it ends the workload at once and blocks while the engine does it, so prefer [`stop`](Self::stop).
#[derive(Debug)]
pub struct RunningWorkload {
    // In the order in which a dropped workload ends.
    pub(super) proxy: RunningProxy,
    pub(super) server: ServerHandle,
    pub(super) containers: Option<Containers>,
    // Boxed, since it is large and handles are moved about.
    pub(super) on_drop: Box<StopOnDrop>,
    pub(super) _lock: Lock,
}

/// The server behind the proxy.
#[derive(Debug)]
pub(super) enum ServerHandle {
    Stdio(StdioServer),
    Http(Box<HttpServer>),
    /// Others run it.
    Remote,
}

impl RunningWorkload {
    /// Returns its name.
    pub fn name(&self) -> &str {
        self.on_drop.spec.name.as_str()
    }

    /// Returns where clients connect.
    pub fn url(&self) -> &str {
        self.proxy.url()
    }

    /// Returns what it was started from.
    pub fn spec(&self) -> &WorkloadSpec {
        &self.on_drop.spec
    }

    /// Returns how it is.
    pub fn status(&self) -> Status {
        self.on_drop.record.status()
    }

    /// Listens to what happens from now on.
    pub fn events(&self) -> EventStream {
        self.on_drop.record.events.subscribe()
    }

    /// Returns what the server wrote so far, and with `follow` what it writes until it ends.
    ///
    /// # Errors
    /// Those of the engine; `NotFound` for a remote server.
    pub async fn logs(&self, follow: bool, tail: Option<usize>) -> Result<super::Logs> {
        match &self.containers {
            Some(containers) => super::manage::container_logs(containers, follow, tail).await,
            None => Err(super::manage::no_logs(self.name())),
        }
    }

    /// Waits until the server has ended and is not started again; returns its exit code when it is known.
    pub async fn wait(&self) -> Option<Exit> {
        self.on_drop.record.wait_for_end().await.exit
    }

    /// Ends the workload: the server gets `grace` to end by itself. Its container and its record stay, so that it
    /// can be started again, unless it was launched as ephemeral.
    ///
    /// # Errors
    /// Those of the engine; the workload is on record as stopped all the same.
    pub async fn stop(mut self, grace: Duration) -> Result<()> {
        let record = Arc::clone(&self.on_drop.record);
        let gone = record.status().phase == Phase::Failed;
        if !gone {
            record.update(Phase::Stopping, None, |_| {});
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
            // Nobody listens to a workload in the background; whoever stops it reads the record.
            record.update(Phase::Stopped, learnt, |status| status.supervisor = None);
            record.finish(ProcessExit { exit: None, reason: "was stopped".to_owned(), transient: false });
        }
        if self.on_drop.ephemeral {
            if let Some(containers) = &self.containers {
                containers.remove_all().await?;
            }
            self.on_drop.store.remove(&self.on_drop.spec.name)?;
        }
        outcome
    }

    /// Lets the workload live on without the handle: as long as this process, and its container beyond it.
    pub fn detach(self) {
        // Nobody can reach it any more, which is what was asked for.
        std::mem::forget(self);
    }
}

/// Ends a workload that was not stopped, from a place that cannot wait.
#[derive(Debug)]
pub(super) struct StopOnDrop {
    pub(super) spec: WorkloadSpec,
    pub(super) environment: Environment,
    pub(super) store: Store,
    pub(super) record: Arc<Record>,
    pub(super) ephemeral: bool,
    pub(super) armed: bool,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        end_containers(self.spec.clone(), self.environment.clone(), self.ephemeral);
        if self.record.status().phase != Phase::Failed {
            self.record.update(Phase::Stopped, None, |status| status.supervisor = None);
        }
        if self.ephemeral
            && let Err(error) = self.store.remove(&self.spec.name)
        {
            tracing::warn!(%error, "a record was left behind");
        }
    }
}

/// Ends a workload's containers from a place that cannot wait, on a thread and a connection of its own: the
/// executor the workload lived on may be going down. Blocks until the engine has done it.
pub(super) fn end_containers(spec: WorkloadSpec, environment: Environment, remove: bool) {
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
                containers.stop_all(Duration::ZERO).await?;
                if remove { containers.remove_all().await } else { Ok(()) }
            };
            if let Err(error) = ended.await {
                tracing::warn!(%error, "a container was left behind");
            }
        });
    });
    if ending.join().is_err() {
        tracing::warn!("a workload could not be ended");
    }
}
