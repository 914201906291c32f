//! Has the connections of an isolated container carried over the engine's API, where the engine shares no sockets
//! with this machine: it is in a virtual machine, or somewhere else.
//!
//! The shim is brought into a volume of the container's. Once the container runs, the shim is run there once more, and
//! all connections go over the streams of that process. When it ends, another is run, for as long as the container
//! runs.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;

use crate::{
    Result,
    isolation::{self, ExecRelay, Isolation, SHIM_FILE_NAME},
    runtime::{ContainerId, ContainerSpec, ContainerState, LogStream, Runtime},
};

/// What the shim is told to carry.
const RELAY_COMMAND: &str = "carry";
/// Pauses before another process is run.
const INITIAL_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(2);
/// One that ran for so long has not failed.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// The folder of the shim, when it is brought in.
fn shim_volume(spec: &ContainerSpec) -> Option<&str> {
    spec.entry.as_ref().and_then(|entry| entry.volume.as_deref())
}

/// Brings the shim into a container that does not run, also over one that the server has changed.
pub(super) async fn upload_shim(runtime: &dyn Runtime, spec: &ContainerSpec, id: &ContainerId) -> Result<()> {
    match shim_volume(spec) {
        Some(folder) => {
            let program = isolation::shim_binary(&runtime.engine().await?.architecture)?;
            runtime.upload(id, folder, SHIM_FILE_NAME, program).await
        }
        None => Ok(()),
    }
}

/// Carries for a container that was started, until it has ended.
pub(super) fn spawn_relay(
    runtime: &Arc<dyn Runtime>,
    spec: &ContainerSpec,
    slot: usize,
    id: &ContainerId,
    isolation: &Isolation,
) {
    let Some(folder) = shim_volume(spec) else { return };
    let command = vec![format!("{folder}/{SHIM_FILE_NAME}"), RELAY_COMMAND.to_owned()];
    let keeper = ExecRelaySupervisor {
        runtime: Arc::clone(runtime),
        id: id.clone(),
        command,
        carrier: isolation.exec_relay(),
    };
    isolation.spawn_for_slot(slot, keeper.spawn_relay());
}

struct ExecRelaySupervisor {
    runtime: Arc<dyn Runtime>,
    id: ContainerId,
    command: Vec<String>,
    carrier: ExecRelay,
}

impl ExecRelaySupervisor {
    async fn spawn_relay(self) {
        let mut pause = INITIAL_BACKOFF;
        loop {
            let since = Instant::now();
            let outcome = self.run_relay().await;
            // An engine that does not answer may do so again.
            if let Ok(found) = self.runtime.inspect(&self.id.0).await
                && found.is_none_or(|found| found.state != ContainerState::Running)
            {
                return;
            }
            match outcome {
                Ok(()) => tracing::info!(container = %self.id, "the stream to an isolated container ended"),
                Err(error) => {
                    tracing::warn!(container = %self.id, %error, "an isolated container is cut off for now");
                }
            }
            pause =
                if since.elapsed() > STABLE_AFTER { INITIAL_BACKOFF } else { (pause * 2).min(MAX_BACKOFF) };
            tokio::time::sleep(pause).await;
        }
    }

    /// Runs one process that carries, to its end.
    async fn run_relay(&self) -> Result<()> {
        let attached = self.runtime.execute(&self.id, &self.command).await?;
        let input = attached.output.filter_map(|piece| {
            std::future::ready(match piece {
                Ok(chunk) if chunk.stream == LogStream::Stdout => Some(Ok(chunk.bytes)),
                Ok(chunk) => {
                    let words = String::from_utf8_lossy(&chunk.bytes);
                    tracing::debug!(container = %self.id, words = %words.trim_end(), "the shim complains");
                    None
                }
                Err(error) => Some(Err(error)),
            })
        });
        if let Err(error) = self.carrier.serve(input, attached.stdin).await {
            tracing::debug!(container = %self.id, %error, "the stream to an isolated container broke off");
        }
        Ok(())
    }
}
