//! Reads the events of an HTTP response that is an event stream.

use std::{sync::Arc, time::Duration};

use http_body_util::BodyExt as _;
use tokio::time::timeout;

use super::failure::{Failure, NO_ROOM};
use crate::{
    mcp::event_reader::{Event, EventError, EventReader},
    memory::Account,
    proxy::body::Body,
};

/// A stream of events.
#[derive(Debug)]
pub(super) struct EventStream {
    body: Body,
    reader: EventReader,
}

/// The outcome of a GET request for a stream.
pub(super) enum Opened {
    Stream(EventStream),
    /// The server does not offer such a stream.
    Absent,
    /// The server does not know the session.
    SessionLost,
}

impl EventStream {
    pub(super) fn new(body: Body, account: Arc<Account>) -> Self {
        Self { body, reader: EventReader::new(account) }
    }

    /// Waits for the next event; `None` at the end of the stream. `idle` limits the time without data.
    pub(super) async fn next(&mut self, idle: Duration) -> Result<Option<Event>, Failure> {
        loop {
            if let Some(event) = self.reader.next_event() {
                return Ok(Some(event));
            }
            let late = |_| Failure::server(format!("no data from the server for {} s", idle.as_secs()));
            let Some(frame) = timeout(idle, self.body.frame()).await.map_err(late)? else { return Ok(None) };
            let broken = |error| Failure::server(format!("the connection to the server failed: {error}"));
            if let Ok(chunk) = frame.map_err(broken)?.into_data() {
                self.reader.push(&chunk).map_err(|error| {
                    Failure::server(match error {
                        EventError::TooLarge => "a message of the server is too large",
                        EventError::NoRoom => NO_ROOM,
                    })
                })?;
            }
        }
    }

    /// Returns the id with which the stream can be resumed.
    pub(super) fn last_id(&self) -> Option<&str> {
        self.reader.last_id().filter(|id| !id.is_empty())
    }

    /// Returns the delay that the server set for resuming.
    pub(super) fn retry(&self) -> Option<Duration> {
        self.reader.retry()
    }
}
