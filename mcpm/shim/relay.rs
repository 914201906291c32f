//! Relays connections between the container and mcpm over standard input and output, where the engine cannot share
//! sockets with mcpm's machine.
//!
//! mcpm runs the relay in the container beside the first process, which connects to the relay instead of mcpm. The
//! relay makes no decisions: mcpm checks relayed connections like connections to a mounted socket.

use alloc::{boxed::Box, collections::VecDeque, vec::Vec};

use crate::{
    frames::{
        self, CLOSE, DATA, END_STREAM, Frame, InvalidFrame, MAX_CONNECTIONS, MAX_FRAME_PAYLOAD_BYTES, OPEN,
        WINDOW_BYTES, WINDOW_UPDATE,
    },
    sys::{self, Epoll, Errno, Event, Fd},
    uplink,
};

const INPUT_TOKEN: u64 = 0;
const LISTENER_TOKEN: u64 = 1;
const CONNECTION_TOKENS: u64 = 1 << 32;
/// Reads of one connection before others get their turn.
const MAX_STEPS_PER_EVENT: usize = 8;
/// Buffered bytes after which standard output is written.
const FLUSH_THRESHOLD_BYTES: usize = 32 * 1024;
/// Processed bytes after which mcpm gets a window update.
const WINDOW_UPDATE_THRESHOLD: usize = WINDOW_BYTES / 4;

struct Relay {
    epoll: Epoll,
    connections: Vec<Option<Box<ContainerConnection>>>,
    output: Fd,
    out: Vec<u8>,
    piece: Vec<u8>,
}

struct ContainerConnection {
    number: u32,
    /// The connection; `None` once this end has closed it.
    fd: Option<Fd>,
    /// Data from mcpm that is not written yet; of the first chunk, only the part from `start` on.
    pending: VecDeque<Vec<u8>>,
    start: usize,
    buffered_bytes: usize,
    /// Whether mcpm has ended its direction, and whether that was passed on.
    ended: bool,
    eof_sent: bool,
    /// Processed bytes without a window update yet.
    unacknowledged: usize,
    /// Bytes that may be sent to mcpm.
    send_window: usize,
    /// Whether this direction has ended.
    read_eof: bool,
    closed_by_peer: bool,
}

/// Relays until mcpm closes the stream.
pub(crate) fn run() -> Result<i32, &'static [u8]> {
    let epoll = Epoll::new().map_err(|_| b"cannot create an epoll instance" as &[u8])?;
    let listener =
        uplink::RELAYED.listen().map_err(|_| b"another relay already runs in this container" as &[u8])?;
    let input = Fd(0);
    for (fd, token) in [(&input, INPUT_TOKEN), (&listener, LISTENER_TOKEN)] {
        epoll.watch(fd, token).map_err(|_| b"cannot watch sockets with epoll" as &[u8])?;
    }
    let (out, piece) = (Vec::with_capacity(2 * FLUSH_THRESHOLD_BYTES), [0; MAX_FRAME_PAYLOAD_BYTES].to_vec());
    let mut carrier = Relay { epoll, connections: Vec::new(), output: Fd(1), out, piece };
    let mut buffer = [0; MAX_FRAME_PAYLOAD_BYTES].to_vec();
    let mut received = Vec::with_capacity(4 * MAX_FRAME_PAYLOAD_BYTES);
    let mut events = [Event::NONE; 64];
    loop {
        let count = match carrier.epoll.wait(&mut events) {
            Ok(count) => count,
            Err(Errno::INTERRUPTED) => continue,
            Err(_) => return Err(b"cannot watch sockets with epoll"),
        };
        for event in events.iter().take(count) {
            match event.token() {
                INPUT_TOKEN => {
                    match sys::read(&input, &mut buffer) {
                        Ok(0) => return Ok(0),
                        Ok(count) => received.extend_from_slice(&buffer[..count]),
                        Err(Errno::AGAIN | Errno::INTERRUPTED) => {}
                        Err(_) => return Ok(0),
                    }
                    carrier
                        .process_received(&mut received)
                        .map_err(|InvalidFrame| b"mcpm and the relay have different versions" as &[u8])?;
                }
                LISTENER_TOKEN => {
                    while let Ok(fd) = sys::accept_unix(&listener) {
                        carrier.open(fd);
                    }
                }
                token => carrier.drive((token - CONNECTION_TOKENS) as usize),
            }
        }
        carrier.flush();
    }
}

impl Relay {
    /// Handles the frames from mcpm.
    fn process_received(&mut self, received: &mut Vec<u8>) -> Result<(), InvalidFrame> {
        let mut rest = received.as_slice();
        while let Some((frame, after)) = frames::parse_frame(rest)? {
            self.handle_frame(&frame)?;
            rest = after;
        }
        let taken = received.len() - rest.len();
        received.drain(..taken);
        Ok(())
    }

    fn handle_frame(&mut self, frame: &Frame<'_>) -> Result<(), InvalidFrame> {
        let at = frame.connection as usize;
        let connection = self.connections.get_mut(at).and_then(Option::as_deref_mut).ok_or(InvalidFrame)?;
        match frame.kind {
            // A connection that this end has closed accepts no data.
            DATA if connection.fd.is_none() => {}
            DATA => {
                connection.buffered_bytes += frame.payload.len();
                if connection.buffered_bytes > WINDOW_BYTES || connection.ended {
                    return Err(InvalidFrame);
                }
                connection.pending.push_back(frame.payload.to_vec());
            }
            END_STREAM => connection.ended = true,
            WINDOW_UPDATE => {
                connection.send_window =
                    (connection.send_window + frames::parse_window_update(frame.payload)?).min(WINDOW_BYTES)
            }
            CLOSE => {
                connection.closed_by_peer = true;
                if !connection.ended {
                    connection.close(&mut self.out);
                }
            }
            _ => return Err(InvalidFrame),
        }
        self.drive(at);
        Ok(())
    }

    /// Begins to relay a connection.
    fn open(&mut self, fd: Fd) {
        let free = self.connections.iter().position(Option::is_none);
        let at = free.unwrap_or(self.connections.len());
        let number = at as u32;
        // A connection beyond the limit is closed.
        if number >= MAX_CONNECTIONS
            || self.epoll.watch_edge_triggered(&fd, CONNECTION_TOKENS + at as u64).is_err()
        {
            return;
        }
        frames::write_frame(&mut self.out, OPEN, number, &[]);
        if free.is_none() {
            self.connections.push(None);
        }
        if let Some(place) = self.connections.get_mut(at) {
            *place = Some(Box::new(ContainerConnection {
                number,
                fd: Some(fd),
                pending: VecDeque::new(),
                start: 0,
                buffered_bytes: 0,
                ended: false,
                eof_sent: false,
                unacknowledged: 0,
                send_window: WINDOW_BYTES,
                read_eof: false,
                closed_by_peer: false,
            }));
        }
        self.drive(at);
    }

    /// Copies as many bytes as possible.
    fn drive(&mut self, at: usize) {
        for turn in 0..=MAX_STEPS_PER_EVENT {
            if self.out.len() > FLUSH_THRESHOLD_BYTES {
                self.flush();
            }
            let Some(place) = self.connections.get_mut(at) else { return };
            let Some(connection) = place else { return };
            if turn == MAX_STEPS_PER_EVENT {
                let told =
                    connection.fd.as_ref().map(|fd| self.epoll.rearm(fd, CONNECTION_TOKENS + at as u64));
                if told.is_some_and(|told| told.is_err()) {
                    connection.close(&mut self.out);
                }
            } else {
                match connection.step(&mut self.piece, &mut self.out) {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(_) => connection.close(&mut self.out),
                }
            }
            if connection.fd.is_none() && connection.closed_by_peer {
                *place = None;
            }
            return;
        }
    }

    /// Writes the buffered frames; if that fails, mcpm is gone.
    fn flush(&mut self) {
        let mut rest = self.out.as_slice();
        while !rest.is_empty() {
            match sys::write(&self.output, rest) {
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTERRUPTED) => {}
                Err(Errno::AGAIN) if sys::wait_to_write(&self.output).is_ok() => {}
                Err(_) => sys::exit(0),
            }
        }
        self.out.clear();
    }
}

impl ContainerConnection {
    /// Reads once and writes once, if possible; returns whether anything was copied.
    fn step(&mut self, piece: &mut [u8], out: &mut Vec<u8>) -> sys::Result<bool> {
        let Some(fd) = &self.fd else { return Ok(false) };
        let mut moved = false;
        if self.send_window > 0 && !self.read_eof {
            let most = self.send_window.min(piece.len());
            match sys::read(fd, &mut piece[..most]) {
                Ok(0) => {
                    self.read_eof = true;
                    frames::write_frame(out, END_STREAM, self.number, &[]);
                    moved = true;
                }
                Ok(count) => {
                    self.send_window -= count;
                    frames::write_frame(out, DATA, self.number, &piece[..count]);
                    moved = true;
                }
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(first) = self.pending.front() {
            match sys::send(fd, &first[self.start..]) {
                Ok(count) => {
                    self.start += count;
                    self.buffered_bytes -= count;
                    self.unacknowledged += count;
                    moved = true;
                }
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error),
            }
            if self.start == first.len() {
                self.pending.pop_front();
                self.start = 0;
            }
        }
        if self.unacknowledged >= WINDOW_UPDATE_THRESHOLD {
            frames::write_frame(out, WINDOW_UPDATE, self.number, &(self.unacknowledged as u32).to_le_bytes());
            self.unacknowledged = 0;
        }
        if self.ended && self.pending.is_empty() && !self.eof_sent {
            sys::shutdown_write(fd);
            self.eof_sent = true;
        }
        // When mcpm accepts no more, the connection's data is of no use.
        if (self.read_eof || self.closed_by_peer) && self.eof_sent {
            self.close(out);
        }
        Ok(moved)
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if self.fd.take().is_some() {
            self.pending.clear();
            frames::write_frame(out, CLOSE, self.number, &[]);
        }
    }
}
