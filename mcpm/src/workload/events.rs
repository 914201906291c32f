//! Defines the events of a workload, and sends them to subscribers and to the log.

use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use super::recorded_events::{self, RecordedEventKind};
use crate::state::LoginState;

/// Buffered events of a slow reader; older ones are dropped.
const MAX_BUFFERED_EVENTS: usize = 256;

/// An event.
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
        /// The number of the step, from 1.
        step: u32,
        /// The number of steps.
        steps: u32,
        /// The instruction of the Dockerfile.
        instruction: String,
    },
    /// A line of the build's output.
    BuildOutput {
        /// The line.
        line: String,
    },
    /// A warning.
    Warning {
        /// The text.
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
        /// The URL for clients.
        url: String,
    },
    /// The server exited and will be restarted.
    Restarting {
        /// How the server exited.
        reason: String,
        /// The number of consecutive restarts.
        attempt: u32,
        /// Milliseconds until the restart.
        delay_ms: u64,
    },
    /// One of several processes of the server exited and will be restarted, while another one is ready.
    ProcessRestarting {
        /// The number of the process, from 0.
        process: u32,
        /// How the server exited.
        reason: String,
        /// The number of consecutive restarts.
        attempt: u32,
        /// Milliseconds until the restart.
        delay_ms: u64,
    },
    /// A further process of the server is ready.
    ProcessReady {
        /// The number of the process, from 0.
        process: u32,
    },
    /// One of several processes of the server will not be restarted, while another one runs.
    ProcessEnded {
        /// The number of the process, from 0.
        process: u32,
        /// How the server exited.
        reason: String,
    },
    /// The server is ready again.
    Recovered {},
    /// A connection of an isolated server was denied.
    ConnectionRefused {
        /// The host as the server named it.
        host: String,
        /// The port; `None` for a name lookup.
        port: Option<u16>,
        /// The resolved address that was denied.
        address: Option<String>,
        /// The rule that denied the connection.
        rule: String,
        /// The smallest change that would allow the connection.
        fix: String,
        /// The id for `mcpm explain`.
        refusal: String,
    },
    /// The login to the remote server has changed.
    LoginChanged {
        /// The new state of the login.
        state: LoginState,
    },
    /// The workload has ended.
    Ended {
        /// The reason.
        reason: String,
        /// The server's exit code, if it exited by itself.
        exit_code: Option<i64>,
    },
}

/// Sends events to all subscribers.
#[derive(Debug, Clone)]
pub(super) struct WorkloadEvents(broadcast::Sender<WorkloadEvent>);

impl WorkloadEvents {
    pub(super) fn new() -> Self {
        Self(broadcast::Sender::new(MAX_BUFFERED_EVENTS))
    }

    pub(super) fn emit(&self, event: WorkloadEvent) {
        self.emit_exit(event, None);
    }

    /// Sends the event of a server that exited with this code.
    pub(super) fn emit_exit(&self, event: WorkloadEvent, exit_code: Option<i64>) {
        record(&event, exit_code);
        // There may be no subscribers.
        let _ = self.0.send(event);
    }

    pub(super) fn subscribe(&self) -> EventStream {
        EventStream(self.0.subscribe())
    }
}

/// Writes an event to the log of this process. Events that only concern the process that waits for the start are left
/// out.
fn record(event: &WorkloadEvent, exit_code: Option<i64>) {
    use RecordedEventKind as Kind;
    use WorkloadEvent as Event;

    let (mut attempt, mut delay_ms) = (None, None);
    if let Event::Restarting { attempt: number, delay_ms: delay, .. }
    | Event::ProcessRestarting { attempt: number, delay_ms: delay, .. } = event
    {
        (attempt, delay_ms) = (Some(*number), Some(*delay));
    }
    let (kind, message) = match event {
        Event::Starting { .. } => (Kind::Starting, "starting the server".to_owned()),
        Event::Ready { url, .. } => (Kind::Ready, format!("ready at {url}")),
        Event::Restarting { reason, .. } => {
            (Kind::Restarting, format!("the server {reason}; it is started again"))
        }
        Event::Recovered {} => (Kind::Recovered, "the server is ready again".to_owned()),
        Event::ProcessReady { process } => {
            (Kind::ProcessReady, format!("process {process} of the server is ready"))
        }
        Event::ProcessRestarting { process, reason, .. } => (
            Kind::ProcessRestarting,
            format!("process {process} of the server {reason}; it is started again"),
        ),
        Event::ProcessEnded { process, reason } => {
            (Kind::ProcessEnded, format!("process {process} of the server {reason}; it is not started again"))
        }
        Event::LoginChanged { state } => {
            (Kind::LoginChanged, format!("the login to the remote server: {}", state.as_str()))
        }
        Event::Ended { reason, .. } => (Kind::Ended, format!("the server {reason}")),
        // Denials and warnings are logged where they arise.
        Event::Pulling { .. }
        | Event::Building { .. }
        | Event::BuildOutput { .. }
        | Event::Warning { .. }
        | Event::ConnectionRefused { .. } => return,
    };
    recorded_events::write(kind, exit_code, attempt, delay_ms, &message);
}

/// The events of a workload since the subscription.
#[derive(Debug)]
pub struct EventStream(broadcast::Receiver<WorkloadEvent>);

impl EventStream {
    /// Waits for the next event; `None` once the workload is gone.
    ///
    /// A subscriber that is more than 256 events behind loses the oldest events.
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
