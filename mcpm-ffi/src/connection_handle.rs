//! Adapts a connection to a server for the bindings, which send and receive whole messages.

use std::{io, sync::Arc};

use mcpm::{Error, ErrorKind, Result, stdio_bridge::Connection};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, ReadHalf, WriteHalf},
    sync::Mutex,
};

/// A connection. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct ConnectionHandle {
    input: Mutex<Input>,
    output: Mutex<WriteHalf<Connection>>,
}

#[derive(Debug)]
struct Input {
    stream: BufReader<ReadHalf<Connection>>,
    /// The message so far; kept when a receiver is cancelled.
    line: Vec<u8>,
}

impl ConnectionHandle {
    pub(crate) fn new(connection: Connection) -> Arc<Self> {
        let (input, output) = tokio::io::split(connection);
        let input = Input { stream: BufReader::new(input), line: Vec::new() };
        Arc::new(Self { input: Mutex::new(input), output: Mutex::new(output) })
    }

    /// Sends a JSON-RPC message. If sending is cancelled, the connection is unusable.
    ///
    /// # Errors
    /// `Upstream` after the end of the connection.
    pub(crate) async fn send(&self, message: &str) -> Result<()> {
        // In JSON, a line break can only be white space between two tokens.
        let mut line = message.replace(['\n', '\r'], " ");
        line.push('\n');
        self.output.lock().await.write_all(line.as_bytes()).await.map_err(ended)
    }

    /// Receives the next message; `None` after the end of the connection. If receiving is cancelled, nothing is lost.
    ///
    /// # Errors
    /// `Upstream` when the connection fails.
    pub(crate) async fn receive(&self) -> Result<Option<String>> {
        let mut input = self.input.lock().await;
        let Input { stream, line } = &mut *input;
        stream.read_until(b'\n', line).await.map_err(ended)?;
        if line.pop_if(|last| *last == b'\n').is_none() {
            return Ok(None);
        }
        let message = String::from_utf8(std::mem::take(line));
        message.map(Some).map_err(|error| {
            Error::new(ErrorKind::Upstream, "the server sent a message that is not valid UTF-8").source(error)
        })
    }

    /// Ends the connection. It waits briefly for pending responses, which can still be received.
    pub(crate) async fn close(&self) -> Result<()> {
        self.output.lock().await.shutdown().await.map_err(ended)
    }
}

fn ended(error: io::Error) -> Error {
    Error::new(ErrorKind::Upstream, "the connection to the server has ended").source(error)
}
