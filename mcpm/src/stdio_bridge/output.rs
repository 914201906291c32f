//! Writes messages for the client, one per line.

use std::io;

use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
    task::JoinHandle,
};

use super::{failure::Failure, in_flight::Claim};
use crate::mcp::message::replace_line_breaks;

/// Maximum number of messages that wait to be written. If the queue is full, reading from the server waits too.
const MAX_QUEUED_MESSAGES: usize = 64;
/// Number of bytes of messages that are written together.
const MAX_BATCH_BYTES: usize = 64 << 10;

/// The queue of messages for the client.
#[derive(Debug, Clone)]
pub(super) struct Output(mpsc::Sender<Bytes>);

impl Output {
    /// Starts the task that writes the messages. It ends when the client closes its end, or all clones are dropped.
    pub(super) fn open(
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> (Self, JoinHandle<io::Result<()>>) {
        let (sender, queue) = mpsc::channel(MAX_QUEUED_MESSAGES);
        (Self(sender), tokio::spawn(write(queue, output)))
    }

    /// Queues a message. Once the client has closed its end, messages are dropped.
    pub(super) async fn send(&self, message: Bytes) {
        let _ = self.0.send(message).await;
    }

    /// Queues the response to a request, unless the request has a response already or was cancelled.
    pub(super) async fn respond(&self, claim: &Claim, response: Bytes) {
        let Ok(permit) = self.0.reserve().await else { return };
        // There is no await after the claim, so the response cannot be lost.
        if claim.take() {
            permit.send(response);
        }
    }

    /// Queues an error for a request that is not in flight.
    pub(super) async fn fail(&self, id: &[u8], failure: &Failure) {
        self.send(failure.response(id)).await;
    }
}

async fn write(
    mut queue: mpsc::Receiver<Bytes>,
    mut output: impl AsyncWrite + Send + Unpin,
) -> io::Result<()> {
    let mut messages = Vec::with_capacity(MAX_QUEUED_MESSAGES);
    while queue.recv_many(&mut messages, MAX_QUEUED_MESSAGES).await > 0 {
        let mut batch = BytesMut::new();
        for message in messages.drain(..) {
            if !batch.is_empty() && batch.len() + message.len() > MAX_BATCH_BYTES {
                output.write_all(&batch).await?;
                batch = BytesMut::new();
            }
            let mut line = BytesMut::with_capacity(message.len() + 1);
            line.put_slice(&message);
            replace_line_breaks(&mut line);
            line.put_u8(b'\n');
            if batch.is_empty() { batch = line } else { batch.unsplit(line) }
        }
        output.write_all(&batch).await?;
        output.flush().await?;
    }
    Ok(())
}
