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
const INITIAL_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(1);
/// The log says so again after this.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Lets connections in.
#[derive(Debug)]
pub(super) struct Admission {
    listener: TcpListener,
    permits: Arc<Semaphore>,
    /// How many connections are whose; `None` when peers may have as many as there are.
    per_peer: Option<Arc<PeerConnections>>,
    /// Whether it was said that there is no more room.
    at_capacity: bool,
    /// The last pause, while connections cannot be accepted.
    backoff: Option<Duration>,
    /// When the next try is made.
    retry_at: Option<Instant>,
    /// When it was last said that connections cannot be accepted.
    error_logged_at: Option<Instant>,
    /// When it was last said that a peer has too many.
    peer_limit_logged_at: Option<Instant>,
}

/// The place of a connection, which is free again when it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    _permit: OwnedSemaphorePermit,
    share: Option<PeerPermit>,
}

impl ConnectionPermit {
    /// Who is charged for what is kept for the peer, where peers are told apart.
    pub(super) fn payer(&self) -> Option<Payer> {
        self.share.as_ref().map(|share| Payer::Peer(share.peer))
    }
}

/// How many connections each peer has.
#[derive(Debug, Default)]
struct PeerConnections(Mutex<HashMap<IpAddr, usize>>);

/// One connection of a peer.
#[derive(Debug)]
struct PeerPermit {
    peer: IpAddr,
    shares: Arc<PeerConnections>,
}

impl PeerConnections {
    /// Gives a peer another connection, unless it has as many already as are free for all others.
    fn acquire(self: &Arc<Self>, peer: IpAddr, free: usize) -> Option<PeerPermit> {
        let mut held = self.lock();
        let own = held.get(&peer).copied().unwrap_or_default();
        if own > free {
            return None;
        }
        held.insert(peer, own + 1);
        Some(PeerPermit { peer, shares: Arc::clone(self) })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PeerPermit {
    fn drop(&mut self) {
        let mut held = self.shares.lock();
        match held.get_mut(&self.peer) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(held.remove(&self.peer)),
        }
    }
}

/// Who is at the other end: of IPv6, where one machine has many addresses, the network.
fn peer_key(address: IpAddr) -> IpAddr {
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
        Self {
            listener,
            permits: room,
            per_peer: shares,
            at_capacity: false,
            backoff: None,
            retry_at: None,
            error_logged_at: None,
            peer_limit_logged_at: None,
        }
    }

    /// Waits for a connection. Can be waited for anew at any time.
    pub(super) async fn accept(&mut self) -> (TcpStream, ConnectionPermit) {
        loop {
            let place = self.acquire().await;
            if let Some(again) = self.retry_at {
                tokio::time::sleep_until(again).await;
                self.retry_at = None;
            }
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    self.backoff = None;
                    match self.acquire_for_peer(peer.ip()) {
                        Ok(share) => return (stream, ConnectionPermit { _permit: place, share }),
                        Err(PeerLimitReached) => drop(stream),
                    }
                }
                Err(error) if is_client_error(&error) => {
                    tracing::debug!(%error, "a client left before it was let in");
                }
                Err(error) => self.back_off(&error),
            }
        }
    }

    fn acquire_for_peer(&mut self, peer: IpAddr) -> Result<Option<PeerPermit>, PeerLimitReached> {
        let Some(shares) = self.per_peer.as_ref().filter(|_| !peer.to_canonical().is_loopback()) else {
            return Ok(None);
        };
        match shares.acquire(peer_key(peer), self.permits.available_permits()) {
            Some(share) => Ok(Some(share)),
            None => {
                if self.peer_limit_logged_at.is_none_or(|said| said.elapsed() > LOG_INTERVAL) {
                    self.peer_limit_logged_at = Some(Instant::now());
                    tracing::warn!(%peer, "a peer has so many connections that no more are taken from it");
                }
                Err(PeerLimitReached)
            }
        }
    }

    async fn acquire(&mut self) -> OwnedSemaphorePermit {
        if let Ok(place) = Arc::clone(&self.permits).try_acquire_owned() {
            self.at_capacity = false;
            return place;
        }
        if !self.at_capacity {
            self.at_capacity = true;
            tracing::warn!("there are as many connections as may be; others wait until one ends");
        }
        match Arc::clone(&self.permits).acquire_owned().await {
            Ok(place) => place,
            // Nobody closes it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Too many open files, or no memory: connections that end make room, so others may be let in yet.
    fn back_off(&mut self, error: &io::Error) {
        let now = Instant::now();
        // Each connection that ends lets one in, and then it is the same again.
        if self.error_logged_at.is_none_or(|said| now - said > LOG_INTERVAL) {
            self.error_logged_at = Some(now);
            tracing::warn!(%error, "connections cannot be accepted; trying until they can");
        }
        let pause = self.backoff.map_or(INITIAL_BACKOFF, |pause| (pause * 2).min(MAX_BACKOFF));
        self.backoff = Some(pause);
        self.retry_at = Some(now + pause);
    }
}

/// A peer has more connections than are left for all others.
struct PeerLimitReached;

/// Whether it concerns one connection only, and the next may be accepted at once.
fn is_client_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn connections_are_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut admission = Admission::new(listener, 2, true);
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(TcpStream::connect(address).await.expect("a connection"));
        }
        let (first, second) = (admission.accept().await, admission.accept().await);
        // Both others have been there for long: the kernel has answered them.
        for _ in 0..100 {
            assert!(admission.accept().now_or_never().is_none(), "a third one was let in");
            tokio::task::yield_now().await;
        }
        drop(first);
        let third = admission.accept().await;
        drop((second, third));
        drop(admission.accept().await);
    }

    #[test]
    fn one_or_many_peers_leave_permits_for_others() {
        let shares = Arc::new(PeerConnections::default());
        let most = 4096;
        let peer = |number: u32| peer_key(IpAddr::from(number.to_be_bytes()));
        let fill = |number: u32, held: &mut Vec<PeerPermit>| {
            let before = held.len();
            while let Some(share) = shares.acquire(peer(number), most - held.len() - 1) {
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
        let peer = |text: &str| peer_key(text.parse().expect("an address"));
        assert_eq!(peer("2001:db8:1:2::1"), peer("2001:db8:1:2:ffff::9"));
        assert_ne!(peer("2001:db8:1:2::1"), peer("2001:db8:1:3::1"));
        assert_eq!(peer("::ffff:192.0.2.1"), peer("192.0.2.1"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
    }
}
