//! Splits a stream into lines, one JSON-RPC message each (MCP, transports, "stdio"), and moves them between a process
//! and its multiplexer.

use std::{io, sync::Arc};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
};

use crate::{
    explain::Reason,
    memory::{Account, Reservation},
    stdio::{
        id_scan::IdScan,
        mux::{Multiplexer, line_cost},
        process::ProcessOutput,
    },
};

/// Maximum length of a line. A call whose response is longer gets an error.
const MAX_LINE_BYTES: usize = 32 << 20;
/// The capacity that is reserved in the buffer for reads, and the remaining capacity below which more is reserved.
const READ_SIZE: usize = 64 << 10;
const MIN_READ_CAPACITY: usize = 4 << 10;
/// Maximum number of lines that are written with one call, and maximum number of bytes that are copied for that call.
const MAX_BATCH_LINES: usize = 64;
const MAX_BATCH_BYTES: usize = 64 << 10;

/// Passes each line of a process's output to its multiplexer, until the output ends.
pub(super) async fn read_lines(output: ProcessOutput, mux: Arc<Multiplexer>) {
    let mut lines = LineSplitter::default();
    match output {
        ProcessOutput::Pipe(mut pipe) => loop {
            match lines.read_from(&mut pipe).await {
                Ok(0) => break,
                Ok(_) => lines.drain_lines(|line| line.deliver_to(&mux)),
                Err(error) => {
                    tracing::debug!(%error, "cannot read the server's output");
                    break;
                }
            }
        },
        ProcessOutput::Chunks(mut chunks) => {
            while let Some(chunk) = chunks.next().await {
                match chunk {
                    Ok(chunk) => {
                        lines.push(&chunk);
                        lines.drain_lines(|line| line.deliver_to(&mux));
                    }
                    Err(error) => {
                        tracing::debug!(%error, "cannot read the server's output");
                        break;
                    }
                }
            }
        }
    }
}

/// Writes the multiplexer's lines to a process's input, until the process stops reading.
pub(super) async fn write_lines(
    mut input: Box<dyn AsyncWrite + Send + Unpin>,
    mut lines: mpsc::UnboundedReceiver<Bytes>,
    queued: Arc<Account>,
) -> io::Result<()> {
    let mut batch = Vec::with_capacity(MAX_BATCH_LINES);
    let mut joined = BytesMut::new();
    while lines.recv_many(&mut batch, MAX_BATCH_LINES).await > 0 {
        let total: usize = batch.iter().map(Bytes::len).sum();
        let booked: usize = batch.iter().map(line_cost).sum();
        if batch.len() > 1 && total <= MAX_BATCH_BYTES {
            joined.clear();
            batch.drain(..).for_each(|line| joined.extend_from_slice(&line));
            input.write_all(&joined).await?;
        } else {
            for line in batch.drain(..) {
                input.write_all(&line).await?;
            }
        }
        input.flush().await?;
        queued.release(booked);
    }
    Ok(())
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Whole(Bytes),
    /// A skipped line: the reason, the id of its message, and whether the message has a method.
    Skipped(Skipped, Option<String>, bool),
}

/// Why a line is skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Skipped {
    /// The line is longer than [`MAX_LINE_BYTES`].
    TooLong,
    /// The memory budget has no room for the line.
    NoRoom,
}

impl Line {
    fn deliver_to(self, mux: &Multiplexer) {
        match self {
            Self::Whole(line) => mux.handle_line(line),
            Self::Skipped(Skipped::TooLong, id, is_request) => {
                let text = format!("a message of the server is larger than {} MiB", MAX_LINE_BYTES >> 20);
                mux.take_skipped(id.as_deref(), is_request, &text, None);
            }
            Self::Skipped(Skipped::NoRoom, id, is_request) => {
                let text = "the memory budget has no room for this message of the server; try again later";
                mux.take_skipped(id.as_deref(), is_request, text, Some(Reason::NoMemory));
            }
        }
    }
}

/// Splits a stream of bytes at line feeds.
#[derive(Debug, Default)]
pub(crate) struct LineSplitter {
    buffer: BytesMut,
    /// Number of bytes of the buffer that are known to contain no line feed.
    scanned: usize,
    /// The memory reserved for an incomplete line.
    booking: Reservation,
    /// Set while a line is skipped: the reason, and the scan for its id.
    oversized: Option<(Skipped, IdScan)>,
}

impl LineSplitter {
    /// Creates a splitter whose incomplete line is charged to an account that others use too.
    pub(crate) fn charged_to(account: Arc<Account>) -> Self {
        Self { booking: Reservation::of(account), ..Self::default() }
    }

    /// Reads what the other side has written; returns the number of bytes, which is 0 at the end.
    pub(crate) async fn read_from(&mut self, pipe: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        if self.buffer.capacity() - self.buffer.len() < MIN_READ_CAPACITY {
            self.buffer.reserve(READ_SIZE);
        }
        pipe.read_buf(&mut self.buffer).await
    }

    /// Takes the last line, if it has no line feed.
    pub(crate) fn finish(&mut self) -> Option<Line> {
        let mut last = None;
        self.push(b"\n");
        self.drain_lines(|line| last = Some(line));
        last
    }

    fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Passes all complete lines to `take`.
    pub(crate) fn drain_lines(&mut self, mut take: impl FnMut(Line)) {
        while let Some(at) = memchr::memchr(b'\n', &self.buffer[self.scanned..]) {
            let mut line = self.buffer.split_to(self.scanned + at + 1);
            line.truncate(self.scanned + at);
            self.scanned = 0;
            // The receiver of the line reserves memory for it.
            self.booking.shrink(self.buffer.len());
            match self.oversized.take() {
                None => take(Line::Whole(line.freeze())),
                Some((why, mut scan)) => {
                    scan.feed(&line);
                    let (id, is_request) = scan.finish();
                    take(Line::Skipped(why, id, is_request));
                }
            }
        }
        self.scanned = self.buffer.len();
        let skipped = if self.oversized.is_some() || self.scanned > MAX_LINE_BYTES {
            Some(Skipped::TooLong)
        } else {
            (!self.booking.resize(self.scanned)).then_some(Skipped::NoRoom)
        };
        if let Some(why) = skipped {
            let (_, scan) = self.oversized.get_or_insert_with(|| (why, IdScan::default()));
            scan.feed(&self.buffer);
            // The memory of a skipped line is released.
            self.buffer = BytesMut::new();
            self.scanned = 0;
            self.booking.shrink(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &'static str) -> Line {
        Line::Whole(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn lines_are_whole_however_the_bytes_arrive() {
        let text = b"one\n\ntwo three\nfo";
        for size in 1..text.len() {
            let (mut lines, mut got) = (LineSplitter::default(), Vec::new());
            for chunk in text.chunks(size) {
                lines.push(chunk);
                lines.drain_lines(|line| got.push(line));
            }
            assert_eq!(got, [whole("one"), whole(""), whole("two three")], "in chunks of {size}");
        }
    }

    #[test]
    fn an_oversized_line_is_skipped_and_its_id_reported() {
        let (mut lines, mut got) = (LineSplitter::default(), Vec::new());
        lines.push(b"{\"result\":\"");
        lines.push(&vec![b'x'; MAX_LINE_BYTES]);
        lines.drain_lines(|line| got.push(line));
        lines.push(b"rest\",");
        lines.drain_lines(|line| got.push(line));
        lines.push(b"\"id\":7}\nnext\n");
        lines.drain_lines(|line| got.push(line));
        assert_eq!(got, [Line::Skipped(Skipped::TooLong, Some("7".to_owned()), false), whole("next")]);
    }

    #[test]
    fn a_line_that_is_handed_on_is_no_longer_booked_and_one_without_room_says_so() {
        let (account, mut got) = (Account::new(), Vec::new());
        let mut lines = LineSplitter::charged_to(Arc::clone(&account));
        lines.push(&vec![b'x'; 30 << 20]);
        lines.drain_lines(|_| panic!("no line yet"));
        lines.push(b"\n");
        lines.drain_lines(|line| {
            // The line is charged to a client.
            let Line::Whole(line) = line else { panic!("{line:?}") };
            let client = Account::new();
            assert!(client.try_reserve(line.len()));
        });
        let greedy = Account::new();
        while greedy.try_reserve(1 << 20) {}
        greedy.reserve(64 << 20);
        lines.push(b"{\"id\":7,\"result\":\"");
        lines.push(&vec![b'x'; 100 << 10]);
        lines.drain_lines(|_| panic!("no line yet"));
        lines.push(b"\"}\n");
        lines.drain_lines(|line| got.push(line));
        assert_eq!(got, [Line::Skipped(Skipped::NoRoom, Some("7".to_owned()), false)]);
    }
}
