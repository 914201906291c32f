//! Moves bytes between a container and a host that it may reach.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    net::TcpStream,
    time::Instant,
};

use super::{
    Decision, Denial, Gate, Rule,
    hello::{self, Kind},
    policy::No,
    proxy,
};
use crate::permission::Host;

/// How long connecting to one address may take.
const CONNECT: Duration = Duration::from_secs(10);
/// A tunnel through which nothing went for so long is closed.
const IDLE: Duration = Duration::from_secs(15 * 60);
/// How long a client may take to read why its tunnel is closed.
const REFUSAL_LIMIT: Duration = Duration::from_secs(5);
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
            gate.bounds.report(&why);
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
    gate.bounds.report(&failure);
    Err(No::Failed(failure))
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let connecting = tokio::time::timeout(CONNECT, TcpStream::connect(address)).await;
    let stream = connecting.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    // Without it bytes are only late.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Joins a client to the host it asked for until either is done. A TLS handshake for another name, or a plain request,
/// ends it.
pub(super) async fn join(
    gate: &Gate,
    host: &Host,
    port: u16,
    client: impl AsyncRead + AsyncWrite + Unpin,
    server: TcpStream,
) -> io::Result<()> {
    let address = server.peer_addr()?;
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = server.into_split();
    let alive = Alive::new();
    let refusal = std::sync::OnceLock::new();
    let refused = tokio::sync::Notify::new();
    let out = async {
        let words = hello::first_words(&mut from_client, &mut to_server).await?;
        if let Some(denial) = wrong_name(gate, host, port, address, &words.kind) {
            gate.tell_denied(&denial);
            let _ = refusal.set(match words.kind {
                Kind::Http(_) => proxy::refusal_text(&denial).into_bytes(),
                _ => hello::ACCESS_DENIED.to_vec(),
            });
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
    tokio::select! {
        outcome = both => return outcome,
        () = alive.idle() => return Err(io::ErrorKind::TimedOut.into()),
        () = refused.notified() => {}
    }
    let refuse = async {
        to_client.write_all(refusal.get().map_or(&[], Vec::as_slice)).await?;
        to_client.shutdown().await
    };
    let refused = tokio::time::timeout(REFUSAL_LIMIT, refuse).await;
    refused.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Says why a handshake, or the first request, does not fit the connection, if so. What comes later is not looked at, as
/// nothing in TLS can be.
fn wrong_name(gate: &Gate, host: &Host, port: u16, address: SocketAddr, words: &Kind) -> Option<Denial> {
    // Whoever may reach an address may ask for anything there.
    let Host::Name(name) = host else {
        return (*words == Kind::Strange).then(|| Denial::new(host, Some(port), Rule::ServerNameMismatch));
    };
    let is_name = |asked: &String| asked.trim_end_matches('.').eq_ignore_ascii_case(name);
    let (says_nobody, fits) = match words {
        Kind::Other => return None,
        Kind::Tls(asked) => (asked.is_none(), asked.iter().all(is_name)),
        Kind::Http(asked) => (asked.is_empty(), asked.iter().all(is_name)),
        Kind::Strange => (false, false),
    };
    if says_nobody && !gate.policy.allows_address(address) {
        let address = address.ip().to_canonical();
        return Some(Denial::of_address(host, port, address, Rule::ServerNameMissing));
    }
    (!fits).then(|| Denial::new(host, Some(port), Rule::ServerNameMismatch))
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
#[derive(Debug)]
pub(super) struct Alive {
    since: Instant,
    millis: AtomicU64,
}

impl Alive {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), millis: AtomicU64::new(0) }
    }

    fn sign(&self) {
        let millis = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.millis.store(millis, Ordering::Relaxed);
    }

    /// Completes once there was no sign for as long as nothing may go through.
    pub(super) async fn idle(&self) {
        self.idle_for(IDLE).await;
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

/// A stream whose every byte is a sign.
#[derive(Debug)]
pub(super) struct Signing<S> {
    stream: S,
    alive: Arc<Alive>,
}

impl<S> Signing<S> {
    pub(super) fn new(stream: S, alive: Arc<Alive>) -> Self {
        Self { stream, alive }
    }

    fn signed<T>(&self, outcome: Poll<T>) -> Poll<T> {
        if outcome.is_ready() {
            self.alive.sign();
        }
        outcome
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Signing<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.signed(outcome)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Signing<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.signed(outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
#[path = "tunnel_tests.rs"]
mod tests;
