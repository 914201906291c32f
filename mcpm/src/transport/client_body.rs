//! The body of a client's request, which has to go on coming, and not by drops.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Instant;

use super::body::BodyError;
use crate::alarm::{Alarm, Alarms};

/// How long a client may send nothing of a body that it has begun.
const PATIENCE: Duration = Duration::from_secs(30);
/// Bytes with which a client earns another second: those that come more slowly end when they have been waited for, all
/// in all, for [`PATIENCE`] and that.
const RATE: u64 = 8 << 10;

/// A client's body. It ends with [`TooSlow`] when nothing of it comes for a while, or too little.
#[derive(Debug)]
pub(crate) struct ClientBody<B = Incoming> {
    body: B,
    alarms: Alarms,
    /// Set once the client is waited for; boxed, since nearly always the body is there with its head.
    waits: Option<Box<Waits>>,
}

/// How a client is waited for.
#[derive(Debug, Default)]
struct Waits {
    /// What it has sent since it was first waited for.
    came: u64,
    /// How long it was waited for before.
    took: Duration,
    /// Since when it is waited for now, and until when.
    now: Option<(Instant, Alarm)>,
}

/// Too little came of a body for too long.
#[derive(Debug)]
pub(crate) struct TooSlow;

impl fmt::Display for TooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (patience, rate) = (PATIENCE.as_secs(), RATE >> 10);
        write!(f, "nothing came of the body for {patience} s, or less than {rate} KiB a second for longer")
    }
}

impl std::error::Error for TooSlow {}

impl<B> ClientBody<B> {
    /// Takes a body as it comes; `alarms` are those of all clients.
    pub(crate) fn new(body: B, alarms: Alarms) -> Self {
        Self { body, alarms, waits: None }
    }
}

impl Waits {
    fn came(&mut self, bytes: usize) {
        self.came += bytes as u64;
        if let Some((since, _)) = self.now.take() {
            self.took += since.elapsed();
        }
    }

    /// How long it is waited for now, if nothing comes.
    fn patience(&self) -> Duration {
        let earned = PATIENCE + Duration::from_millis(self.came.saturating_mul(1000) / RATE);
        earned.saturating_sub(self.took).min(PATIENCE)
    }
}

impl<B> HttpBody for ClientBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<BodyError>,
{
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Self { body, alarms, waits } = &mut *self;
        if let Poll::Ready(piece) = Pin::new(body).poll_frame(cx) {
            if let Some(waits) = waits {
                let bytes = piece.as_ref().and_then(|piece| piece.as_ref().ok()?.data_ref());
                waits.came(bytes.map_or(0, Bytes::len));
            }
            return Poll::Ready(piece.map(|piece| piece.map_err(Into::into)));
        }
        let waits = waits.get_or_insert_default();
        let patience = waits.patience();
        let (_, alarm) = waits.now.get_or_insert_with(|| (Instant::now(), alarms.after(patience)));
        Pin::new(alarm).poll(cx).map(|()| Some(Err(Box::new(TooSlow) as BodyError)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;
    use crate::{memory::Account, transport::body::Body};

    /// A body that comes piece by piece.
    struct Pieces(mpsc::UnboundedReceiver<Bytes>);

    impl HttpBody for Pieces {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
        }
    }

    /// Reads a body of which a piece comes after each pause; says how much came, how long it took, whether it ended.
    async fn read(pieces: usize, size: usize, pause: Duration) -> (usize, Duration, bool) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let begin = Instant::now();
        let body = Body::stream(ClientBody::new(Pieces(receiver), Alarms::default()));
        let sends = async move {
            for _ in 0..pieces {
                tokio::time::sleep(pause).await;
                if sender.send(Bytes::from(vec![b'a'; size])).is_err() {
                    return;
                }
            }
        };
        let reads = async {
            match body.whole(Account::new).await {
                Ok(whole) => (whole.len(), begin.elapsed(), true),
                Err(broken) => (broken.begun.len(), begin.elapsed(), false),
            }
        };
        let (read, ()) = tokio::join!(reads, sends);
        read
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_comes_by_drops_ends() {
        let (came, took, whole) = read(1000, 1, Duration::from_secs(29)).await;
        assert!(!whole && came == 1 && took < PATIENCE + Duration::from_secs(1), "{came} {took:?}");
        let (came, took, whole) = read(1, 1, Duration::from_secs(31)).await;
        assert!(!whole && came == 0 && took < PATIENCE + Duration::from_secs(1), "{took:?}");
        // Some come slowly, and all the same.
        let (came, took, whole) = read(1000, 16 << 10, Duration::from_secs(1)).await;
        assert!(whole && came == 16_384_000 && took >= Duration::from_secs(1000), "{came} {took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_that_a_reader_takes_is_not_the_clients() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut body = Body::stream(ClientBody::new(Pieces(receiver), Alarms::default()));
        for _ in 0..100 {
            let (piece, ()) = tokio::join!(body.piece(), async {
                tokio::task::yield_now().await;
                sender.send(Bytes::from_static(b"a")).expect("a reader");
            });
            assert!(piece.is_ok_and(|piece| piece.is_some()));
            tokio::time::advance(PATIENCE).await;
        }
    }
}
