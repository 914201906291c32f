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
use crate::timers::{CoarseTimer, CoarseTimers};

/// How long a client may send nothing of a body that it has begun.
const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes with which a client earns another second: those that come more slowly end when they have been waited for, all
/// in all, for [`BODY_IDLE_TIMEOUT`] and that.
const MIN_BYTES_PER_SECOND: u64 = 8 << 10;

/// A client's body. It ends with [`BodyTooSlow`] when nothing of it comes for a while, or too little.
#[derive(Debug)]
pub(crate) struct ClientBody<B = Incoming> {
    body: B,
    timers: CoarseTimers,
    /// Set once the client is waited for; boxed, since nearly always the body is there with its head.
    stall: Option<Box<StallTimer>>,
}

/// How a client is waited for.
#[derive(Debug, Default)]
struct StallTimer {
    /// What it has sent since it was first waited for.
    received_bytes: u64,
    /// How long it was waited for before.
    waited: Duration,
    /// Since when it is waited for now, and until when.
    current_wait: Option<(Instant, CoarseTimer)>,
}

/// Too little came of a body for too long.
#[derive(Debug)]
pub(crate) struct BodyTooSlow;

impl fmt::Display for BodyTooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (patience, rate) = (BODY_IDLE_TIMEOUT.as_secs(), MIN_BYTES_PER_SECOND >> 10);
        write!(f, "nothing came of the body for {patience} s, or less than {rate} KiB a second for longer")
    }
}

impl std::error::Error for BodyTooSlow {}

impl<B> ClientBody<B> {
    /// Takes a body as it comes; `alarms` are those of all clients.
    pub(crate) fn new(body: B, alarms: CoarseTimers) -> Self {
        Self { body, timers: alarms, stall: None }
    }
}

impl StallTimer {
    fn record_data(&mut self, bytes: usize) {
        self.received_bytes += bytes as u64;
        if let Some((since, _)) = self.current_wait.take() {
            self.waited += since.elapsed();
        }
    }

    /// How long it is waited for now, if nothing comes.
    fn remaining(&self) -> Duration {
        let earned = BODY_IDLE_TIMEOUT
            + Duration::from_millis(self.received_bytes.saturating_mul(1000) / MIN_BYTES_PER_SECOND);
        earned.saturating_sub(self.waited).min(BODY_IDLE_TIMEOUT)
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
        let Self { body, timers: alarms, stall: waits } = &mut *self;
        if let Poll::Ready(piece) = Pin::new(body).poll_frame(cx) {
            if let Some(waits) = waits {
                let bytes = piece.as_ref().and_then(|piece| piece.as_ref().ok()?.data_ref());
                waits.record_data(bytes.map_or(0, Bytes::len));
            }
            return Poll::Ready(piece.map(|piece| piece.map_err(Into::into)));
        }
        let waits = waits.get_or_insert_default();
        let patience = waits.remaining();
        let (_, alarm) = waits.current_wait.get_or_insert_with(|| (Instant::now(), alarms.timer(patience)));
        Pin::new(alarm).poll(cx).map(|()| Some(Err(Box::new(BodyTooSlow) as BodyError)))
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
    struct ChannelBody(mpsc::UnboundedReceiver<Bytes>);

    impl HttpBody for ChannelBody {
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
        let body = Body::stream(ClientBody::new(ChannelBody(receiver), CoarseTimers::default()));
        let sends = async move {
            for _ in 0..pieces {
                tokio::time::sleep(pause).await;
                if sender.send(Bytes::from(vec![b'a'; size])).is_err() {
                    return;
                }
            }
        };
        let reads = async {
            match body.collect(Account::new).await {
                Ok(whole) => (whole.len(), begin.elapsed(), true),
                Err(broken) => (broken.prefix.len(), begin.elapsed(), false),
            }
        };
        let (read, ()) = tokio::join!(reads, sends);
        read
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_below_the_minimum_rate_is_aborted() {
        let (came, took, whole) = read(1000, 1, Duration::from_secs(29)).await;
        assert!(!whole && came == 1 && took < BODY_IDLE_TIMEOUT + Duration::from_secs(1), "{came} {took:?}");
        let (came, took, whole) = read(1, 1, Duration::from_secs(31)).await;
        assert!(!whole && came == 0 && took < BODY_IDLE_TIMEOUT + Duration::from_secs(1), "{took:?}");
        // Some come slowly, and all the same.
        let (came, took, whole) = read(1000, 16 << 10, Duration::from_secs(1)).await;
        assert!(whole && came == 16_384_000 && took >= Duration::from_secs(1000), "{came} {took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn time_spent_by_the_reader_does_not_count_against_the_client() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut body = Body::stream(ClientBody::new(ChannelBody(receiver), CoarseTimers::default()));
        for _ in 0..100 {
            let (piece, ()) = tokio::join!(body.next_chunk(), async {
                tokio::task::yield_now().await;
                sender.send(Bytes::from_static(b"a")).expect("a reader");
            });
            assert!(piece.is_ok_and(|piece| piece.is_some()));
            tokio::time::advance(BODY_IDLE_TIMEOUT).await;
        }
    }
}
