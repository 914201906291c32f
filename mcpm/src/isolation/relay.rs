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
    frames::{
        self, CLOSE, DATA, END_STREAM, Frame, InvalidFrame, MAX_CONNECTIONS, MAX_FRAME_PAYLOAD_BYTES, OPEN,
        WINDOW_BYTES, WINDOW_UPDATE,
    },
    shim_connections,
    state::IsolationState,
};
use crate::Result;

/// Frames that wait to be written.
const MAX_QUEUED_FRAMES: usize = 64;
/// Bytes that were passed on before the container is told.
const WINDOW_UPDATE_THRESHOLD: usize = WINDOW_BYTES / 4;

/// Carries until either end is gone, or says what no end says.
pub(super) async fn serve(
    gate: &Arc<IsolationState>,
    input: impl Stream<Item = Result<Bytes>> + Send,
    output: impl AsyncWrite + Send,
) -> io::Result<()> {
    let (frames, queued) = mpsc::channel(MAX_QUEUED_FRAMES);
    let mut carrier = Demultiplexer {
        gate: Arc::clone(gate),
        frames,
        connections: std::iter::repeat_with(|| None).take(MAX_CONNECTIONS as usize).collect(),
        tasks: JoinSet::new(),
    };
    let mut input = std::pin::pin!(input);
    let read = async {
        let mut received = Vec::new();
        while let Some(bytes) = input.next().await {
            received.extend_from_slice(&bytes.map_err(io::Error::other)?);
            let left =
                carrier.process_received(&received).map_err(|InvalidFrame| io::ErrorKind::InvalidData)?;
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

struct Demultiplexer {
    gate: Arc<IsolationState>,
    frames: mpsc::Sender<Vec<u8>>,
    /// By number.
    connections: Vec<Option<RelayedConnection>>,
    tasks: JoinSet<()>,
}

/// What the reader knows of a connection.
struct RelayedConnection {
    /// Where its bytes go; gone once the container has closed it.
    incoming: Option<mpsc::UnboundedSender<RelayedChunk>>,
    /// How many of them were not passed on yet.
    buffered_bytes: Arc<AtomicUsize>,
    /// How many bytes the container has room for.
    send_window: Arc<Semaphore>,
    ended: bool,
    /// Ends what is sent to the container.
    cancel_send: CancellationToken,
    /// Whether this end has closed it, or is about to.
    closed_locally: Arc<AtomicBool>,
}

enum RelayedChunk {
    Data(Bytes),
    End,
}

impl Demultiplexer {
    /// Does what the container said, and returns how many bytes are left for when more have come.
    fn process_received(&mut self, received: &[u8]) -> Result<usize, InvalidFrame> {
        let mut rest = received;
        while let Some((frame, after)) = frames::parse_frame(rest)? {
            self.handle_frame(&frame)?;
            rest = after;
        }
        while self.tasks.try_join_next().is_some() {}
        Ok(rest.len())
    }

    fn handle_frame(&mut self, frame: &Frame<'_>) -> Result<(), InvalidFrame> {
        let place = self.connections.get_mut(frame.connection as usize).ok_or(InvalidFrame)?;
        if frame.kind == OPEN {
            let is_free = |old: &RelayedConnection| {
                old.incoming.is_none() && old.closed_locally.load(Ordering::Acquire)
            };
            if !place.as_ref().is_none_or(is_free) {
                return Err(InvalidFrame);
            }
            *place = Some(open_connection(&self.gate, frame.connection, &self.frames, &mut self.tasks));
            return Ok(());
        }
        let connection = place.as_mut().ok_or(InvalidFrame)?;
        let pieces = connection.incoming.as_ref().ok_or(InvalidFrame)?;
        match frame.kind {
            DATA => {
                let held = connection.buffered_bytes.fetch_add(frame.payload.len(), Ordering::Relaxed);
                if connection.ended || held + frame.payload.len() > WINDOW_BYTES {
                    return Err(InvalidFrame);
                }
                // One that is closed here takes no more.
                let _ = pieces.send(RelayedChunk::Data(Bytes::copy_from_slice(frame.payload)));
            }
            END_STREAM if connection.ended => return Err(InvalidFrame),
            END_STREAM => {
                connection.ended = true;
                let _ = pieces.send(RelayedChunk::End);
            }
            WINDOW_UPDATE => {
                let room = frames::parse_window_update(frame.payload)?;
                if connection.send_window.available_permits() + room > WINDOW_BYTES {
                    return Err(InvalidFrame);
                }
                connection.send_window.add_permits(room);
            }
            CLOSE => {
                connection.incoming = None;
                connection.cancel_send.cancel();
            }
            _ => return Err(InvalidFrame),
        }
        Ok(())
    }
}

/// Takes a connection as one of a socket is taken; one too many is closed.
fn open_connection(
    gate: &Arc<IsolationState>,
    number: u32,
    frames: &mpsc::Sender<Vec<u8>>,
    tasks: &mut JoinSet<()>,
) -> RelayedConnection {
    let (pieces, coming) = mpsc::unbounded_channel();
    let connection = RelayedConnection {
        incoming: Some(pieces),
        buffered_bytes: Arc::default(),
        send_window: Arc::new(Semaphore::new(WINDOW_BYTES)),
        ended: false,
        cancel_send: CancellationToken::new(),
        closed_locally: Arc::default(),
    };
    let way = ConnectionPump {
        number,
        frames: frames.clone(),
        held: Arc::clone(&connection.buffered_bytes),
        room: Arc::clone(&connection.send_window),
        cut: connection.cancel_send.clone(),
    };
    let pair = Arc::clone(&gate.limits.any_connections).try_acquire_owned().ok().and_then(|permit| {
        let (ours, links) = UnixStream::pair().ok()?;
        Some((ours, links, Arc::new(permit)))
    });
    let closed = Arc::clone(&connection.closed_locally);
    let gate = Arc::clone(gate);
    tasks.spawn(async move {
        if let Some((ours, links, permit)) = pair {
            shim_connections::spawn_connection(links, Arc::clone(&permit), &gate);
            way.pump(ours, coming, permit).await;
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
struct ConnectionPump {
    number: u32,
    frames: mpsc::Sender<Vec<u8>>,
    held: Arc<AtomicUsize>,
    room: Arc<Semaphore>,
    cut: CancellationToken,
}

impl ConnectionPump {
    fn frame(&self, letter: u8, bytes: &[u8]) -> Vec<u8> {
        let mut frame = Vec::with_capacity(frames::FRAME_HEADER_BYTES + bytes.len());
        frames::write_frame(&mut frame, letter, self.number, bytes);
        frame
    }

    async fn send_frame(&self, letter: u8, bytes: &[u8]) {
        // Without a reader, everything ends.
        let _ = self.frames.send(self.frame(letter, bytes)).await;
    }

    /// Moves bytes both ways until both are done.
    async fn pump(
        &self,
        ours: UnixStream,
        coming: mpsc::UnboundedReceiver<RelayedChunk>,
        _permit: Arc<OwnedSemaphorePermit>,
    ) {
        let (from, to) = ours.into_split();
        let out = self.cut.run_until_cancelled(self.copy_to_container(from));
        let (out, back) = tokio::join!(out, self.copy_from_container(to, coming));
        for error in out.and_then(io::Result::err).into_iter().chain(back.err()) {
            tracing::debug!(%error, "a carried connection broke off");
        }
    }

    async fn copy_to_container(&self, mut from: OwnedReadHalf) -> io::Result<()> {
        let mut piece = vec![0; MAX_FRAME_PAYLOAD_BYTES];
        loop {
            let room = self.room.acquire().await.map_err(io::Error::other)?;
            let most = (1 + self.room.available_permits()).min(MAX_FRAME_PAYLOAD_BYTES);
            let count = from.read(&mut piece[..most]).await?;
            if count == 0 {
                self.send_frame(END_STREAM, &[]).await;
                return Ok(());
            }
            room.forget();
            // Nobody else takes of it, so there is as much as before.
            self.room.forget_permits(count - 1);
            self.send_frame(DATA, &piece[..count]).await;
        }
    }

    async fn copy_from_container(
        &self,
        mut to: OwnedWriteHalf,
        mut coming: mpsc::UnboundedReceiver<RelayedChunk>,
    ) -> io::Result<()> {
        let mut passed = 0;
        while let Some(piece) = coming.recv().await {
            let RelayedChunk::Data(bytes) = piece else { return to.shutdown().await };
            to.write_all(&bytes).await?;
            self.held.fetch_sub(bytes.len(), Ordering::Relaxed);
            passed += bytes.len();
            if passed >= WINDOW_UPDATE_THRESHOLD {
                let told = u32::try_from(passed).unwrap_or_default();
                self.send_frame(WINDOW_UPDATE, &told.to_le_bytes()).await;
                passed = 0;
            }
        }
        Err(io::ErrorKind::ConnectionReset.into())
    }
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
