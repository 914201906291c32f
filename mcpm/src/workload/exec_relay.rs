//! Relays the connections of an isolated container over the engine's API, if the engine runs in a virtual machine or
//! remotely and so cannot share sockets with this machine.
//!
//! The shim, which is the first process of the container, is copied into a volume of the container. Once the container
//! runs, mcpm starts the shim there a second time, through the engine's `exec`, and relays all connections over the
//! standard streams of this second process. If it exits while the container runs, mcpm starts another one.

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

/// The command-line argument of a relaying shim.
const RELAY_COMMAND: &str = "carry";
/// The shortest pause before the relaying process is restarted; it grows up to `MAX_BACKOFF`.
const INITIAL_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(2);
/// A process that ran for this long resets the pause.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// Returns the folder of the container into which the shim is copied; `None` if the shim is mounted.
fn shim_volume(spec: &ContainerSpec) -> Option<&str> {
    spec.entry.as_ref().and_then(|entry| entry.volume.as_deref())
}

/// Copies the shim into a stopped container, replacing one that the server may have changed.
pub(super) async fn upload_shim(runtime: &dyn Runtime, spec: &ContainerSpec, id: &ContainerId) -> Result<()> {
    match shim_volume(spec) {
        Some(folder) => {
            let program = isolation::shim_binary(&runtime.engine().await?.architecture)?;
            runtime.upload(id, folder, SHIM_FILE_NAME, program).await
        }
        None => Ok(()),
    }
}

/// Relays the connections of a started container until it exits.
pub(super) fn spawn_relay(
    runtime: &Arc<dyn Runtime>,
    spec: &ContainerSpec,
    slot: usize,
    id: &ContainerId,
    isolation: &Isolation,
) {
    let Some(folder) = shim_volume(spec) else { return };
    let command = vec![format!("{folder}/{SHIM_FILE_NAME}"), RELAY_COMMAND.to_owned()];
    let supervisor = ExecRelaySupervisor {
        runtime: Arc::clone(runtime),
        id: id.clone(),
        command,
        carrier: isolation.exec_relay(),
    };
    isolation.spawn_for_slot(slot, supervisor.spawn_relay());
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
            // An engine that does not respond may recover.
            if let Ok(found) = self.runtime.inspect(&self.id.0).await
                && found.is_none_or(|found| found.state != ContainerState::Running)
            {
                return;
            }
            match outcome {
                Ok(()) => tracing::info!(container = %self.id, "the stream to an isolated container ended"),
                Err(error) => {
                    tracing::warn!(container = %self.id, %error, "the connections of an isolated container are interrupted");
                }
            }
            pause =
                if since.elapsed() > STABLE_AFTER { INITIAL_BACKOFF } else { (pause * 2).min(MAX_BACKOFF) };
            tokio::time::sleep(pause).await;
        }
    }

    /// Runs one relaying process until it exits.
    async fn run_relay(&self) -> Result<()> {
        let attached = self.runtime.execute(&self.id, &self.command).await?;
        let input = attached.output.filter_map(|piece| {
            std::future::ready(match piece {
                Ok(chunk) if chunk.stream == LogStream::Stdout => Some(Ok(chunk.bytes)),
                Ok(chunk) => {
                    let words = String::from_utf8_lossy(&chunk.bytes);
                    tracing::debug!(container = %self.id, words = %words.trim_end(), "output of the shim");
                    None
                }
                Err(error) => Some(Err(error)),
            })
        });
        if let Err(error) = self.carrier.serve(input, attached.stdin).await {
            tracing::debug!(container = %self.id, %error, "the stream to an isolated container failed");
        }
        Ok(())
    }
}
