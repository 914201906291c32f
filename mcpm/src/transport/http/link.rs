//! One connection to a server, driven by whoever uses it.
//!
//! A task of its own for each connection would cost two hops between tasks and their wake-ups for every
//! request. Here the request's own task polls the connection, and a [`Bell`] keeps the wake-ups that the
//! connection makes for itself from waking that task.

use std::{
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use http::{Request, Response};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, Connection, SendRequest},
};
use hyper_util::rt::TokioIo;

use super::stream::Stream;
use crate::transport::body::Body;

/// The error of a request, with the request if it was not sent.
pub(super) type Unsent = hyper::client::conn::TrySendError<Request<Body>>;

/// How often a connection may wake itself before others have their turn.
const TURNS: usize = 8;

/// A connection, and the way to put requests on it.
pub(super) struct Link {
    sender: SendRequest<Body>,
    connection: Connection<TokioIo<Stream>, Body>,
    /// Whether the connection has ended.
    over: bool,
    bell: Arc<Bell>,
    waker: Waker,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Link(..)")
    }
}

impl Link {
    /// Takes over a stream on which nothing was said.
    pub(super) async fn new(stream: Stream) -> hyper::Result<Box<Self>> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let bell = Arc::new(Bell { rung: AtomicBool::new(true), waits: Mutex::new(None) });
        let waker = Waker::from(Arc::clone(&bell));
        let mut link = Box::new(Self { sender, connection, over: false, bell, waker });
        // Only now does the connection say that it takes requests.
        link.is_usable();
        Ok(link)
    }

    /// Sends a request and waits for the head of its answer.
    pub(super) async fn exchange(&mut self, request: Request<Body>) -> Result<Response<Incoming>, Unsent> {
        let mut sending = pin!(self.sender.try_send_request(request));
        self.bell.ring();
        std::future::poll_fn(|cx| {
            drive(&mut self.connection, &mut self.over, &self.bell, &self.waker, cx, |cx| {
                sending.as_mut().poll(cx)
            })
        })
        .await
    }

    /// Polls something that this connection carries.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        part: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        drive(&mut self.connection, &mut self.over, &self.bell, &self.waker, cx, part)
    }

    /// Does what can be done without waiting and tells whether another request can be sent then.
    pub(super) fn is_usable(&mut self) -> bool {
        let cx = &mut Context::from_waker(Waker::noop());
        let pending: Poll<()> = self.poll(cx, |_| Poll::Pending);
        debug_assert!(pending.is_pending(), "nothing was waited for");
        !self.over && self.sender.is_ready()
    }
}

/// Polls something that a connection carries, and the connection whenever something has happened to it.
fn drive<T>(
    connection: &mut Connection<TokioIo<Stream>, Body>,
    over: &mut bool,
    bell: &Arc<Bell>,
    waker: &Waker,
    cx: &mut Context<'_>,
    mut part: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    // Only the connection can bring it on, and that is polled here.
    let nobody = &mut Context::from_waker(Waker::noop());
    for _ in 0..TURNS {
        if let Poll::Ready(output) = part(nobody) {
            return Poll::Ready(output);
        }
        if !bell.silence() {
            bell.ring_for(cx.waker());
            return Poll::Pending;
        }
        if !*over
            && let Poll::Ready(outcome) = Pin::new(&mut *connection).poll(&mut Context::from_waker(waker))
        {
            *over = true;
            if let Err(error) = outcome {
                tracing::debug!(%error, "a connection to the server ended");
            }
        }
    }
    // It has more to do, but others have their turn.
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Wakes who waits for a connection; while that one is at it anyway, it only remembers.
///
/// Nobody waits while `rung` is set: who polls has it set to `false` first and waits when there is no more to do.
#[derive(Debug)]
struct Bell {
    rung: AtomicBool,
    waits: Mutex<Option<Waker>>,
}

impl Bell {
    /// Tells whether it has rung since the last time.
    fn silence(&self) -> bool {
        self.rung.swap(false, Ordering::AcqRel)
    }

    fn has_rung(&self) -> bool {
        self.rung.load(Ordering::Acquire)
    }

    /// Remembers that there is something to do.
    fn ring(&self) {
        self.lock().take();
        self.rung.store(true, Ordering::Release);
    }

    /// Has a task woken by the next ring, or by one that was not heard.
    fn ring_for(&self, waker: &Waker) {
        let mut waits = self.lock();
        if self.has_rung() {
            drop(waits);
            waker.wake_by_ref();
        } else if !waits.as_ref().is_some_and(|waits| waits.will_wake(waker)) {
            *waits = Some(waker.clone());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Waker>> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let waker = {
            let mut waits = self.lock();
            self.rung.store(true, Ordering::Release);
            waits.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
