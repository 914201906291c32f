//! Carries connections between the container and mcpm over standard input and output, where an engine shares no
//! sockets with the machine that mcpm runs on.
//!
//! It is run in the container by mcpm, beside the first process, which takes it for mcpm. Like that one it decides
//! nothing: what it carries, mcpm looks at as if it had come over a socket.

use alloc::{boxed::Box, collections::VecDeque, vec::Vec};

use crate::{
    frames::{self, CLOSE, CONNECTIONS, DATA, END, Frame, OPEN, PIECE, ROOM, Strange, WINDOW},
    sys::{self, Epoll, Errno, Event, Fd},
    way,
};

const INPUT: u64 = 0;
const LISTENER: u64 = 1;
const CARRIED: u64 = 1 << 32;
/// Turns of one connection before others have theirs.
const TURNS: usize = 8;
/// What waits for standard output is written once it is that much.
const FULL: usize = 32 * 1024;
/// Bytes that were passed on before mcpm is told.
const WORTH_TELLING: usize = WINDOW / 4;

struct Carrier {
    epoll: Epoll,
    connections: Vec<Option<Box<Connection>>>,
    output: Fd,
    out: Vec<u8>,
    piece: Vec<u8>,
}

struct Connection {
    number: u32,
    /// Gone once this end has closed it.
    fd: Option<Fd>,
    /// From mcpm, to be passed on; the first from `start` on.
    waiting: VecDeque<Vec<u8>>,
    start: usize,
    held: usize,
    /// Whether no more comes from mcpm, and whether the connection was told.
    ended: bool,
    told: bool,
    /// Passed on, and mcpm not told.
    passed: usize,
    /// May be sent to mcpm.
    room: usize,
    /// Whether all was sent.
    sent_all: bool,
    closed_there: bool,
}

/// Carries until mcpm is gone.
pub(crate) fn run() -> Result<i32, &'static [u8]> {
    let epoll = Epoll::new().map_err(|_| b"the kernel gives no epoll" as &[u8])?;
    let listener = way::CARRIED.listen().map_err(|_| b"connections are carried already" as &[u8])?;
    let input = Fd(0);
    for (fd, token) in [(&input, INPUT), (&listener, LISTENER)] {
        epoll.watch(fd, token).map_err(|_| b"the kernel watches no sockets" as &[u8])?;
    }
    let (out, piece) = (Vec::with_capacity(2 * FULL), [0; PIECE].to_vec());
    let mut carrier = Carrier { epoll, connections: Vec::new(), output: Fd(1), out, piece };
    let mut buffer = [0; PIECE].to_vec();
    let mut received = Vec::with_capacity(4 * PIECE);
    let mut events = [Event::NONE; 64];
    loop {
        let count = match carrier.epoll.wait(&mut events) {
            Ok(count) => count,
            Err(Errno::INTERRUPTED) => continue,
            Err(_) => return Err(b"the kernel watches no sockets"),
        };
        for event in events.iter().take(count) {
            match event.token() {
                INPUT => {
                    match sys::read(&input, &mut buffer) {
                        Ok(0) => return Ok(0),
                        Ok(count) => received.extend_from_slice(&buffer[..count]),
                        Err(Errno::AGAIN | Errno::INTERRUPTED) => {}
                        Err(_) => return Ok(0),
                    }
                    carrier
                        .take(&mut received)
                        .map_err(|Strange| b"mcpm is of another version" as &[u8])?;
                }
                LISTENER => {
                    while let Ok(fd) = sys::accept_unix(&listener) {
                        carrier.open(fd);
                    }
                }
                token => carrier.go_on((token - CARRIED) as usize),
            }
        }
        carrier.flush();
    }
}

impl Carrier {
    /// Does what mcpm said.
    fn take(&mut self, received: &mut Vec<u8>) -> Result<(), Strange> {
        let mut rest = received.as_slice();
        while let Some((frame, after)) = frames::first(rest)? {
            self.hear(&frame)?;
            rest = after;
        }
        let taken = received.len() - rest.len();
        received.drain(..taken);
        Ok(())
    }

    fn hear(&mut self, frame: &Frame<'_>) -> Result<(), Strange> {
        let at = frame.number as usize;
        let connection = self.connections.get_mut(at).and_then(Option::as_deref_mut).ok_or(Strange)?;
        match frame.letter {
            // What this end has closed gets no more.
            DATA if connection.fd.is_none() => {}
            DATA => {
                connection.held += frame.bytes.len();
                if connection.held > WINDOW || connection.ended {
                    return Err(Strange);
                }
                connection.waiting.push_back(frame.bytes.to_vec());
            }
            END => connection.ended = true,
            ROOM => connection.room = (connection.room + frames::room(frame.bytes)?).min(WINDOW),
            CLOSE => {
                connection.closed_there = true;
                if !connection.ended {
                    connection.close(&mut self.out);
                }
            }
            _ => return Err(Strange),
        }
        self.go_on(at);
        Ok(())
    }

    /// Begins to carry one.
    fn open(&mut self, fd: Fd) {
        let free = self.connections.iter().position(Option::is_none);
        let at = free.unwrap_or(self.connections.len());
        let number = at as u32;
        // One too many is closed, which says enough.
        if number >= CONNECTIONS || self.epoll.watch_changes(&fd, CARRIED + at as u64).is_err() {
            return;
        }
        frames::put(&mut self.out, OPEN, number, &[]);
        if free.is_none() {
            self.connections.push(None);
        }
        if let Some(place) = self.connections.get_mut(at) {
            *place = Some(Box::new(Connection {
                number,
                fd: Some(fd),
                waiting: VecDeque::new(),
                start: 0,
                held: 0,
                ended: false,
                told: false,
                passed: 0,
                room: WINDOW,
                sent_all: false,
                closed_there: false,
            }));
        }
        self.go_on(at);
    }

    /// Moves what can be moved.
    fn go_on(&mut self, at: usize) {
        for turn in 0..=TURNS {
            if self.out.len() > FULL {
                self.flush();
            }
            let Some(place) = self.connections.get_mut(at) else { return };
            let Some(connection) = place else { return };
            if turn == TURNS {
                let told = connection.fd.as_ref().map(|fd| self.epoll.tell_again(fd, CARRIED + at as u64));
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
            if connection.fd.is_none() && connection.closed_there {
                *place = None;
            }
            return;
        }
    }

    /// Sends what waits; when that cannot be done, mcpm is gone.
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

impl Connection {
    /// Reads once and writes once, as far as both can be done; tells whether anything was.
    fn step(&mut self, piece: &mut [u8], out: &mut Vec<u8>) -> sys::Result<bool> {
        let Some(fd) = &self.fd else { return Ok(false) };
        let mut moved = false;
        if self.room > 0 && !self.sent_all {
            let most = self.room.min(piece.len());
            match sys::read(fd, &mut piece[..most]) {
                Ok(0) => {
                    self.sent_all = true;
                    frames::put(out, END, self.number, &[]);
                    moved = true;
                }
                Ok(count) => {
                    self.room -= count;
                    frames::put(out, DATA, self.number, &piece[..count]);
                    moved = true;
                }
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(first) = self.waiting.front() {
            match sys::send(fd, &first[self.start..]) {
                Ok(count) => {
                    self.start += count;
                    self.held -= count;
                    self.passed += count;
                    moved = true;
                }
                Err(Errno::AGAIN) => {}
                Err(error) => return Err(error),
            }
            if self.start == first.len() {
                self.waiting.pop_front();
                self.start = 0;
            }
        }
        if self.passed >= WORTH_TELLING {
            frames::put(out, ROOM, self.number, &(self.passed as u32).to_le_bytes());
            self.passed = 0;
        }
        if self.ended && self.waiting.is_empty() && !self.told {
            sys::finish(fd);
            self.told = true;
        }
        // Where mcpm takes no more, what the connection says is of no use.
        if (self.sent_all || self.closed_there) && self.told {
            self.close(out);
        }
        Ok(moved)
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if self.fd.take().is_some() {
            self.waiting.clear();
            frames::put(out, CLOSE, self.number, &[]);
        }
    }
}
