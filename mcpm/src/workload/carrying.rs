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
    isolation::{self, Carrier, Isolation, PROGRAM},
    runtime::{ContainerId, ContainerSpec, ContainerState, LogStream, Runtime},
};

/// What the shim is told to carry.
const CARRY: &str = "carry";
/// Pauses before another process is run.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// One that ran for so long has not failed.
const STEADY: Duration = Duration::from_secs(10);

/// The folder of the shim, when it is brought in.
fn volume(spec: &ContainerSpec) -> Option<&str> {
    spec.entry.as_ref().and_then(|entry| entry.volume.as_deref())
}

/// Brings the shim into a container that does not run, also over one that the server has changed.
pub(super) async fn bring_in(runtime: &dyn Runtime, spec: &ContainerSpec, id: &ContainerId) -> Result<()> {
    match volume(spec) {
        Some(folder) => {
            let program = isolation::program(&runtime.engine().await?.architecture)?;
            runtime.upload(id, folder, PROGRAM, program).await
        }
        None => Ok(()),
    }
}

/// Carries for a container that was started, until it has ended.
pub(super) fn keep(
    runtime: &Arc<dyn Runtime>,
    spec: &ContainerSpec,
    slot: usize,
    id: &ContainerId,
    isolation: &Isolation,
) {
    let Some(folder) = volume(spec) else { return };
    let command = vec![format!("{folder}/{PROGRAM}"), CARRY.to_owned()];
    let keeper =
        Keeper { runtime: Arc::clone(runtime), id: id.clone(), command, carrier: isolation.carrier() };
    isolation.for_slot(slot, keeper.keep());
}

struct Keeper {
    runtime: Arc<dyn Runtime>,
    id: ContainerId,
    command: Vec<String>,
    carrier: Carrier,
}

impl Keeper {
    async fn keep(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let since = Instant::now();
            let outcome = self.carry().await;
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
            pause = if since.elapsed() > STEADY { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            tokio::time::sleep(pause).await;
        }
    }

    /// Runs one process that carries, to its end.
    async fn carry(&self) -> Result<()> {
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
