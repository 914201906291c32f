//! The client side of a forwarded request: one server, a few kept connections.
//!
//! A request goes out on a connection of its own while it lasts; a connection that gets free is kept for the
//! next for a short time. A request is never sent twice: only one that hyper hands back unsent is tried on
//! another connection (RFC 9110 section 9.2.2 forbids more for a POST).

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::tls;
use crate::{Error, ErrorKind, Result, proxy::body::Body};

/// A kept connection is not used again after this: common servers close theirs after 5 s of silence.
const KEPT_FOR: Duration = Duration::from_secs(4);
/// Most connections kept.
const KEPT: usize = 256;
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// Host name or address, without brackets.
    pub(crate) host: String,
    /// TCP port.
    pub(crate) port: u16,
    /// Whether TLS is spoken.
    pub(crate) tls: bool,
}

/// Sends requests to one server.
pub(crate) struct Client {
    address: Address,
    kept: Arc<Mutex<Vec<Kept>>>,
    tls: OnceLock<TlsConnector>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.address)
    }
}

#[derive(Debug)]
struct Kept {
    connection: http1::SendRequest<Body>,
    since: Instant,
}

impl Client {
    pub(crate) fn new(address: Address) -> Self {
        Self { address, kept: Arc::default(), tls: OnceLock::new() }
    }

    /// Sends a request whose target is in origin form and returns the head of the answer.
    ///
    /// # Errors
    /// `Upstream` when the server cannot be reached or breaks off.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Result<Response<Received>> {
        while let Some(mut connection) = self.take() {
            if connection.ready().await.is_err() {
                continue;
            }
            match connection.try_send_request(request).await {
                Ok(response) => return Ok(self.received(response, connection)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(self.broken(error.into_error())),
                },
            }
        }
        let mut connection = self.connect().await?;
        match connection.send_request(request).await {
            Ok(response) => Ok(self.received(response, connection)),
            Err(error) => Err(self.broken(error)),
        }
    }

    /// Tells whether the server takes connections.
    pub(crate) async fn reach(&self) -> Result<()> {
        self.dial().await.map(drop)
    }

    fn received(
        &self,
        response: Response<Incoming>,
        connection: http1::SendRequest<Body>,
    ) -> Response<Received> {
        response.map(|body| Received { body, connection: Some(connection), kept: Arc::clone(&self.kept) })
    }

    fn take(&self) -> Option<http1::SendRequest<Body>> {
        let mut kept = lock(&self.kept);
        while let Some(candidate) = kept.pop() {
            if candidate.since.elapsed() > KEPT_FOR {
                // Those below are older still.
                kept.clear();
                return None;
            }
            if !candidate.connection.is_closed() {
                return Some(candidate.connection);
            }
        }
        None
    }

    async fn connect(&self) -> Result<http1::SendRequest<Body>> {
        let stream = self.dial().await?;
        if !self.address.tls {
            return self.shake_hands(TokioIo::new(stream)).await;
        }
        let tls = match self.tls.get() {
            Some(tls) => tls,
            None => {
                let tls = tls::connector().map_err(|error| self.unreachable(error))?;
                self.tls.get_or_init(|| tls)
            }
        };
        let stream = tls::connect(tls, &self.address.host, stream).await;
        self.shake_hands(TokioIo::new(stream.map_err(|error| self.unreachable(error))?)).await
    }

    async fn shake_hands<S>(&self, stream: S) -> Result<http1::SendRequest<Body>>
    where
        S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(stream).await.map_err(|error| self.broken(error))?;
        // The task ends with the connection, which ends when its sender is dropped.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the server ended");
            }
        });
        Ok(sender)
    }

    async fn dial(&self) -> Result<TcpStream> {
        let connecting = async {
            match self.address.host.parse() {
                Ok(ip) => TcpStream::connect(SocketAddr::new(ip, self.address.port)).await,
                Err(_) => TcpStream::connect((self.address.host.as_str(), self.address.port)).await,
            }
        };
        let stream = tokio::time::timeout(CONNECT_TIMEOUT, connecting)
            .await
            .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
            .map_err(|error| self.unreachable(error))?;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot turn off delays on a connection");
        }
        Ok(stream)
    }

    fn unreachable(&self, error: std::io::Error) -> Error {
        Error::new(ErrorKind::Upstream, format!("cannot reach the server at `{}`", self.address))
            .source(error)
    }

    fn broken(&self, error: hyper::Error) -> Error {
        Error::new(ErrorKind::Upstream, format!("the server at `{}` broke off", self.address)).source(error)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The body of an answer; gives its connection back once it was read to the end.
#[derive(Debug)]
pub(crate) struct Received {
    body: Incoming,
    connection: Option<http1::SendRequest<Body>>,
    kept: Arc<Mutex<Vec<Kept>>>,
}

impl Received {
    fn keep_connection(&mut self) {
        if let Some(connection) = self.connection.take().filter(|connection| !connection.is_closed()) {
            let mut kept = lock(&self.kept);
            if kept.len() < KEPT {
                kept.push(Kept { connection, since: Instant::now() });
            }
        }
    }
}

impl HttpBody for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let over = match &polled {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(_))) => self.body.is_end_stream(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => false,
        };
        if over {
            self.keep_connection();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        // A body that was empty from the start is never polled.
        if self.body.is_end_stream() {
            self.keep_connection();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
