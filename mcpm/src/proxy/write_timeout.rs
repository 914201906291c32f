//! Fails connections whose client does not read: a write that is blocked for too long times out.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::timers::{CoarseTimer, CoarseTimers};

/// How long pending data may remain unread by the client. A stream without pending data may be idle for ever.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// A connection that fails if nothing can be written for too long.
#[derive(Debug)]
pub(super) struct WriteTimeout<T> {
    stream: T,
    alarms: CoarseTimers,
    /// Set while a write is pending.
    waits: Option<CoarseTimer>,
}

impl<T: AsyncWrite + Unpin> WriteTimeout<T> {
    /// Wraps a connection; `alarms` are the timers of all connections.
    pub(super) fn new(stream: T, alarms: CoarseTimers) -> Self {
        Self { stream, alarms, waits: None }
    }

    fn poll<O>(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<io::Result<O>>,
    ) -> Poll<io::Result<O>> {
        if let Poll::Ready(written) = write(Pin::new(&mut self.stream), cx) {
            if self.waits.is_some() {
                self.waits = None;
            }
            return Poll::Ready(written);
        }
        let alarm = self.waits.get_or_insert_with(|| self.alarms.timer(WRITE_TIMEOUT));
        ready!(Pin::new(alarm).poll(cx));
        let text = format!("the client has read nothing for {} s", WRITE_TIMEOUT.as_secs());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll(cx, |stream, cx| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll(cx, |stream, cx| stream.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(cx, |stream, cx| stream.poll_shutdown(cx))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WriteTimeout<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        time::Instant,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_is_given_up() {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        let mut ours = WriteTimeout::new(ours, CoarseTimers::default());
        let begin = Instant::now();
        let answer = vec![0; 4096];
        // A client that reads slowly is not disconnected.
        let slow = async {
            let mut piece = vec![0; 1024];
            for _ in 0..4 {
                tokio::time::sleep(WRITE_TIMEOUT - Duration::from_secs(1)).await;
                theirs.read_exact(&mut piece).await.expect("a piece");
            }
        };
        let (written, ()) = tokio::join!(ours.write_all(&answer), slow);
        written.expect("a client that reads");
        assert!(begin.elapsed() > WRITE_TIMEOUT * 2);
        let begin = Instant::now();
        let error = ours.write_all(&answer).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!((WRITE_TIMEOUT..WRITE_TIMEOUT * 2).contains(&begin.elapsed()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_stream_goes_on() {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        let mut ours = WriteTimeout::new(ours, CoarseTimers::default());
        for _ in 0..3 {
            ours.write_all(b"event").await.expect("a client that reads");
            theirs.read_exact(&mut [0; 5]).await.expect("the event");
            tokio::time::sleep(WRITE_TIMEOUT * 10).await;
        }
    }
}
