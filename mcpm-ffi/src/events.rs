//! Exports workload events to Python and Swift.

use std::sync::{Arc, Mutex, PoisonError};

use mcpm::{
    Error, ErrorKind,
    state::LoginState,
    workload::{EventStream, WorkloadEvent},
};
use tokio::sync::oneshot;

/// The events of one workload. `next` returns them one after another.
#[derive(Debug, uniffi::Object)]
pub struct Events {
    source: tokio::sync::Mutex<EventSource>,
    /// Receives the event stream when the workload starts.
    sender: Mutex<Option<oneshot::Sender<EventStream>>>,
}

#[derive(Debug)]
enum EventSource {
    Pending(oneshot::Receiver<EventStream>),
    Streaming(EventStream),
    Ended,
}

#[uniffi::export]
impl Events {
    /// Creates an object to pass to the start of one workload.
    #[uniffi::constructor]
    pub fn new() -> Arc<Self> {
        let (sender, awaited) = oneshot::channel();
        let source = tokio::sync::Mutex::new(EventSource::Pending(awaited));
        Arc::new(Self { source, sender: Mutex::new(Some(sender)) })
    }

    /// Waits for the next event; returns none after the end of the workload, or if the workload was not started.
    ///
    /// A subscriber that is more than 256 events behind loses the oldest events.
    // Needs none of mcpm's threads: the sender wakes the waiting task.
    pub async fn next(&self) -> Option<WorkloadEvent> {
        let mut source = self.source.lock().await;
        if let EventSource::Pending(awaited) = &mut *source {
            *source = awaited.await.map_or(EventSource::Ended, EventSource::Streaming);
        }
        let EventSource::Streaming(stream) = &mut *source else { return None };
        let event = stream.next().await;
        if event.is_none() {
            *source = EventSource::Ended;
        }
        event
    }
}

impl Events {
    /// A stream without events.
    pub(crate) fn ended() -> Self {
        Self { source: tokio::sync::Mutex::new(EventSource::Ended), sender: Mutex::new(None) }
    }

    /// Returns the sender for the stream, once.
    fn take_sender(&self) -> Result<oneshot::Sender<EventStream>, Error> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        sender.ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidOption,
                "the `Events` object belongs to another workload; create a new one",
            )
        })
    }
}

/// Returns the receiver for the events of a start.
pub(crate) fn listener(events: Option<Arc<Events>>) -> Result<impl FnOnce(EventStream) + Send, Error> {
    let sender = events.map(|events| events.take_sender()).transpose()?;
    Ok(move |stream| {
        if let Some(sender) = sender {
            // The receiver may have been dropped.
            let _ = sender.send(stream);
        }
    })
}

impl From<EventStream> for Events {
    fn from(stream: EventStream) -> Self {
        Self { source: tokio::sync::Mutex::new(EventSource::Streaming(stream)), sender: Mutex::new(None) }
    }
}

/// An event of a workload.
#[uniffi::remote(Enum)]
pub enum WorkloadEvent {
    /// An image is being pulled.
    Pulling {
        /// The image.
        image: String,
        /// The number of bytes that were fetched, of the layers known so far.
        current: u64,
        /// The size of the layers known so far, in bytes.
        total: u64,
    },
    /// A step of a package's image build starts.
    Building {
        /// The package.
        package: String,
        /// The number of the step, from 1.
        step: u32,
        /// The number of steps.
        steps: u32,
        /// The Dockerfile instruction of the step.
        instruction: String,
    },
    /// The image build wrote a line.
    BuildOutput {
        /// The line.
        line: String,
    },
    /// A warning.
    Warning {
        /// The message.
        message: String,
    },
    /// The container is being started.
    Starting {
        /// The name of the workload.
        name: String,
    },
    /// Clients can connect.
    Ready {
        /// The name of the workload.
        name: String,
        /// The URL for clients.
        url: String,
    },
    /// The server exited and will be restarted.
    Restarting {
        /// How it exited.
        reason: String,
        /// The number of consecutive restarts, including this one.
        attempt: u32,
        /// The delay before the restart in milliseconds.
        delay_ms: u64,
    },
    /// One of several processes of the server exited and will be restarted, while another one is ready.
    ProcessRestarting {
        /// The index of the process, from 0.
        process: u32,
        /// How it exited.
        reason: String,
        /// The number of consecutive restarts, including this one.
        attempt: u32,
        /// The delay before the restart in milliseconds.
        delay_ms: u64,
    },
    /// One of several processes of the server is ready; another one was ready before.
    ProcessReady {
        /// The index of the process, from 0.
        process: u32,
    },
    /// One of several processes of the server exited and is not restarted, while another one is running.
    ProcessEnded {
        /// The index of the process, from 0.
        process: u32,
        /// How it exited.
        reason: String,
    },
    /// The server responds again.
    Recovered {},
    /// A connection of an isolated server was denied.
    ConnectionRefused {
        /// The host that the server named.
        host: String,
        /// The port; none if the server only resolved the name.
        port: Option<u16>,
        /// The address that caused the denial.
        address: Option<String>,
        /// The rule that applied.
        rule: String,
        /// The smallest change that would allow the connection.
        fix: String,
        /// The id for `mcpm explain`.
        refusal: String,
    },
    /// The login to the remote server has changed.
    LoginChanged {
        /// The state of the login.
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
