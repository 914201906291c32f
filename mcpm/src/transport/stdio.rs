//! Lines between a process and its lane: one JSON-RPC message a line (MCP, transports, "stdio").

use std::{io, sync::Arc};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
};

use super::Output;
use crate::{
    explain::Reason,
    mcp::{
        id_scan::IdScan,
        lane::{Lane, line_cost},
    },
    memory::{Account, Booking},
};

/// Longest line that is taken. A call whose answer is longer gets an error.
const MAX_LINE_BYTES: usize = 32 << 20;
/// Room made for reads, and when it is made anew.
const READ_SIZE: usize = 64 << 10;
const READ_LEAST: usize = 4 << 10;
/// Lines written with one call, and the most bytes copied for that.
const WRITE_BATCH: usize = 64;
const WRITE_SIZE: usize = 64 << 10;

/// Hands every line of a process's output to its lane, until the output ends.
pub(super) async fn read_lines(output: Output, lane: Arc<Lane>) {
    let mut lines = Lines::default();
    match output {
        Output::Pipe(mut pipe) => loop {
            if lines.buffer.capacity() - lines.buffer.len() < READ_LEAST {
                lines.buffer.reserve(READ_SIZE);
            }
            match pipe.read_buf(&mut lines.buffer).await {
                Ok(0) => break,
                Ok(_) => lines.each(|line| line.hand_to(&lane)),
                Err(error) => {
                    tracing::debug!(%error, "the server's output broke");
                    break;
                }
            }
        },
        Output::Pieces(mut pieces) => {
            while let Some(piece) = pieces.next().await {
                match piece {
                    Ok(piece) => {
                        lines.push(&piece);
                        lines.each(|line| line.hand_to(&lane));
                    }
                    Err(error) => {
                        tracing::debug!(%error, "the server's output broke");
                        break;
                    }
                }
            }
        }
    }
}

/// Writes what the lane sends into a process's input, until the process stops reading.
pub(super) async fn write_lines(
    mut input: Box<dyn AsyncWrite + Send + Unpin>,
    mut lines: mpsc::UnboundedReceiver<Bytes>,
    queued: Arc<Account>,
) -> io::Result<()> {
    let mut batch = Vec::with_capacity(WRITE_BATCH);
    let mut joined = BytesMut::new();
    while lines.recv_many(&mut batch, WRITE_BATCH).await > 0 {
        let total: usize = batch.iter().map(Bytes::len).sum();
        let booked: usize = batch.iter().map(line_cost).sum();
        if batch.len() > 1 && total <= WRITE_SIZE {
            joined.clear();
            batch.drain(..).for_each(|line| joined.extend_from_slice(&line));
            input.write_all(&joined).await?;
        } else {
            for line in batch.drain(..) {
                input.write_all(&line).await?;
            }
        }
        input.flush().await?;
        queued.give(booked);
    }
    Ok(())
}

/// One line of a process's output.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Whole(Bytes),
    /// It was passed over: why, the id of its message, and whether that has a method.
    Skipped(Skipped, Option<String>, bool),
}

/// Why a line is passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Skipped {
    /// It is longer than any line may be.
    TooLong,
    /// What is held already leaves no room for it.
    NoRoom,
}

impl Line {
    fn hand_to(self, lane: &Lane) {
        match self {
            Self::Whole(line) => lane.take_line(line),
            Self::Skipped(Skipped::TooLong, id, is_request) => {
                let text = format!("a message of the server is larger than {} MiB", MAX_LINE_BYTES >> 20);
                lane.take_skipped(id.as_deref(), is_request, &text, None);
            }
            Self::Skipped(Skipped::NoRoom, id, is_request) => {
                let text = "too much is held for other requests to take a message of the server now";
                lane.take_skipped(id.as_deref(), is_request, text, Some(Reason::NoMemory));
            }
        }
    }
}

/// Cuts a stream of bytes at line feeds.
#[derive(Debug, Default)]
struct Lines {
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line feed.
    seen: usize,
    /// What the beginning of a line is booked on.
    booking: Booking,
    /// Reads on in a line that is being passed over, and why it is.
    skipping: Option<(Skipped, IdScan)>,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    fn each(&mut self, mut take: impl FnMut(Line)) {
        while let Some(at) = memchr::memchr(b'\n', &self.buffer[self.seen..]) {
            let mut line = self.buffer.split_to(self.seen + at + 1);
            line.truncate(self.seen + at);
            self.seen = 0;
            // Whoever takes the line books it.
            self.booking.shrink(self.buffer.len());
            match self.skipping.take() {
                None => take(Line::Whole(line.freeze())),
                Some((why, mut scan)) => {
                    scan.feed(&line);
                    let (id, is_request) = scan.finish();
                    take(Line::Skipped(why, id, is_request));
                }
            }
        }
        self.seen = self.buffer.len();
        let skipped = if self.skipping.is_some() || self.seen > MAX_LINE_BYTES {
            Some(Skipped::TooLong)
        } else {
            (!self.booking.resize(self.seen)).then_some(Skipped::NoRoom)
        };
        if let Some(why) = skipped {
            let (_, scan) = self.skipping.get_or_insert_with(|| (why, IdScan::default()));
            scan.feed(&self.buffer);
            // What is passed over need not stay allocated.
            self.buffer = BytesMut::new();
            self.seen = 0;
            self.booking = Booking::default();
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
            let (mut lines, mut got) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                lines.push(piece);
                lines.each(|line| got.push(line));
            }
            assert_eq!(got, [whole("one"), whole(""), whole("two three")], "in pieces of {size}");
        }
    }

    #[test]
    fn an_overlong_line_is_passed_over_and_its_id_is_told() {
        let (mut lines, mut got) = (Lines::default(), Vec::new());
        lines.push(b"{\"result\":\"");
        lines.push(&vec![b'x'; MAX_LINE_BYTES]);
        lines.each(|line| got.push(line));
        lines.push(b"rest\",");
        lines.each(|line| got.push(line));
        lines.push(b"\"id\":7}\nnext\n");
        lines.each(|line| got.push(line));
        assert_eq!(got, [Line::Skipped(Skipped::TooLong, Some("7".to_owned()), false), whole("next")]);
    }

    #[test]
    fn a_line_that_is_handed_on_is_no_longer_booked_and_one_without_room_says_so() {
        let (account, mut got) = (Account::new(), Vec::new());
        let mut lines = Lines { booking: Booking::of(Arc::clone(&account)), ..Lines::default() };
        lines.push(&vec![b'x'; 30 << 20]);
        lines.each(|_| panic!("no line yet"));
        lines.push(b"\n");
        lines.each(|line| {
            // It is taken for a client.
            let Line::Whole(line) = line else { panic!("{line:?}") };
            let client = Account::new();
            assert!(client.take(line.len()));
        });
        let greedy = Account::new();
        while greedy.take(1 << 20) {}
        greedy.force(64 << 20);
        lines.push(b"{\"id\":7,\"result\":\"");
        lines.push(&vec![b'x'; 100 << 10]);
        lines.each(|_| panic!("no line yet"));
        lines.push(b"\"}\n");
        lines.each(|line| got.push(line));
        assert_eq!(got, [Line::Skipped(Skipped::NoRoom, Some("7".to_owned()), false)]);
    }
}
