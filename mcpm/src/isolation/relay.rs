//! Demultiplexes the connections of a container whose engine cannot share sockets with this machine: the connections
//! share one stream to a process in the container (`mcpm/shim/relay.rs`).
//!
//! Data from the stream is as untrusted as data from a socket of the container. The bytes of each connection are copied
//! to and from one end of a socket pair. Other modules use the second end like a direct connection.

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
use crate::{
    Result,
    platform::{LocalStream, OwnedReadHalf, OwnedWriteHalf},
};

/// Most frames that wait to be written.
const MAX_QUEUED_FRAMES: usize = 64;
/// Bytes written after which the container gets a window update.
const WINDOW_UPDATE_THRESHOLD: usize = WINDOW_BYTES / 4;

/// Serves the stream until either end closes it, or sends an invalid frame.
pub(super) async fn serve(
    state: &Arc<IsolationState>,
    input: impl Stream<Item = Result<Bytes>> + Send,
    output: impl AsyncWrite + Send,
) -> io::Result<()> {
    let (frames, queued) = mpsc::channel(MAX_QUEUED_FRAMES);
    let mut carrier = Demultiplexer {
        state: Arc::clone(state),
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
    state: Arc<IsolationState>,
    frames: mpsc::Sender<Vec<u8>>,
    /// Indexed by number.
    connections: Vec<Option<RelayedConnection>>,
    tasks: JoinSet<()>,
}

/// The reader's state of a connection.
struct RelayedConnection {
    /// The queue of its bytes; `None` once the container has closed it.
    incoming: Option<mpsc::UnboundedSender<RelayedChunk>>,
    /// Number of bytes in the queue.
    buffered_bytes: Arc<AtomicUsize>,
    /// Number of bytes that the container accepts.
    send_window: Arc<Semaphore>,
    ended: bool,
    /// Cancels sending to the container.
    cancel_send: CancellationToken,
    /// Whether this end has closed it, or is about to.
    closed_locally: Arc<AtomicBool>,
}

enum RelayedChunk {
    Data(Bytes),
    End,
}

impl Demultiplexer {
    /// Handles complete frames, and returns the number of bytes that are left.
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
            *place = Some(open_connection(&self.state, frame.connection, &self.frames, &mut self.tasks));
            return Ok(());
        }
        let connection = place.as_mut().ok_or(InvalidFrame)?;
        let chunks = connection.incoming.as_ref().ok_or(InvalidFrame)?;
        match frame.kind {
            DATA => {
                let held = connection.buffered_bytes.fetch_add(frame.payload.len(), Ordering::Relaxed);
                if connection.ended || held + frame.payload.len() > WINDOW_BYTES {
                    return Err(InvalidFrame);
                }
                // A connection that is closed here accepts no more data.
                let _ = chunks.send(RelayedChunk::Data(Bytes::copy_from_slice(frame.payload)));
            }
            END_STREAM if connection.ended => return Err(InvalidFrame),
            END_STREAM => {
                connection.ended = true;
                let _ = chunks.send(RelayedChunk::End);
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

/// Serves a connection like one of a socket. A connection beyond the limit is closed.
fn open_connection(
    state: &Arc<IsolationState>,
    number: u32,
    frames: &mpsc::Sender<Vec<u8>>,
    tasks: &mut JoinSet<()>,
) -> RelayedConnection {
    let (chunks, coming) = mpsc::unbounded_channel();
    let connection = RelayedConnection {
        incoming: Some(chunks),
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
    let pair = Arc::clone(&state.limits.any_connections).try_acquire_owned().ok().and_then(|permit| {
        let (ours, links) = LocalStream::pair().ok()?;
        Some((ours, links, Arc::new(permit)))
    });
    let closed = Arc::clone(&connection.closed_locally);
    let state = Arc::clone(state);
    tasks.spawn(async move {
        if let Some((ours, links, permit)) = pair {
            shim_connections::spawn_connection(links, Arc::clone(&permit), &state);
            way.pump(ours, coming, permit).await;
        }
        // The number is released only after this frame was queued: otherwise a container that reads nothing could
        // open one connection after another whose tasks wait here.
        let Ok(place) = way.frames.reserve().await else { return };
        closed.store(true, Ordering::Release);
        place.send(way.frame(CLOSE, &[]));
    });
    connection
}

/// The sending side of one connection.
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
        // The stream has ended.
        let _ = self.frames.send(self.frame(letter, bytes)).await;
    }

    /// Copies bytes in both directions until both have ended.
    async fn pump(
        &self,
        ours: LocalStream,
        coming: mpsc::UnboundedReceiver<RelayedChunk>,
        _permit: Arc<OwnedSemaphorePermit>,
    ) {
        let (from, to) = ours.into_split();
        let out = self.cut.run_until_cancelled(self.copy_to_container(from));
        let (out, back) = tokio::join!(out, self.copy_from_container(to, coming));
        for error in out.and_then(io::Result::err).into_iter().chain(back.err()) {
            tracing::debug!(%error, "a relayed connection failed");
        }
    }

    async fn copy_to_container(&self, mut from: OwnedReadHalf) -> io::Result<()> {
        let mut chunk = vec![0; MAX_FRAME_PAYLOAD_BYTES];
        loop {
            let room = self.room.acquire().await.map_err(io::Error::other)?;
            let most = (1 + self.room.available_permits()).min(MAX_FRAME_PAYLOAD_BYTES);
            let count = from.read(&mut chunk[..most]).await?;
            if count == 0 {
                self.send_frame(END_STREAM, &[]).await;
                return Ok(());
            }
            room.forget();
            // There is no other consumer, so the permits are still available.
            self.room.forget_permits(count - 1);
            self.send_frame(DATA, &chunk[..count]).await;
        }
    }

    async fn copy_from_container(
        &self,
        mut to: OwnedWriteHalf,
        mut coming: mpsc::UnboundedReceiver<RelayedChunk>,
    ) -> io::Result<()> {
        let mut passed = 0;
        while let Some(chunk) = coming.recv().await {
            let RelayedChunk::Data(bytes) = chunk else { return to.shutdown().await };
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
