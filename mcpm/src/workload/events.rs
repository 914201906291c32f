//! What happens to a workload, as data.

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

/// Events kept for a slow reader; older ones are dropped.
const MAX_BUFFERED_EVENTS: usize = 256;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
pub enum WorkloadEvent {
    /// An image is being pulled.
    Pulling {
        /// The image.
        image: String,
        /// Bytes fetched of the layers known so far.
        current: u64,
        /// Bytes of the layers known so far.
        total: u64,
    },
    /// A step of the build of a package's image begins.
    Building {
        /// The package.
        package: String,
        /// Which step it is, from 1 on.
        step: u32,
        /// How many there are.
        steps: u32,
        /// What the step does, as an instruction of a Dockerfile.
        instruction: String,
    },
    /// A build wrote a line.
    BuildOutput {
        /// The line.
        line: String,
    },
    /// Something the user should know that stops nothing.
    Warning {
        /// A sentence.
        message: String,
    },
    /// The container is being started.
    Starting {
        /// Name of the workload.
        name: String,
    },
    /// Clients can connect.
    Ready {
        /// Name of the workload.
        name: String,
        /// Where clients connect.
        url: String,
    },
    /// The server ended and is started again.
    Restarting {
        /// How it ended.
        reason: String,
        /// Which restart in a row this is.
        attempt: u32,
        /// Milliseconds until then.
        delay_ms: u64,
    },
    /// One of several processes of the server ended and is started again, while another one is ready.
    ProcessRestarting {
        /// Which process, from 0 on.
        process: u32,
        /// How it ended.
        reason: String,
        /// Which restart in a row this is.
        attempt: u32,
        /// Milliseconds until then.
        delay_ms: u64,
    },
    /// One of several processes of the server is ready, as another one was before.
    ProcessReady {
        /// Which process, from 0 on.
        process: u32,
    },
    /// One of several processes of the server ended for good, while another one lives on.
    ProcessEnded {
        /// Which process, from 0 on.
        process: u32,
        /// How it ended.
        reason: String,
    },
    /// The server answers again.
    Recovered {},
    /// A connection of an isolated server was refused.
    ConnectionRefused {
        /// The host as the server named it.
        host: String,
        /// The port; `None` for a name that was looked up.
        port: Option<u16>,
        /// The address that was the reason.
        address: Option<String>,
        /// The rule.
        rule: String,
        /// The smallest change that would allow it.
        fix: String,
        /// Id by which `mcpm explain` knows it.
        refusal: String,
    },
    /// The workload is down for good.
    Ended {
        /// Why.
        reason: String,
        /// The server's exit code, when it ended by itself.
        exit_code: Option<i64>,
    },
}

/// Sends events to all who listen.
#[derive(Debug, Clone)]
pub(super) struct WorkloadEvents(broadcast::Sender<WorkloadEvent>);

impl WorkloadEvents {
    pub(super) fn new() -> Self {
        Self(broadcast::Sender::new(MAX_BUFFERED_EVENTS))
    }

    pub(super) fn emit(&self, event: WorkloadEvent) {
        // Nobody needs to listen.
        let _ = self.0.send(event);
    }

    pub(super) fn subscribe(&self) -> EventStream {
        EventStream(self.0.subscribe())
    }
}

/// The events of a workload from now on.
#[derive(Debug)]
pub struct EventStream(broadcast::Receiver<WorkloadEvent>);

impl EventStream {
    /// Waits for the next event; `None` once the workload is gone.
    ///
    /// A reader that is more than 256 events behind misses the oldest.
    pub async fn next(&mut self) -> Option<WorkloadEvent> {
        loop {
            match self.0.recv().await {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}
