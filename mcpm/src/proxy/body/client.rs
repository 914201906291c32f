//! The body of a client's request, which fails if the client sends it too slowly.

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

use super::error::BodyError;
use crate::timers::{CoarseTimer, CoarseTimers};

/// How long a client may send nothing in the middle of a body.
const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// The total time that the proxy waits for a body is limited: initially to [`BODY_IDLE_TIMEOUT`], and extended by one
/// second for each this many bytes that arrive.
const MIN_BYTES_PER_SECOND: u64 = 8 << 10;

/// The body of a client's request. It fails with [`BodyTooSlow`] if no data arrives for a while, or if data arrives too
/// slowly.
#[derive(Debug)]
pub(crate) struct ClientBody<B = Incoming> {
    body: B,
    timers: CoarseTimers,
    /// Set at the first wait for the client. Boxed, because it is rarely needed: nearly always the body arrives with
    /// its head.
    stall: Option<Box<StallTimer>>,
}

/// The time spent waiting for a client.
#[derive(Debug, Default)]
struct StallTimer {
    /// Bytes received since the first wait.
    received_bytes: u64,
    /// Duration of the completed waits.
    waited: Duration,
    /// The start and the timeout of the current wait.
    current_wait: Option<(Instant, CoarseTimer)>,
}

/// A body was sent too slowly.
#[derive(Debug)]
pub(crate) struct BodyTooSlow;

impl fmt::Display for BodyTooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (timeout, rate) = (BODY_IDLE_TIMEOUT.as_secs(), MIN_BYTES_PER_SECOND >> 10);
        write!(
            f,
            "the body was sent too slowly: no data for {timeout} s, or less than {rate} KiB/s over a longer \
             time"
        )
    }
}

impl std::error::Error for BodyTooSlow {}

impl<B> ClientBody<B> {
    pub(crate) fn new(body: B, timers: CoarseTimers) -> Self {
        Self { body, timers, stall: None }
    }
}

impl StallTimer {
    fn record_data(&mut self, bytes: usize) {
        self.received_bytes += bytes as u64;
        if let Some((since, _)) = self.current_wait.take() {
            self.waited += since.elapsed();
        }
    }

    /// How long the current wait may last.
    fn remaining(&self) -> Duration {
        let allowed = BODY_IDLE_TIMEOUT
            + Duration::from_millis(self.received_bytes.saturating_mul(1000) / MIN_BYTES_PER_SECOND);
        allowed.saturating_sub(self.waited).min(BODY_IDLE_TIMEOUT)
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
        let Self { body, timers, stall } = &mut *self;
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) {
            if let Some(stall) = stall {
                let bytes = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
                stall.record_data(bytes.map_or(0, Bytes::len));
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let stall = stall.get_or_insert_default();
        let timeout = stall.remaining();
        let (_, timer) = stall.current_wait.get_or_insert_with(|| (Instant::now(), timers.timer(timeout)));
        Pin::new(timer).poll(cx).map(|()| Some(Err(Box::new(BodyTooSlow) as BodyError)))
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
    use crate::{memory::Account, proxy::body::Body};

    /// A body whose chunks are sent over a channel.
    struct ChannelBody(mpsc::UnboundedReceiver<Bytes>);

    impl HttpBody for ChannelBody {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            self.0.poll_recv(cx).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
        }
    }

    /// Reads a body whose chunks are sent after a pause each; returns the bytes read, the time, and whether it ended.
    async fn read(chunks: usize, size: usize, pause: Duration) -> (usize, Duration, bool) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let begin = Instant::now();
        let body = Body::stream(ClientBody::new(ChannelBody(receiver), CoarseTimers::default()));
        let sends = async move {
            for _ in 0..chunks {
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
        let (bytes, took, complete) = read(1000, 1, Duration::from_secs(29)).await;
        assert!(
            !complete && bytes == 1 && took < BODY_IDLE_TIMEOUT + Duration::from_secs(1),
            "{bytes} {took:?}"
        );
        let (bytes, took, complete) = read(1, 1, Duration::from_secs(31)).await;
        assert!(!complete && bytes == 0 && took < BODY_IDLE_TIMEOUT + Duration::from_secs(1), "{took:?}");
        // A slow body above the minimum rate.
        let (bytes, took, complete) = read(1000, 16 << 10, Duration::from_secs(1)).await;
        assert!(complete && bytes == 16_384_000 && took >= Duration::from_secs(1000), "{bytes} {took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn time_spent_by_the_reader_does_not_count_against_the_client() {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut body = Body::stream(ClientBody::new(ChannelBody(receiver), CoarseTimers::default()));
        for _ in 0..100 {
            let (chunk, ()) = tokio::join!(body.next_chunk(), async {
                tokio::task::yield_now().await;
                sender.send(Bytes::from_static(b"a")).expect("a reader");
            });
            assert!(chunk.is_ok_and(|chunk| chunk.is_some()));
            tokio::time::advance(BODY_IDLE_TIMEOUT).await;
        }
    }
}
