//! Ends SSE streams when the token that they were requested with expires.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::header;
use http_body::{Body as HttpBody, Frame};
use tokio::time::{Instant, Sleep};

use super::respond::{Response, is_event_stream};
use crate::proxy::body::{Body, BodyError};

/// A stream with a later expiry does not expire.
const MAX_LIFETIME: Duration = Duration::from_secs(365 * 24 * 3600);

/// Maximum sleep: timers do not advance while the machine is suspended, so the wall clock is compared regularly.
const MAX_SLEEP: Duration = Duration::from_secs(30);

/// A stream with an expiry.
struct ExpiringBody {
    body: Body,
    deadline: ExpiryDeadline,
    timer: Pin<Box<Sleep>>,
    ended: bool,
}

/// The expiry by both clocks: the wall clock advances while the machine is suspended, and the monotonic clock
/// cannot be set back.
struct ExpiryDeadline {
    wall_clock: SystemTime,
    monotonic: Instant,
    now: fn() -> SystemTime,
}

impl ExpiryDeadline {
    /// When to check again; `None` after the expiry.
    fn next_check(&self) -> Option<Instant> {
        let now = Instant::now();
        let over = (self.now)() >= self.wall_clock || now >= self.monotonic;
        (!over).then(|| self.monotonic.min(now + MAX_SLEEP))
    }
}

/// Ends a response at `end` if it is an SSE stream. Any other response belongs to a single request, which was
/// authorized with a valid token.
///
/// The stream ends as if the server had closed it: the client opens another one with a valid token.
pub(super) fn with_expiry(response: Response, end: SystemTime) -> Response {
    with_expiry_by_clock(response, end, SystemTime::now)
}

fn with_expiry_by_clock(response: Response, end: SystemTime, now: fn() -> SystemTime) -> Response {
    if !response.headers().get(header::CONTENT_TYPE).is_some_and(is_event_stream) {
        return response;
    }
    // An expired stream ends immediately.
    let left = end.duration_since(now()).unwrap_or_default();
    if left > MAX_LIFETIME {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // The body may become shorter.
    parts.headers.remove(header::CONTENT_LENGTH);
    let latest = Instant::now() + left;
    let nap = Box::pin(tokio::time::sleep_until(latest.min(Instant::now() + MAX_SLEEP)));
    let end = ExpiryDeadline { wall_clock: end, monotonic: latest, now };
    Response::from_parts(parts, Body::stream(ExpiringBody { body, deadline: end, timer: nap, ended: false }))
}

impl HttpBody for ExpiringBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        while !self.ended && self.timer.as_mut().poll(cx).is_ready() {
            if let Some(nap) = self.deadline.next_check() {
                self.timer.as_mut().reset(nap);
                continue;
            }
            tracing::debug!("a stream was ended because its caller's token has expired");
            self.ended = true;
            // Drops the server's stream.
            self.body = Body::empty();
        }
        if self.ended { Poll::Ready(None) } else { Pin::new(&mut self.body).poll_frame(cx) }
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.body.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::{memory::Account, testing::with_timeout};

    struct Ticks(tokio::time::Interval);

    impl HttpBody for Ticks {
        type Data = Bytes;
        type Error = BodyError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
            self.0.poll_tick(cx).map(|_| Some(Ok(Frame::data(Bytes::from_static(b":\n\n")))))
        }
    }

    fn stream(kind: &'static str, left: Duration) -> Response {
        stream_by(kind, left, SystemTime::now)
    }

    fn stream_by(kind: &'static str, left: Duration, now: fn() -> SystemTime) -> Response {
        let ticks = Ticks(tokio::time::interval(Duration::from_secs(10)));
        let mut response = Response::new(Body::stream(ticks));
        response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
        with_expiry_by_clock(response, SystemTime::now() + left, now)
    }

    /// The content of a stream until its end.
    async fn whole(stream: Response) -> Bytes {
        let whole =
            tokio::time::timeout(Duration::from_secs(24 * 3600), stream.into_body().collect(Account::new));
        whole.await.expect("an end").expect("a clean end")
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_cleanly_when_its_token_expires() {
        let stream = stream("text/event-stream; charset=utf-8", Duration::from_secs(95));
        let text = whole(stream).await;
        assert_eq!(text, ":\n\n".repeat(10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_when_its_token_expired_while_the_machine_was_suspended() {
        /// From the third call, the wall clock is a day ahead, as after a suspension, during which the monotonic clock
        /// stood still.
        fn suspended() -> SystemTime {
            static ASKED: AtomicUsize = AtomicUsize::new(0);
            let days = u64::from(ASKED.fetch_add(1, Ordering::Relaxed) >= 2);
            SystemTime::now() + Duration::from_secs(days * 24 * 3600)
        }
        let stream = stream_by("text/event-stream", Duration::from_secs(3600), suspended);
        let text = whole(stream).await;
        assert_eq!(text, ":\n\n".repeat(6));
    }

    #[tokio::test(start_paused = true)]
    async fn streams_with_distant_expiry_and_other_responses_are_not_limited() {
        for mut body in [
            stream("text/event-stream", MAX_LIFETIME * 2).into_body(),
            stream("application/json", Duration::ZERO).into_body(),
        ] {
            for _ in 0..1000 {
                assert!(with_timeout(body.next_chunk()).await.expect("a piece").is_some());
            }
        }
        let over = stream("text/event-stream", Duration::ZERO);
        assert!(whole(over).await.is_empty());
    }
}
