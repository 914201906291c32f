//! Connects to allowed hosts, and copies bytes between them and a container. A TLS handshake or plain HTTP request for
//! another name ends the connection.

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
    EgressDecision, EgressDenial, Rule,
    denial_response::http_denial_response,
    policy::EgressError,
    sniff::{self, SniffedProtocol},
    state::IsolationState,
};
use crate::permission::Host;

/// Timeout of connecting to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Idle time after which a tunnel is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Timeout of sending a denial to the client.
const DENIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that are read at once.
const COPY_BUFFER_BYTES: usize = 32 * 1024;

/// Connects to a host, if the policy allows it, and reports the decision.
pub(super) async fn dial(state: &IsolationState, host: &Host, port: u16) -> Result<TcpStream, EgressError> {
    if let Some(connecting) = state.upstream.as_ref().and_then(|upstream| upstream(host, port)) {
        return dial_upstream(state, host, port, connecting).await;
    }
    let addresses = match state.policy.allowed_addresses(host, port).await {
        Ok(addresses) => addresses,
        Err(EgressError::Denied(denial)) => {
            state.notify_denied(&denial);
            return Err(EgressError::Denied(denial));
        }
        Err(EgressError::Failed(why)) => {
            state.limits.log_failure(&why);
            return Err(EgressError::Failed(why));
        }
    };
    let mut failure = String::new();
    for address in addresses {
        match connect(address).await {
            Ok(stream) => {
                (state.on_decision)(EgressDecision::Allowed {
                    host: host.clone(),
                    port,
                    address: address.ip(),
                });
                return Ok(stream);
            }
            Err(error) => failure = format!("`{host}:{port}` cannot be reached at {address}: {error}"),
        }
    }
    state.limits.log_failure(&failure);
    Err(EgressError::Failed(failure))
}

/// Connects to a host through a proxy, which resolves its name.
async fn dial_upstream(
    state: &IsolationState,
    host: &Host,
    port: u16,
    connecting: impl Future<Output = io::Result<TcpStream>>,
) -> Result<TcpStream, EgressError> {
    if let Some(denial) = state.policy.denial_for_attempt(host, Some(port)) {
        state.notify_denied(&denial);
        return Err(denial.into());
    }
    let connected = connecting.await.and_then(|stream| Ok((stream.peer_addr()?.ip(), stream)));
    match connected {
        Ok((address, stream)) => {
            (state.on_decision)(EgressDecision::Allowed { host: host.clone(), port, address });
            Ok(stream)
        }
        Err(error) => {
            let failure = format!("`{host}:{port}` cannot be reached: {error}");
            state.limits.log_failure(&failure);
            Err(EgressError::Failed(failure))
        }
    }
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
    let stream = connecting.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    // Without it, bytes are only delayed.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Copies bytes between a client and its host until either closes the connection. A TLS handshake or plain request
/// for another name ends it.
pub(super) async fn splice(
    state: &IsolationState,
    host: &Host,
    port: u16,
    client: impl AsyncRead + AsyncWrite + Unpin,
    server: TcpStream,
) -> io::Result<()> {
    let address = server.peer_addr()?;
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = server.into_split();
    let activity = ActivityTimer::new();
    let response = std::sync::OnceLock::new();
    let denied = tokio::sync::Notify::new();
    let out = async {
        let sniffed = sniff::sniff(&mut from_client, &mut to_server).await?;
        if let Some(denial) = server_name_denial(state, host, port, address, &sniffed.kind) {
            state.notify_denied(&denial);
            let _ = response.set(match sniffed.kind {
                SniffedProtocol::Http(_) => http_denial_response(&denial).into_bytes(),
                _ => sniff::TLS_ACCESS_DENIED_ALERT.to_vec(),
            });
            denied.notify_one();
            // The notification ends both directions.
            return std::future::pending().await;
        }
        to_server.write_all(&sniffed.bytes).await?;
        activity.touch();
        copy(&mut from_client, &mut to_server, &activity).await
    };
    let back = copy(&mut from_server, &mut to_client, &activity);
    let both = async { tokio::try_join!(out, back).map(drop) };
    tokio::select! {
        outcome = both => return outcome,
        () = activity.idle() => return Err(io::ErrorKind::TimedOut.into()),
        () = denied.notified() => {}
    }
    let respond = async {
        to_client.write_all(response.get().map_or(&[], Vec::as_slice)).await?;
        to_client.shutdown().await
    };
    let responded = tokio::time::timeout(DENIAL_TIMEOUT, respond).await;
    responded.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Returns the reason if a handshake, or the first request, does not match the connection. Later data is not checked,
/// since that is impossible within TLS.
fn server_name_denial(
    state: &IsolationState,
    host: &Host,
    port: u16,
    address: SocketAddr,
    protocol: &SniffedProtocol,
) -> Option<EgressDenial> {
    // A client that is allowed to connect to an address may use any name with it.
    let Host::Name(name) = host else {
        return (*protocol == SniffedProtocol::Malformed)
            .then(|| EgressDenial::new(host, Some(port), Rule::ServerNameMismatch));
    };
    let is_name = |named: &String| named.trim_end_matches('.').eq_ignore_ascii_case(name);
    let (is_nameless, fits) = match protocol {
        SniffedProtocol::Other => return None,
        SniffedProtocol::Tls(named) => (named.is_none(), named.iter().all(is_name)),
        SniffedProtocol::Http(named) => (named.is_empty(), named.iter().all(is_name)),
        SniffedProtocol::Malformed => (false, false),
    };
    if is_nameless && !state.policy.allows_address(address) {
        let address = address.ip().to_canonical();
        return Some(EgressDenial::for_address(host, port, address, Rule::ServerNameMissing));
    }
    (!fits).then(|| EgressDenial::new(host, Some(port), Rule::ServerNameMismatch))
}

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    activity: &ActivityTimer,
) -> io::Result<()> {
    let mut chunk = vec![0; COPY_BUFFER_BYTES];
    loop {
        let count = from.read(&mut chunk).await?;
        if count == 0 {
            return to.shutdown().await;
        }
        to.write_all(&chunk[..count]).await?;
        activity.touch();
    }
}

/// The time of the last activity.
#[derive(Debug)]
pub(super) struct ActivityTimer {
    since: Instant,
    millis: AtomicU64,
}

impl ActivityTimer {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), millis: AtomicU64::new(0) }
    }

    fn touch(&self) {
        let millis = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.millis.store(millis, Ordering::Relaxed);
    }

    /// Completes after [`IDLE_TIMEOUT`] without activity.
    pub(super) async fn idle(&self) {
        self.idle_for(IDLE_TIMEOUT).await;
    }

    /// Completes after that time without activity.
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

/// A stream that reports its activity.
#[derive(Debug)]
pub(super) struct ActivityStream<S> {
    stream: S,
    activity: Arc<ActivityTimer>,
}

impl<S> ActivityStream<S> {
    pub(super) fn new(stream: S, activity: Arc<ActivityTimer>) -> Self {
        Self { stream, activity }
    }

    fn touch_if_ready<T>(&self, outcome: Poll<T>) -> Poll<T> {
        if outcome.is_ready() {
            self.activity.touch();
        }
        outcome
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ActivityStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.touch_if_ready(outcome)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ActivityStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.touch_if_ready(outcome)
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
