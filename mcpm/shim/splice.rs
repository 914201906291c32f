//! Splices two connections: copies bytes in both directions until both directions have ended.

use alloc::vec::Vec;

use crate::sys::{self, Epoll, Errno, Fd};

/// Most buffered bytes in one direction.
const BUFFER_BYTES: usize = 16 * 1024;
/// Reads of one pair before others get their turn.
const MAX_STEPS_PER_EVENT: usize = 8;

/// One direction.
#[derive(Default)]
struct Direction {
    /// Allocated when the first data arrives, and then reused: clearing a new buffer each time would cost more than
    /// copying its content.
    buffer: Vec<u8>,
    /// The range of buffered bytes.
    waiting: core::ops::Range<usize>,
    /// Whether the input has ended.
    ended: bool,
    /// Whether the end was passed on.
    eof_sent: bool,
}

/// Whether a pair continues.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SpliceState {
    Open,
    Closed,
}

/// Two spliced connections.
pub(crate) struct SplicedPair {
    sides: [Fd; 2],
    flows: [Direction; 2],
    /// Whether the second connection is still being opened; the first one gets the result.
    connecting: bool,
}

impl SplicedPair {
    /// Splices two connections; `first_words` are sent to the second before anything else.
    pub(crate) fn new(from: Fd, to: Fd, first_words: Vec<u8>) -> Self {
        let mut out = Direction::default();
        out.prefill(&first_words);
        Self { sides: [from, to], flows: [out, Direction::default()], connecting: false }
    }

    /// Splices a connection to one that is still connecting: the first side gets `+` when it is connected, `-` if
    /// that fails.
    pub(crate) fn connecting(from: Fd, to: Fd) -> Self {
        Self { connecting: true, ..Self::new(from, to, Vec::new()) }
    }

    /// Registers the pair with the event loop.
    pub(crate) fn watch(&self, epoll: &Epoll, token: u64) -> sys::Result<()> {
        self.sides.iter().try_for_each(|side| epoll.watch_edge_triggered(side, token))
    }

    /// Copies as many bytes as possible.
    pub(crate) fn pump(&mut self, epoll: &Epoll, token: u64) -> SpliceState {
        if self.connecting {
            match sys::connect_result(&self.sides[1]) {
                Ok(()) => {
                    self.connecting = false;
                    self.flows[1].prefill(b"+");
                }
                Err(Errno::AGAIN) => return SpliceState::Open,
                Err(_) => {
                    let _ = sys::send(&self.sides[0], b"-");
                    return SpliceState::Closed;
                }
            }
        }
        let [from, to] = &self.sides;
        let [out, back] = &mut self.flows;
        for _ in 0..MAX_STEPS_PER_EVENT {
            match (out.step(from, to), back.step(to, from)) {
                (Ok(a), Ok(b)) if a || b => {}
                (Ok(_), Ok(_)) => {
                    return if out.eof_sent && back.eof_sent {
                        SpliceState::Closed
                    } else {
                        SpliceState::Open
                    };
                }
                _ => return SpliceState::Closed,
            }
        }
        match self.sides.iter().try_for_each(|side| epoll.rearm(side, token)) {
            Ok(()) => SpliceState::Open,
            Err(_) => SpliceState::Closed,
        }
    }
}

impl Direction {
    /// Buffers bytes from the shim itself, before anything else.
    fn prefill(&mut self, bytes: &[u8]) {
        self.buffer = Vec::with_capacity(BUFFER_BYTES);
        self.buffer.extend_from_slice(bytes);
        self.waiting = 0..bytes.len();
        self.buffer.resize(BUFFER_BYTES.max(bytes.len()), 0);
    }

    /// Reads once and writes once, if possible; returns whether anything was copied.
    fn step(&mut self, from: &Fd, to: &Fd) -> sys::Result<bool> {
        let mut moved = false;
        if self.waiting.is_empty() && !self.ended {
            if self.buffer.is_empty() {
                self.buffer.resize(BUFFER_BYTES, 0);
            }
            match sys::read(from, &mut self.buffer) {
                Ok(count) => {
                    self.waiting = 0..count;
                    self.ended = count == 0;
                    moved = true;
                }
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(rest) = self.buffer.get(self.waiting.clone()).filter(|rest| !rest.is_empty()) {
            match sys::send(to, rest) {
                Ok(count) => {
                    self.waiting.start += count;
                    moved = true;
                }
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error),
            }
        }
        if self.ended && self.waiting.is_empty() && !self.eof_sent {
            sys::shutdown_write(to);
            self.eof_sent = true;
            self.buffer = Vec::new();
        }
        Ok(moved)
    }
}
