//! Listens for connections and sends their requests through the layers.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpSocket, lookup_host},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{admission::Admission, observe::Peer, port_holder, stack::Stack, write_timeout::WriteTimeout};
use crate::{
    Error, ErrorKind, Result,
    memory::Payer,
    proxy::body::{Body, ClientBody},
    timers::CoarseTimers,
};

/// Timeout for a request head, and for an idle connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long pending responses may take to complete when the proxy stops.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
const BACKLOG: u32 = 1024;
/// Maximum number of connections.
const MAX_CONNECTIONS: usize = 2048;
/// Maximum buffer size of a connection in bytes, for a request head and for a response that waits to be written.
const MAX_CONNECTION_BUFFER_BYTES: usize = 72 << 10;

/// Binds a host and a port; port 0 takes a free one.
///
/// # Errors
/// `PortTaken` names the process that uses the port; `InvalidOption` for a name that does not resolve to this
/// machine.
pub(crate) async fn bind(host: &str, port: u16) -> Result<TcpListener> {
    let addresses: Vec<SocketAddr> = match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(ip) => vec![SocketAddr::new(ip, port)],
        Err(_) => lookup_host((host, port))
            .await
            .map_err(|error| {
                Error::new(ErrorKind::InvalidOption, format!("cannot resolve `{host}`")).source(error)
            })?
            .collect(),
    };
    let mut failure = None;
    for address in addresses {
        match listen(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = Some((address, error)),
        }
    }
    let Some((address, error)) = failure else {
        return Err(Error::new(ErrorKind::InvalidOption, format!("`{host}` does not resolve to an address")));
    };
    Err(match error.kind() {
        io::ErrorKind::AddrInUse => {
            let holder = port_holder::find(address).map(|holder| format!(" by {holder}")).unwrap_or_default();
            Error::new(ErrorKind::PortTaken, format!("port {port} is in use{holder}"))
        }
        io::ErrorKind::AddrNotAvailable => {
            Error::new(ErrorKind::InvalidOption, format!("`{host}` is not an address of this machine"))
                .source(error)
        }
        io::ErrorKind::PermissionDenied => {
            Error::new(ErrorKind::InvalidOption, format!("no permission to listen on port {port}"))
                .source(error)
        }
        _ => Error::new(ErrorKind::Io, format!("cannot listen on `{address}`")).source(error),
    })
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections of a proxy that has just ended must not block its port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves the clients of a port, if there is one, until `stop`, then waits briefly for pending responses.
pub(crate) async fn serve(
    port: Option<TcpListener>,
    stack: Arc<Stack>,
    behind_proxy: bool,
    stop: CancellationToken,
) {
    // Behind a reverse proxy, all connections have the same peer, so there is no limit per peer.
    let mut admission = port.map(|port| Admission::new(port, MAX_CONNECTIONS, !behind_proxy));
    let mut clients = JoinSet::new();
    let mut http = http1::Builder::new();
    let alarms = CoarseTimers::default();
    http.timer(alarms.clone()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_CONNECTION_BUFFER_BYTES);
    loop {
        tokio::select! {
            Some((stream, permit)) = optional(admission.as_mut().map(Admission::accept)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "cannot set TCP_NODELAY");
                }
                let peer = if stack.needs_peer() { stream.peer_addr().ok().map(Peer::Address) } else { None };
                let client = Client { peer, payer: permit.payer() };
                let served = serve_connection(&http, alarms.clone(), stream, client, Arc::clone(&stack), stop.clone());
                clients.spawn(async move {
                    served.await;
                    drop(permit);
                });
            }
            Some(_) = clients.join_next(), if !clients.is_empty() => {}
            () = stop.cancelled() => break,
        }
    }
    drop(admission);
    let drained =
        tokio::time::timeout(DRAIN_TIMEOUT, async { while clients.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        clients.shutdown().await;
    }
}

/// Waits for a future, if there is one.
async fn optional<T>(future: Option<impl Future<Output = T>>) -> Option<T> {
    Some(future?.await)
}

/// The client of a connection.
#[derive(Debug)]
struct Client {
    /// `None` if requests are not observed.
    peer: Option<Peer>,
    payer: Option<Payer>,
}

/// Serves one connection.
fn serve_connection<S: AsyncRead + AsyncWrite + Unpin>(
    http: &http1::Builder,
    alarms: CoarseTimers,
    stream: S,
    Client { peer, payer }: Client,
    stack: Arc<Stack>,
    stop: CancellationToken,
) -> impl Future<Output = ()> + use<S> {
    let of_bodies = alarms.clone();
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let stack = Arc::clone(&stack);
        let mut request = request.map(|body| Body::Client(ClientBody::new(body, of_bodies.clone())));
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer);
        }
        if let Some(payer) = &payer {
            request.extensions_mut().insert(payer.clone());
        }
        async move { Ok::<_, Infallible>(stack.handle(request).await) }
    });
    let connection = http.serve_connection(TokioIo::new(WriteTimeout::new(stream, alarms)), service);
    async move {
        let mut connection = std::pin::pin!(connection);
        let outcome = tokio::select! {
            outcome = connection.as_mut() => outcome,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = outcome {
            tracing::debug!(%error, "the connection of a client failed");
        }
    }
}
