//! Accepts client connections: limits their number in total and, for peers on other machines, per peer, and backs off
//! when the system is out of resources.

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

/// Initial and maximum backoff after an error that an immediate retry would repeat.
const INITIAL_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(1);
/// Minimum interval between log lines of the same kind.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Accepts connections within the limits.
#[derive(Debug)]
pub(super) struct Admission {
    listener: TcpListener,
    permits: Arc<Semaphore>,
    /// Connections per peer; `None` if there is no limit per peer.
    per_peer: Option<Arc<PeerConnections>>,
    /// Whether reaching the limit has been logged.
    at_capacity: bool,
    /// The current backoff, while connections cannot be accepted.
    backoff: Option<Duration>,
    /// When to try again.
    retry_at: Option<Instant>,
    /// When an error in accepting was last logged.
    error_logged_at: Option<Instant>,
    /// When a peer that reached its limit was last logged.
    peer_limit_logged_at: Option<Instant>,
}

/// A permit for a connection, which is released when it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    _permit: OwnedSemaphorePermit,
    share: Option<PeerPermit>,
}

impl ConnectionPermit {
    /// The account holder for memory held for the peer, if peers are distinguished.
    pub(super) fn payer(&self) -> Option<Payer> {
        self.share.as_ref().map(|share| Payer::Peer(share.peer))
    }
}

/// The number of connections of each peer.
#[derive(Debug, Default)]
struct PeerConnections(Mutex<HashMap<IpAddr, usize>>);

/// A connection of a peer.
#[derive(Debug)]
struct PeerPermit {
    peer: IpAddr,
    shares: Arc<PeerConnections>,
}

impl PeerConnections {
    /// Adds a connection of a peer, unless the peer has more connections already than are `free` for all others.
    fn acquire(self: &Arc<Self>, peer: IpAddr, free: usize) -> Option<PeerPermit> {
        let mut counts = self.lock();
        let own = counts.get(&peer).copied().unwrap_or_default();
        if own > free {
            return None;
        }
        counts.insert(peer, own + 1);
        Some(PeerPermit { peer, shares: Arc::clone(self) })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        // No code panics while it holds the lock, so the state of a poisoned lock is consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PeerPermit {
    fn drop(&mut self) {
        let mut counts = self.shares.lock();
        match counts.get_mut(&self.peer) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(counts.remove(&self.peer)),
        }
    }
}

/// The key of a peer: its address, or for IPv6, where one machine has many addresses, its /64 network.
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
    /// Accepts at most `max_connections` at a time; further ones wait in order of arrival.
    ///
    /// With `shares`, a peer on another machine can have at most as many connections as are then free for all others.
    /// So a single peer can have at most half of all connections, and never takes the last free one.
    pub(super) fn new(listener: TcpListener, max_connections: usize, shares: bool) -> Self {
        let room = Arc::new(Semaphore::new(max_connections));
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

    /// Waits for a connection. Cancel-safe.
    pub(super) async fn accept(&mut self) -> (TcpStream, ConnectionPermit) {
        loop {
            let permit = self.acquire().await;
            if let Some(again) = self.retry_at {
                tokio::time::sleep_until(again).await;
                self.retry_at = None;
            }
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    self.backoff = None;
                    match self.acquire_for_peer(peer.ip()) {
                        Ok(share) => return (stream, ConnectionPermit { _permit: permit, share }),
                        Err(PeerLimitReached) => drop(stream),
                    }
                }
                Err(error) if is_client_error(&error) => {
                    tracing::debug!(%error, "a client disconnected before its connection was accepted");
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
                if self.peer_limit_logged_at.is_none_or(|logged_at| logged_at.elapsed() > LOG_INTERVAL) {
                    self.peer_limit_logged_at = Some(Instant::now());
                    tracing::warn!(%peer, "a peer has reached its connection limit; further connections are closed");
                }
                Err(PeerLimitReached)
            }
        }
    }

    async fn acquire(&mut self) -> OwnedSemaphorePermit {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            self.at_capacity = false;
            return permit;
        }
        if !self.at_capacity {
            self.at_capacity = true;
            tracing::warn!("the connection limit is reached; further connections wait");
        }
        match Arc::clone(&self.permits).acquire_owned().await {
            Ok(permit) => permit,
            // The semaphore is never closed.
            Err(_) => std::future::pending().await,
        }
    }

    /// Delays the next attempt after an error such as too many open files or no memory: other connections may have
    /// ended by then.
    fn back_off(&mut self, error: &io::Error) {
        let now = Instant::now();
        // Each connection that ends makes room for one more, after which the same error occurs again.
        if self.error_logged_at.is_none_or(|logged_at| now - logged_at > LOG_INTERVAL) {
            self.error_logged_at = Some(now);
            tracing::warn!(%error, "cannot accept connections; retrying");
        }
        let pause = self.backoff.map_or(INITIAL_BACKOFF, |pause| (pause * 2).min(MAX_BACKOFF));
        self.backoff = Some(pause);
        self.retry_at = Some(now + pause);
    }
}

/// A peer has reached its limit of connections.
struct PeerLimitReached;

/// Whether an error concerns only one connection, so that the next can be accepted immediately.
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
        // The kernel has already accepted the two remaining connections.
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
