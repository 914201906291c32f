//! The queue of lines to the standard input of a process.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::sync::mpsc;

use crate::{mcp::message::replace_line_breaks, memory::Account};

/// Bytes charged for a queued line in addition to its length.
pub(super) const LINE_OVERHEAD: usize = 64;

/// The queue of lines to the standard input of the process.
#[derive(Debug)]
pub(super) struct Pipe {
    pub(super) lines: mpsc::UnboundedSender<Bytes>,
    /// The account that is charged for the queued and the buffered lines.
    pub(super) queue_account: Arc<Account>,
    /// Lines that are buffered until the sessions are restored in a new process.
    pub(super) buffered: Option<Vec<Bytes>>,
}

impl Pipe {
    /// Sends a line, or buffers it while sessions are being restored.
    pub(super) fn send(&mut self, line: Bytes) {
        self.queue_account.reserve(line_cost(&line));
        match &mut self.buffered {
            Some(held) => held.push(line),
            None => self.write(line),
        }
    }

    /// Queues a line that was already charged.
    pub(super) fn write(&self, line: Bytes) {
        // Sending fails if the writer has just ended; calls in flight then fail when the process is disconnected.
        if let Err(mpsc::error::SendError(line)) = self.lines.send(line) {
            self.queue_account.release(line_cost(&line));
        }
    }
}

/// Returns the bytes that the memory budget is charged for a queued line.
pub(crate) fn line_cost(line: &Bytes) -> usize {
    line.len() + LINE_OVERHEAD
}

/// Terminates a message with a line feed.
pub(super) fn to_line(mut message: BytesMut) -> Bytes {
    replace_line_breaks(&mut message);
    message.put_u8(b'\n');
    message.freeze()
}
