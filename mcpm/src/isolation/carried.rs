//! Takes the connections of a container whose engine shares no sockets with this machine: all over one stream, to a
//! process in the container (`mcpm/shim/carry.rs`).
//!
//! What comes over it is as untrusted as what comes over a socket. Each connection is joined to one end of a pair of
//! sockets here, so that nothing else needs to know where it came from.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    Gate,
    frames::{self, CLOSE, CONNECTIONS, DATA, END, Frame, OPEN, PIECE, ROOM, Strange, WINDOW},
    link,
};
use crate::Result;

/// Frames that wait to be written.
const QUEUE: usize = 64;
/// Bytes that were passed on before the container is told.
const WORTH_TELLING: usize = WINDOW / 4;

/// Carries until either end is gone, or says what no end says.
pub(super) async fn serve(
    gate: &Arc<Gate>,
    input: impl Stream<Item = Result<Bytes>> + Send,
    output: impl AsyncWrite + Send,
) -> io::Result<()> {
    let (frames, queued) = mpsc::channel(QUEUE);
    let mut carrier = Carrier {
        gate: Arc::clone(gate),
        frames,
        connections: std::iter::repeat_with(|| None).take(CONNECTIONS as usize).collect(),
        tasks: JoinSet::new(),
    };
    let mut input = std::pin::pin!(input);
    let read = async {
        let mut received = Vec::new();
        while let Some(bytes) = input.next().await {
            received.extend_from_slice(&bytes.map_err(io::Error::other)?);
            let left = carrier.take(&received).map_err(|Strange| io::ErrorKind::InvalidData)?;
            received.drain(..received.len() - left);
        }
        Ok(())
    };
    // Reading never waits for writing, or two full pipes could wait for each other.
    tokio::select! {
        outcome = read => outcome,
        outcome = write(queued, output) => outcome,
    }
}

async fn write(mut queued: mpsc::Receiver<Vec<u8>>, output: impl AsyncWrite) -> io::Result<()> {
    let mut output = std::pin::pin!(output);
    while let Some(frame) = queued.recv().await {
        output.write_all(&frame).await?;
        while let Ok(frame) = queued.try_recv() {
            output.write_all(&frame).await?;
        }
        output.flush().await?;
    }
    Ok(())
}

struct Carrier {
    gate: Arc<Gate>,
    frames: mpsc::Sender<Vec<u8>>,
    /// By number.
    connections: Vec<Option<Connection>>,
    tasks: JoinSet<()>,
}

/// What the reader knows of a connection.
struct Connection {
    /// Where its bytes go; gone once the container has closed it.
    pieces: Option<mpsc::UnboundedSender<Piece>>,
    /// How many of them were not passed on yet.
    held: Arc<AtomicUsize>,
    /// How many bytes the container has room for.
    room: Arc<Semaphore>,
    ended: bool,
    /// Ends what is sent to the container.
    cut: CancellationToken,
    /// Whether this end has closed it, or is about to.
    closed_here: Arc<AtomicBool>,
}

enum Piece {
    Data(Bytes),
    End,
}

impl Carrier {
    /// Does what the container said, and returns how many bytes are left for when more have come.
    fn take(&mut self, received: &[u8]) -> Result<usize, Strange> {
        let mut rest = received;
        while let Some((frame, after)) = frames::first(rest)? {
            self.hear(&frame)?;
            rest = after;
        }
        while self.tasks.try_join_next().is_some() {}
        Ok(rest.len())
    }

    fn hear(&mut self, frame: &Frame<'_>) -> Result<(), Strange> {
        let place = self.connections.get_mut(frame.number as usize).ok_or(Strange)?;
        if frame.letter == OPEN {
            let is_free = |old: &Connection| old.pieces.is_none() && old.closed_here.load(Ordering::Acquire);
            if !place.as_ref().is_none_or(is_free) {
                return Err(Strange);
            }
            *place = Some(open(&self.gate, frame.number, &self.frames, &mut self.tasks));
            return Ok(());
        }
        let connection = place.as_mut().ok_or(Strange)?;
        let pieces = connection.pieces.as_ref().ok_or(Strange)?;
        match frame.letter {
            DATA => {
                let held = connection.held.fetch_add(frame.bytes.len(), Ordering::Relaxed);
                if connection.ended || held + frame.bytes.len() > WINDOW {
                    return Err(Strange);
                }
                // One that is closed here takes no more.
                let _ = pieces.send(Piece::Data(Bytes::copy_from_slice(frame.bytes)));
            }
            END if connection.ended => return Err(Strange),
            END => {
                connection.ended = true;
                let _ = pieces.send(Piece::End);
            }
            ROOM => {
                let room = frames::room(frame.bytes)?;
                if connection.room.available_permits() + room > WINDOW {
                    return Err(Strange);
                }
                connection.room.add_permits(room);
            }
            CLOSE => {
                connection.pieces = None;
                connection.cut.cancel();
            }
            _ => return Err(Strange),
        }
        Ok(())
    }
}

/// Takes a connection as one of a socket is taken; one too many is closed.
fn open(
    gate: &Arc<Gate>,
    number: u32,
    frames: &mpsc::Sender<Vec<u8>>,
    tasks: &mut JoinSet<()>,
) -> Connection {
    let (pieces, coming) = mpsc::unbounded_channel();
    let connection = Connection {
        pieces: Some(pieces),
        held: Arc::default(),
        room: Arc::new(Semaphore::new(WINDOW)),
        ended: false,
        cut: CancellationToken::new(),
        closed_here: Arc::default(),
    };
    let way = Way {
        number,
        frames: frames.clone(),
        held: Arc::clone(&connection.held),
        room: Arc::clone(&connection.room),
        cut: connection.cut.clone(),
    };
    let pair = Arc::clone(&gate.bounds.links).try_acquire_owned().ok().and_then(|permit| {
        let (ours, links) = UnixStream::pair().ok()?;
        Some((ours, links, Arc::new(permit)))
    });
    let closed = Arc::clone(&connection.closed_here);
    let gate = Arc::clone(gate);
    tasks.spawn(async move {
        if let Some((ours, links, permit)) = pair {
            link::take_in_background(links, Arc::clone(&permit), &gate);
            way.join(ours, coming, permit).await;
        }
        // The number is free only once there is a place for this frame: a container that reads nothing may not begin
        // one connection after another whose ends wait here.
        let Ok(place) = way.frames.reserve().await else { return };
        closed.store(true, Ordering::Release);
        place.send(way.frame(CLOSE, &[]));
    });
    connection
}

/// One connection's way to the container.
struct Way {
    number: u32,
    frames: mpsc::Sender<Vec<u8>>,
    held: Arc<AtomicUsize>,
    room: Arc<Semaphore>,
    cut: CancellationToken,
}

impl Way {
    fn frame(&self, letter: u8, bytes: &[u8]) -> Vec<u8> {
        let mut frame = Vec::with_capacity(frames::HEAD + bytes.len());
        frames::put(&mut frame, letter, self.number, bytes);
        frame
    }

    async fn say(&self, letter: u8, bytes: &[u8]) {
        // Without a reader, everything ends.
        let _ = self.frames.send(self.frame(letter, bytes)).await;
    }

    /// Moves bytes both ways until both are done.
    async fn join(
        &self,
        ours: UnixStream,
        coming: mpsc::UnboundedReceiver<Piece>,
        _permit: Arc<OwnedSemaphorePermit>,
    ) {
        let (from, to) = ours.into_split();
        let out = self.cut.run_until_cancelled(self.send(from));
        let (out, back) = tokio::join!(out, self.receive(to, coming));
        for error in out.and_then(io::Result::err).into_iter().chain(back.err()) {
            tracing::debug!(%error, "a carried connection broke off");
        }
    }

    async fn send(&self, mut from: OwnedReadHalf) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        loop {
            let room = self.room.acquire().await.map_err(io::Error::other)?;
            let most = (1 + self.room.available_permits()).min(PIECE);
            let count = from.read(&mut piece[..most]).await?;
            if count == 0 {
                self.say(END, &[]).await;
                return Ok(());
            }
            room.forget();
            // Nobody else takes of it, so there is as much as before.
            self.room.forget_permits(count - 1);
            self.say(DATA, &piece[..count]).await;
        }
    }

    async fn receive(
        &self,
        mut to: OwnedWriteHalf,
        mut coming: mpsc::UnboundedReceiver<Piece>,
    ) -> io::Result<()> {
        let mut passed = 0;
        while let Some(piece) = coming.recv().await {
            let Piece::Data(bytes) = piece else { return to.shutdown().await };
            to.write_all(&bytes).await?;
            self.held.fetch_sub(bytes.len(), Ordering::Relaxed);
            passed += bytes.len();
            if passed >= WORTH_TELLING {
                let told = u32::try_from(passed).unwrap_or_default();
                self.say(ROOM, &told.to_le_bytes()).await;
                passed = 0;
            }
        }
        Err(io::ErrorKind::ConnectionReset.into())
    }
}

#[cfg(test)]
#[path = "carried_tests.rs"]
mod tests;
