//! Lines between a process and its lane: one JSON-RPC message a line (MCP, transports, "stdio").

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
};

use super::Output;
use crate::mcp::lane::Lane;

/// Longest line that is taken; a longer one is dropped and said so in the log.
const LINE_LIMIT: usize = 64 << 20;
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
                Ok(_) => lines.each(|line| lane.take_line(line)),
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
                        lines.each(|line| lane.take_line(line));
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
    queued: Arc<AtomicUsize>,
) -> io::Result<()> {
    let mut batch = Vec::with_capacity(WRITE_BATCH);
    let mut joined = BytesMut::new();
    while lines.recv_many(&mut batch, WRITE_BATCH).await > 0 {
        let total: usize = batch.iter().map(Bytes::len).sum();
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
        queued.fetch_sub(total, Ordering::Relaxed);
    }
    Ok(())
}

/// Cuts a stream of bytes at line feeds.
#[derive(Debug, Default)]
struct Lines {
    buffer: BytesMut,
    /// How much of the buffer is known to hold no line feed.
    seen: usize,
    /// Whether the rest of an overlong line is being passed over.
    skipping: bool,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    fn each(&mut self, mut take: impl FnMut(Bytes)) {
        while let Some(at) = memchr::memchr(b'\n', &self.buffer[self.seen..]) {
            let mut line = self.buffer.split_to(self.seen + at + 1);
            line.truncate(self.seen + at);
            self.seen = 0;
            if !std::mem::take(&mut self.skipping) {
                take(line.freeze());
            }
        }
        self.seen = self.buffer.len();
        if self.seen > LINE_LIMIT {
            if !self.skipping {
                tracing::warn!(limit = LINE_LIMIT, "dropped a line of the server that is too long");
            }
            self.skipping = true;
            self.buffer.clear();
            self.seen = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_however_the_bytes_arrive() {
        let text = b"one\n\ntwo three\nfo";
        for size in 1..text.len() {
            let (mut lines, mut got) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                lines.push(piece);
                lines.each(|line| got.push(line));
            }
            assert_eq!(got, [&b"one"[..], b"", b"two three"], "in pieces of {size}");
        }
    }

    #[test]
    fn an_overlong_line_is_passed_over_whole() {
        let (mut lines, mut got) = (Lines::default(), Vec::new());
        lines.push(&vec![b'x'; LINE_LIMIT + 1]);
        lines.each(|line| got.push(line));
        lines.push(b"rest\nnext\n");
        lines.each(|line| got.push(line));
        assert_eq!(got, [&b"next"[..]]);
    }
}
