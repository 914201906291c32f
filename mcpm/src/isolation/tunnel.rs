//! Moves bytes between a container and a host that it may reach.

use std::{
    io,
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{
    Decision, Denial, Gate, Rule,
    hello::{self, Kind},
    policy::No,
};
use crate::permission::Host;

/// How long connecting to one address may take.
const CONNECT: Duration = Duration::from_secs(10);
/// A tunnel through which nothing went for so long is closed.
const IDLE: Duration = Duration::from_secs(15 * 60);
/// Bytes that are read at once.
const PIECE: usize = 32 * 1024;

/// Connects to a host, if that is allowed, and tells what was decided.
pub(super) async fn dial(gate: &Gate, host: &Host, port: u16) -> Result<TcpStream, No> {
    let addresses = match gate.policy.addresses(host, port).await {
        Ok(addresses) => addresses,
        Err(No::Denied(denial)) => {
            gate.tell_denied(&denial);
            return Err(No::Denied(denial));
        }
        Err(No::Failed(why)) => {
            tracing::info!("{why}");
            return Err(No::Failed(why));
        }
    };
    let mut failure = String::new();
    for address in addresses {
        match connect(address).await {
            Ok(stream) => {
                (gate.tell)(Decision::Allowed { host: host.clone(), port, address: address.ip() });
                return Ok(stream);
            }
            Err(error) => failure = format!("`{host}:{port}` cannot be reached at {address}: {error}"),
        }
    }
    tracing::info!("{failure}");
    Err(No::Failed(failure))
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let connecting = tokio::time::timeout(CONNECT, TcpStream::connect(address)).await;
    let stream = connecting.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    // Without it bytes are only late.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Joins a client to the host it asked for until either is done. A TLS handshake for another name ends it.
pub(super) async fn join(
    gate: &Gate,
    host: &Host,
    port: u16,
    client: impl AsyncRead + AsyncWrite + Unpin,
    server: TcpStream,
) -> io::Result<()> {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = server.into_split();
    let alive = Alive::new();
    let refused = tokio::sync::Notify::new();
    let out = async {
        let words = hello::first_words(&mut from_client).await?;
        if let Some(denial) = wrong_name(host, port, &words.kind) {
            gate.tell_denied(&denial);
            refused.notify_one();
            // Whoever hears of it ends both ways.
            return std::future::pending().await;
        }
        to_server.write_all(&words.bytes).await?;
        alive.sign();
        copy(&mut from_client, &mut to_server, &alive).await
    };
    let back = copy(&mut from_server, &mut to_client, &alive);
    let both = async { tokio::try_join!(out, back).map(drop) };
    let denied = tokio::select! {
        outcome = both => return outcome,
        () = alive.idle_for(IDLE) => return Err(io::ErrorKind::TimedOut.into()),
        () = refused.notified() => true,
    };
    if denied {
        to_client.write_all(&hello::ACCESS_DENIED).await?;
        to_client.shutdown().await?;
    }
    Ok(())
}

/// Says why a handshake does not fit the connection, if so.
fn wrong_name(host: &Host, port: u16, words: &Kind) -> Option<Denial> {
    let wrong = match (words, host) {
        (Kind::Other, _) | (Kind::Tls(None), _) => false,
        (Kind::Strange, _) => true,
        // Whoever may reach an address may ask for anything there.
        (Kind::Tls(Some(_)), Host::Address(_)) => false,
        (Kind::Tls(Some(asked)), Host::Name(name)) => !asked.trim_end_matches('.').eq_ignore_ascii_case(name),
    };
    wrong.then(|| Denial::new(host, Some(port), Rule::ServerNameMismatch))
}

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    alive: &Alive,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let count = from.read(&mut piece).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&piece[..count]).await?;
        alive.sign();
    }
}

/// When something last went through.
struct Alive {
    since: Instant,
    millis: AtomicU64,
}

impl Alive {
    fn new() -> Self {
        Self { since: Instant::now(), millis: AtomicU64::new(0) }
    }

    fn sign(&self) {
        let millis = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.millis.store(millis, Ordering::Relaxed);
    }

    /// Completes once there was no sign for that long.
    async fn idle_for(&self, limit: Duration) {
        loop {
            let last = self.since + Duration::from_millis(self.millis.load(Ordering::Relaxed));
            let left = limit.saturating_sub(last.elapsed());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}
