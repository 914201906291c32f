//! The client side of a forwarded request: one server, a few kept connections.
//!
//! A request goes out on a connection of its own while it lasts; a connection that gets free is kept for the
//! next for a short time. When that one turns out to be closed, a request of which nothing was sent is tried on another
//! connection, and so is one without a body whose method is idempotent (RFC 9110 section 9.2.2 forbids more).
//!
//! HTTP/1.1 is written and read here, since this is most of what a forwarded call costs (decision 0024).

mod connection;
mod error;
mod framing;
mod head;
mod pool;
mod response_body;
mod stream;
mod upload;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use http::{Request, Response};
use tokio::net::{TcpStream, UnixStream};

pub(crate) use {error::ConnectionError, head::RequestHead, response_body::ResponseBody};

use connection::{HttpConnection, SendError};
use head::ResponseHead;
use pool::ConnectionPool;
use stream::Stream;

use super::{
    body::Body,
    tls::{self, TrustStore},
};
use crate::{Error, ErrorKind, Result};

/// How long connecting may take, with the handshake of TLS.
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

/// Connects to a server that has no address on the network.
#[async_trait]
pub(crate) trait Dial: Send + Sync + std::fmt::Debug {
    /// Opens one connection.
    async fn dial(&self) -> io::Result<UnixStream>;
}

/// Sends requests to one server.
pub(crate) struct Http1Client {
    address: Address,
    /// How it is connected to, unless by its address.
    dial: Option<Arc<dyn Dial>>,
    pool: Arc<ConnectionPool>,
    trust: TrustStore,
}

impl std::fmt::Debug for Http1Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.address)
    }
}

impl Http1Client {
    pub(crate) fn new(address: Address) -> Self {
        Self { address, dial: None, pool: Arc::default(), trust: TrustStore::default() }
    }

    /// A client that trusts the authorities of `trust`.
    pub(crate) fn with_trust(address: Address, trust: TrustStore) -> Self {
        Self { trust, ..Self::new(address) }
    }

    /// A client of a server that is connected to in another way than by its address, which is for messages.
    pub(crate) fn with_dialer(dial: Arc<dyn Dial>, address: Address) -> Self {
        Self { dial: Some(dial), ..Self::new(address) }
    }

    /// Sends a request whose target is in origin form and returns the head of the answer.
    ///
    /// # Errors
    /// `Upstream` when the server cannot be reached or breaks off.
    pub(crate) async fn send(&self, request: Request<Body>) -> Result<Response<ResponseBody>> {
        let (parts, body) = request.into_parts();
        let head = RequestHead::new(&parts, &body);
        drop(parts);
        self.send_with_head(&head, body).await
    }

    /// Sends a request whose head is written already, with the body that it was written for.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) async fn send_with_head(
        &self,
        head: &RequestHead,
        body: Body,
    ) -> Result<Response<ResponseBody>> {
        self.send_with_callback(head, body, || {}).await
    }

    /// The same, and tells when there is a connection, just before the request is written to it.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) async fn send_with_callback(
        &self,
        head: &RequestHead,
        mut body: Body,
        reached: impl Fn(),
    ) -> Result<Response<ResponseBody>> {
        loop {
            let (mut link, fresh) = match self.pool.take() {
                Some(link) => (link, false),
                // Boxed, since it is rare and large.
                None => (Box::pin(self.connect()).await?, true),
            };
            reached();
            let is_repeatable = head.method().is_idempotent() && matches!(body, Body::Full(None));
            match link.exchange(head, body).await {
                Ok(answer) => {
                    let ResponseHead { parts, framing, keep_alive: lasts, rest } = answer;
                    return Ok(Response::from_parts(
                        parts,
                        ResponseBody::new(framing, rest, link, lasts, &self.pool),
                    ));
                }
                Err(SendError::Unsent(unsent, _)) if !fresh => body = unsent,
                Err(SendError::Unsent(_, error)) => return Err(self.connect_error(error)),
                Err(SendError::NoResponse(error)) => {
                    if fresh {
                        return Err(self.interrupted_error(error));
                    }
                    // It closes connections without saying so, and none can be told to be open.
                    self.pool.close();
                    if !is_repeatable {
                        return Err(self.interrupted_error(error));
                    }
                    // What may be sent twice is (RFC 9110 section 9.2.2).
                    body = Body::empty();
                }
                Err(SendError::Interrupted(error)) => return Err(self.interrupted_error(error)),
            }
        }
    }

    /// Tells whether the server takes connections.
    pub(crate) async fn check_reachable(&self) -> Result<()> {
        let dialled = async {
            match &self.dial {
                Some(dial) => dial.dial().await.map(drop),
                None => self.dial().await.map(drop),
            }
        };
        self.with_connect_timeout(dialled).await
    }

    async fn connect(&self) -> Result<Box<HttpConnection>> {
        self.with_connect_timeout(self.open()).await.map(HttpConnection::new)
    }

    async fn with_connect_timeout<T>(&self, connecting: impl Future<Output = io::Result<T>>) -> Result<T> {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        connected
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(|error| self.connect_error(error))
    }

    async fn open(&self) -> io::Result<Stream> {
        if let Some(dial) = &self.dial {
            return dial.dial().await.map(Stream::Unix);
        }
        let stream = self.dial().await?;
        if !self.address.tls {
            return Ok(Stream::Plain(stream));
        }
        let tls = self.trust.connector().map_err(io::Error::other)?;
        let stream = tls::connect(tls, &self.address.host, stream).await?;
        Ok(Stream::Tls(Box::new(stream)))
    }

    async fn dial(&self) -> io::Result<TcpStream> {
        let stream = match self.address.host.parse() {
            Ok(ip) => TcpStream::connect(SocketAddr::new(ip, self.address.port)).await?,
            Err(_) => TcpStream::connect((self.address.host.as_str(), self.address.port)).await?,
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot turn off delays on a connection");
        }
        Ok(stream)
    }

    fn connect_error(&self, error: io::Error) -> Error {
        Error::new(ErrorKind::Upstream, format!("cannot reach the server at `{}`", self.address))
            .source(error)
    }

    fn interrupted_error(&self, error: ConnectionError) -> Error {
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

/// What is made of an answer that comes in pieces: its status, its body, and whether that has ended.
#[cfg(any(fuzzing, test))]
pub(crate) fn parse_response(pieces: &[&[u8]]) -> Option<(u16, Vec<u8>, bool)> {
    let (mut read, mut answer, mut body) = (bytes::Bytes::new(), None, Vec::new());
    for piece in pieces {
        read = [&read[..], piece].concat().into();
        if answer.is_none() {
            answer = ResponseHead::read(&mut read, &http::Method::GET).ok()?;
            if let Some(answer) = &mut answer {
                read = std::mem::take(&mut answer.rest);
            }
        }
        let Some(answer) = &mut answer else { continue };
        while let Some(piece) = answer.framing.take(&mut read).ok()? {
            body.extend_from_slice(&piece);
        }
    }
    answer.map(|answer| (answer.parts.status.as_u16(), body, answer.framing.is_done()))
}

#[cfg(test)]
mod http_tests;
