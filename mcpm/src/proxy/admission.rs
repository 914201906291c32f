//! How connections are let in: so many at a time and no more, and with pauses when the system is out of means.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

/// First and longest pause after a failure that another try at once would only repeat.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The log says so again after this.
const SAID_FOR: Duration = Duration::from_secs(60);

/// Lets connections in.
#[derive(Debug)]
pub(super) struct Admission {
    listener: TcpListener,
    room: Arc<Semaphore>,
    /// Whether it was said that there is no more room.
    full: bool,
    /// The last pause, while connections cannot be accepted.
    pause: Option<Duration>,
    /// When the next try is made.
    again: Option<Instant>,
    /// When it was last said that connections cannot be accepted.
    said: Option<Instant>,
}

impl Admission {
    /// Lets in at most `most` at a time; the others wait, in the order in which they came.
    pub(super) fn new(listener: TcpListener, most: usize) -> Self {
        let room = Arc::new(Semaphore::new(most));
        Self { listener, room, full: false, pause: None, again: None, said: None }
    }

    /// Waits for a connection. Its place is free again when the permit is dropped. Can be waited for anew at any time.
    pub(super) async fn next(&mut self) -> (TcpStream, OwnedSemaphorePermit) {
        loop {
            let place = self.place().await;
            if let Some(again) = self.again {
                tokio::time::sleep_until(again).await;
                self.again = None;
            }
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    self.pause = None;
                    return (stream, place);
                }
                Err(error) if is_of_client(&error) => {
                    tracing::debug!(%error, "a client left before it was let in");
                }
                Err(error) => self.pause(&error),
            }
        }
    }

    async fn place(&mut self) -> OwnedSemaphorePermit {
        if let Ok(place) = Arc::clone(&self.room).try_acquire_owned() {
            self.full = false;
            return place;
        }
        if !self.full {
            self.full = true;
            tracing::warn!("there are as many connections as may be; others wait until one ends");
        }
        match Arc::clone(&self.room).acquire_owned().await {
            Ok(place) => place,
            // Nobody closes it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Too many open files, or no memory: connections that end make room, so others may be let in yet.
    fn pause(&mut self, error: &io::Error) {
        let now = Instant::now();
        // Each connection that ends lets one in, and then it is the same again.
        if self.said.is_none_or(|said| now - said > SAID_FOR) {
            self.said = Some(now);
            tracing::warn!(%error, "connections cannot be accepted; trying until they can");
        }
        let pause = self.pause.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
        self.pause = Some(pause);
        self.again = Some(now + pause);
    }
}

/// Whether it concerns one connection only, and the next may be accepted at once.
fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn no_more_are_let_in_than_there_is_room_for() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut admission = Admission::new(listener, 2);
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(TcpStream::connect(address).await.expect("a connection"));
        }
        let (first, second) = (admission.next().await, admission.next().await);
        // Both others have been there for long: the kernel has answered them.
        for _ in 0..100 {
            assert!(admission.next().now_or_never().is_none(), "a third one was let in");
            tokio::task::yield_now().await;
        }
        drop(first);
        let third = admission.next().await;
        drop((second, third));
        drop(admission.next().await);
    }
}
