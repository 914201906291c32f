//! The client side of a forwarded request: one server, a few kept connections.
//!
//! A request goes out on a connection of its own while it lasts; a connection that gets free is kept for the
//! next for a short time. When that one turns out to be closed, a request of which nothing was sent is tried on another
//! connection, and so is one without a body whose method is idempotent (RFC 9110 section 9.2.2 forbids more).
//!
//! HTTP/1.1 is written and read here, since this is most of what a forwarded call costs (decision 0024).

mod asking;
mod broken;
mod connector;
mod framing;
mod head;
mod link;
mod pool;
mod received;
mod stream;
mod upload;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use http::{Request, Response};
use tokio::net::{TcpStream, UnixStream};

pub(crate) use {
    asking::{asking, is_this_machine},
    broken::Broken,
    connector::Connector,
    head::Head,
    received::Received,
};

use head::Answer;
use link::{Failure, Link};
use pool::Pool;
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
pub(crate) struct Client {
    address: Address,
    /// How it is connected to, unless by its address.
    dial: Option<Arc<dyn Dial>>,
    /// Where its address was found, if nobody is to look again.
    pinned: Vec<SocketAddr>,
    pool: Arc<Pool>,
    trust: TrustStore,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.address)
    }
}

impl Client {
    pub(crate) fn new(address: Address) -> Self {
        Self { address, dial: None, pinned: Vec::new(), pool: Arc::default(), trust: TrustStore::default() }
    }

    /// A client that trusts the authorities of `trust`.
    pub(crate) fn trusting(address: Address, trust: TrustStore) -> Self {
        Self { trust, ..Self::new(address) }
    }

    /// A client that connects to these addresses alone, and trusts the authorities of `trust`.
    pub(crate) fn pinned(address: Address, at: Vec<SocketAddr>, trust: TrustStore) -> Self {
        Self { pinned: at, ..Self::trusting(address, trust) }
    }

    /// A client of a server that is connected to in another way than by its address, which is for messages.
    pub(crate) fn through(dial: Arc<dyn Dial>, address: Address) -> Self {
        Self { dial: Some(dial), ..Self::new(address) }
    }

    /// Sends a request whose target is in origin form and returns the head of the answer.
    ///
    /// # Errors
    /// `Upstream` when the server cannot be reached or breaks off.
    pub(crate) async fn send(&self, request: Request<Body>) -> Result<Response<Received>> {
        let (parts, body) = request.into_parts();
        let head = Head::new(&parts, &body);
        drop(parts);
        self.send_written(&head, body).await
    }

    /// Sends a request whose head is written already, with the body that it was written for.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) async fn send_written(&self, head: &Head, body: Body) -> Result<Response<Received>> {
        self.send_reached(head, body, || {}).await
    }

    /// The same, and tells when there is a connection, just before the request is written to it.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) async fn send_reached(
        &self,
        head: &Head,
        mut body: Body,
        reached: impl Fn(),
    ) -> Result<Response<Received>> {
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
                    let Answer { parts, framing, lasts, rest } = answer;
                    return Ok(Response::from_parts(
                        parts,
                        Received::new(framing, rest, link, lasts, &self.pool),
                    ));
                }
                Err(Failure::Unsent(unsent, _)) if !fresh => body = unsent,
                Err(Failure::Unsent(_, error)) => return Err(self.unreachable(error)),
                Err(Failure::Unanswered(error)) => {
                    if fresh {
                        return Err(self.broken(error));
                    }
                    // It closes connections without saying so, and none can be told to be open.
                    self.pool.close();
                    if !is_repeatable {
                        return Err(self.broken(error));
                    }
                    // What may be sent twice is (RFC 9110 section 9.2.2).
                    body = Body::empty();
                }
                Err(Failure::Broken(error)) => return Err(self.broken(error)),
            }
        }
    }

    /// Tells whether the server takes connections.
    pub(crate) async fn reach(&self) -> Result<()> {
        let dialled = async {
            match &self.dial {
                Some(dial) => dial.dial().await.map(drop),
                None => self.dial().await.map(drop),
            }
        };
        self.in_time(dialled).await
    }

    async fn connect(&self) -> Result<Box<Link>> {
        self.in_time(self.open()).await.map(Link::new)
    }

    async fn in_time<T>(&self, connecting: impl Future<Output = io::Result<T>>) -> Result<T> {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        connected
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(|error| self.unreachable(error))
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
            _ if !self.pinned.is_empty() => TcpStream::connect(&self.pinned[..]).await?,
            Ok(ip) => TcpStream::connect(SocketAddr::new(ip, self.address.port)).await?,
            Err(_) => TcpStream::connect((self.address.host.as_str(), self.address.port)).await?,
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot turn off delays on a connection");
        }
        Ok(stream)
    }

    fn unreachable(&self, error: io::Error) -> Error {
        Error::new(ErrorKind::Upstream, format!("cannot reach the server at `{}`", self.address))
            .source(error)
    }

    fn broken(&self, error: Broken) -> Error {
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
pub(crate) fn answer_of(pieces: &[&[u8]]) -> Option<(u16, Vec<u8>, bool)> {
    let (mut read, mut answer, mut body) = (bytes::Bytes::new(), None, Vec::new());
    for piece in pieces {
        read = [&read[..], piece].concat().into();
        if answer.is_none() {
            answer = Answer::read(&mut read, &http::Method::GET).ok()?;
            if let Some(answer) = &mut answer {
                read = std::mem::take(&mut answer.rest);
            }
        }
        let Some(answer) = &mut answer else { continue };
        while let Some(piece) = answer.framing.take(&mut read).ok()? {
            body.extend_from_slice(&piece);
        }
    }
    answer.map(|answer| (answer.parts.status.as_u16(), body, answer.framing.is_over()))
}

#[cfg(test)]
mod http_tests;
