//! The events of a workload as Python and Swift pull them.

use std::sync::{Arc, Mutex, PoisonError};

use mcpm::{
    Error, ErrorKind,
    workload::{EventStream, WorkloadEvent},
};
use tokio::sync::oneshot;

/// What happens to one workload, to be pulled with `next`.
#[derive(Debug, uniffi::Object)]
pub struct Events {
    source: tokio::sync::Mutex<EventSource>,
    /// Where the stream of a workload goes that will be started with these.
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
    /// Makes events that are given to the start of one workload.
    #[uniffi::constructor]
    pub fn new() -> Arc<Self> {
        let (place, awaited) = oneshot::channel();
        let source = tokio::sync::Mutex::new(EventSource::Pending(awaited));
        Arc::new(Self { source, sender: Mutex::new(Some(place)) })
    }

    /// Waits for the next event; none once the workload is gone, or was not started.
    ///
    /// A reader that is more than 256 events behind misses the oldest.
    // It needs no thread of mcpm: whoever waits is woken by those who tell.
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
    /// Events of which none will come.
    pub(crate) fn ended() -> Self {
        Self { source: tokio::sync::Mutex::new(EventSource::Ended), sender: Mutex::new(None) }
    }

    /// Returns where the stream goes, once.
    pub(crate) fn take_sender(&self) -> Result<oneshot::Sender<EventStream>, Error> {
        let place = self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        place.ok_or_else(|| Error::new(ErrorKind::InvalidOption, "the events belong to another workload"))
    }
}

impl From<EventStream> for Events {
    fn from(stream: EventStream) -> Self {
        Self { source: tokio::sync::Mutex::new(EventSource::Streaming(stream)), sender: Mutex::new(None) }
    }
}

/// Something that happened to a workload.
#[uniffi::remote(Enum)]
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
