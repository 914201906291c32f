//! How connections are let in: so many at a time and no more, with pauses when the system is out of means, and so that
//! no single peer can keep all others out.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use crate::memory::Payer;

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
    /// How many connections are whose; `None` when peers may have as many as there are.
    shares: Option<Arc<Shares>>,
    /// Whether it was said that there is no more room.
    full: bool,
    /// The last pause, while connections cannot be accepted.
    pause: Option<Duration>,
    /// When the next try is made.
    again: Option<Instant>,
    /// When it was last said that connections cannot be accepted.
    said: Option<Instant>,
    /// When it was last said that a peer has too many.
    refused: Option<Instant>,
}

/// The place of a connection, which is free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _room: OwnedSemaphorePermit,
    share: Option<Share>,
}

impl Place {
    /// Who is charged for what is kept for the peer, where peers are told apart.
    pub(super) fn payer(&self) -> Option<Payer> {
        self.share.as_ref().map(|share| Payer::Peer(share.peer))
    }
}

/// How many connections each peer has.
#[derive(Debug, Default)]
struct Shares(Mutex<HashMap<IpAddr, usize>>);

/// One connection of a peer.
#[derive(Debug)]
struct Share {
    peer: IpAddr,
    shares: Arc<Shares>,
}

impl Shares {
    /// Gives a peer another connection, unless it has as many already as are free for all others.
    fn take(self: &Arc<Self>, peer: IpAddr, free: usize) -> Option<Share> {
        let mut held = self.lock();
        let own = held.get(&peer).copied().unwrap_or_default();
        if own > free {
            return None;
        }
        held.insert(peer, own + 1);
        Some(Share { peer, shares: Arc::clone(self) })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.shares.lock();
        match held.get_mut(&self.peer) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(held.remove(&self.peer)),
        }
    }
}

/// Who is at the other end: of IPv6, where one machine has many addresses, the network.
fn peer_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            Ipv6Addr::from(network).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

impl Admission {
    /// Lets in at most `most` at a time; the others wait, in the order in which they came.
    ///
    /// With `shares`, a peer of another machine has at most as many as are free then for all others: alone half of
    /// them, and never the last.
    pub(super) fn new(listener: TcpListener, most: usize, shares: bool) -> Self {
        let room = Arc::new(Semaphore::new(most));
        let shares = shares.then(Arc::default);
        Self { listener, room, shares, full: false, pause: None, again: None, said: None, refused: None }
    }

    /// Waits for a connection. Can be waited for anew at any time.
    pub(super) async fn next(&mut self) -> (TcpStream, Place) {
        loop {
            let place = self.place().await;
            if let Some(again) = self.again {
                tokio::time::sleep_until(again).await;
                self.again = None;
            }
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    self.pause = None;
                    match self.share(peer.ip()) {
                        Ok(share) => return (stream, Place { _room: place, share }),
                        Err(TooMany) => drop(stream),
                    }
                }
                Err(error) if is_of_client(&error) => {
                    tracing::debug!(%error, "a client left before it was let in");
                }
                Err(error) => self.pause(&error),
            }
        }
    }

    fn share(&mut self, peer: IpAddr) -> Result<Option<Share>, TooMany> {
        let Some(shares) = self.shares.as_ref().filter(|_| !peer.to_canonical().is_loopback()) else {
            return Ok(None);
        };
        match shares.take(peer_of(peer), self.room.available_permits()) {
            Some(share) => Ok(Some(share)),
            None => {
                if self.refused.is_none_or(|said| said.elapsed() > SAID_FOR) {
                    self.refused = Some(Instant::now());
                    tracing::warn!(%peer, "a peer has so many connections that no more are taken from it");
                }
                Err(TooMany)
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

/// A peer has more connections than are left for all others.
struct TooMany;

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
        let mut admission = Admission::new(listener, 2, true);
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

    #[test]
    fn one_peer_leaves_room_for_others_and_so_do_many() {
        let shares = Arc::new(Shares::default());
        let most = 4096;
        let peer = |number: u32| peer_of(IpAddr::from(number.to_be_bytes()));
        let fill = |number: u32, held: &mut Vec<Share>| {
            let before = held.len();
            while let Some(share) = shares.take(peer(number), most - held.len() - 1) {
                held.push(share);
            }
            held.len() - before
        };
        let mut held = Vec::new();
        assert_eq!(fill(1, &mut held), most / 2);
        for number in 2..8 {
            assert!(fill(number, &mut held) > 0, "{number}");
            assert!(held.len() < most);
        }
        held.clear();
        assert!(shares.lock().is_empty());
    }

    #[test]
    fn all_addresses_of_a_network_are_one_peer() {
        let peer = |text: &str| peer_of(text.parse().expect("an address"));
        assert_eq!(peer("2001:db8:1:2::1"), peer("2001:db8:1:2:ffff::9"));
        assert_ne!(peer("2001:db8:1:2::1"), peer("2001:db8:1:3::1"));
        assert_eq!(peer("::ffff:192.0.2.1"), peer("192.0.2.1"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
    }
}
