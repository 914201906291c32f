//! The HTTP/1.1 client for one server.
//!
//! A connection is used by one request at a time, and an idle connection is kept open for a short time for the next
//! request. If the server has closed an idle connection, the client sends the request on another one, but only if no
//! part of the request was sent before, or if the request has no body and its method is idempotent (RFC 9110 section
//! 9.2.2).

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use tokio::net::TcpStream;

use super::{
    address::Address,
    connection::{HttpConnection, SendError},
    error::ConnectionError,
    head::{RequestHead, ResponseHead},
    pool::ConnectionPool,
    request_body::{RequestBody, UnsentBody},
    response_body::ResponseBody,
    stream::Stream,
};
use crate::{
    Error, ErrorKind, Result,
    platform::LocalStream,
    transport::tls::{self, TrustStore},
};

/// Timeout of connecting, including the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens connections to a server that has no network address.
#[async_trait]
pub(crate) trait Dial: Send + Sync + std::fmt::Debug {
    /// Opens one connection.
    async fn dial(&self) -> io::Result<LocalStream>;
}

/// Sends requests to one server.
pub(crate) struct Http1Client {
    address: Address,
    /// Opens connections, instead of connecting to the address.
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

    /// Creates a client that also trusts the certificate authorities of `trust`.
    pub(crate) fn with_trust(address: Address, trust: TrustStore) -> Self {
        Self { trust, ..Self::new(address) }
    }

    /// Creates a client whose connections `dial` opens. `address` only appears in error messages.
    pub(crate) fn with_dialer(dial: Arc<dyn Dial>, address: Address) -> Self {
        Self { dial: Some(dial), ..Self::new(address) }
    }

    /// Sends a request whose target is in origin form, and returns the head of the response.
    ///
    /// # Errors
    /// `Upstream` if the connection cannot be opened or fails.
    pub(crate) async fn send(&self, request: Request<impl RequestBody>) -> Result<Response<ResponseBody>> {
        let (parts, body) = request.into_parts();
        let head = RequestHead::new(&parts, body.size());
        drop(parts);
        self.send_with_head(&head, body).await
    }

    /// Sends a request whose head was already serialized, for the size of `body`.
    ///
    /// # Errors
    /// As for [`Self::send`].
    pub(crate) async fn send_with_head(
        &self,
        head: &RequestHead,
        body: impl RequestBody,
    ) -> Result<Response<ResponseBody>> {
        self.send_with_callback(head, body, HeaderMap::new(), || {}).await
    }

    /// Sends a request like [`send_with_head`](Self::send_with_head), and calls `on_connected` each time just before
    /// the request is written to a connection. `spare` is an empty map, whose memory is reused for the headers of the
    /// response.
    ///
    /// # Errors
    /// As for [`Self::send`].
    pub(crate) async fn send_with_callback(
        &self,
        head: &RequestHead,
        body: impl RequestBody,
        mut spare: HeaderMap,
        on_connected: impl Fn(),
    ) -> Result<Response<ResponseBody>> {
        let mut body = UnsentBody::from(body);
        loop {
            let (mut connection, is_new) = match self.pool.take() {
                Some(connection) => (connection, false),
                // Boxed, because it is rare and large.
                None => (Box::pin(self.connect()).await?, true),
            };
            on_connected();
            let is_empty = matches!(&body, UnsentBody::Full(bytes) if bytes.is_empty());
            let is_repeatable = head.method().is_idempotent() && is_empty;
            match connection.exchange(head, body, &mut spare).await {
                Ok(response) => {
                    let ResponseHead { parts, framing, keep_alive, rest } = response;
                    return Ok(Response::from_parts(
                        parts,
                        ResponseBody::new(framing, rest, connection, keep_alive, &self.pool),
                    ));
                }
                Err(SendError::Unsent(unsent, _)) if !is_new => body = unsent,
                Err(SendError::Unsent(_, error)) => return Err(self.connect_error(error)),
                Err(SendError::NoResponse(error)) => {
                    if is_new {
                        return Err(self.exchange_error(error));
                    }
                    // The server closes idle connections without notice, so no idle connection is known to be open.
                    self.pool.close();
                    if !is_repeatable {
                        return Err(self.exchange_error(error));
                    }
                    // The server may have received the request, but an idempotent request may be sent twice (RFC 9110
                    // section 9.2.2).
                    body = UnsentBody::Full(Bytes::new());
                }
                Err(SendError::Interrupted(error)) => return Err(self.exchange_error(error)),
            }
        }
    }

    /// Checks whether the server accepts connections.
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
        self.open_stream().await.map(HttpConnection::new)
    }

    /// Opens a connection that is not pooled.
    pub(super) async fn open_stream(&self) -> Result<Stream> {
        self.with_connect_timeout(self.open()).await
    }

    async fn with_connect_timeout<T>(&self, connecting: impl Future<Output = io::Result<T>>) -> Result<T> {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        connected
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(|error| self.connect_error(error))
    }

    async fn open(&self) -> io::Result<Stream> {
        if let Some(dial) = &self.dial {
            return dial.dial().await.map(Stream::Local);
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
            tracing::debug!(%error, "cannot set TCP_NODELAY on a connection");
        }
        Ok(stream)
    }

    fn connect_error(&self, error: io::Error) -> Error {
        Error::new(ErrorKind::Upstream, format!("cannot reach the server at `{}`", self.address))
            .source(error)
    }

    fn exchange_error(&self, error: ConnectionError) -> Error {
        let address = &self.address;
        let message = match error {
            ConnectionError::Io(_) | ConnectionError::Closed => {
                format!("the connection to the server at `{address}` was interrupted")
            }
            ConnectionError::Malformed(_) => {
                format!("the response of the server at `{address}` is not valid HTTP")
            }
            ConnectionError::RequestBody(_) => {
                format!("the request to the server at `{address}` could not be sent completely")
            }
        };
        Error::new(ErrorKind::Upstream, message).source(error)
    }
}

/// Parses a response that arrives in chunks: its status, its body, and whether the body has ended.
#[cfg(any(fuzzing, test))]
pub(crate) fn parse_response(chunks: &[&[u8]]) -> Option<(u16, Vec<u8>, bool)> {
    let (mut read, mut response, mut body) = (Bytes::new(), None, Vec::new());
    for chunk in chunks {
        read = [&read[..], chunk].concat().into();
        if response.is_none() {
            response = ResponseHead::read(&mut read, &http::Method::GET, &mut HeaderMap::new()).ok()?;
            if let Some(response) = &mut response {
                read = std::mem::take(&mut response.rest);
            }
        }
        let Some(response) = &mut response else { continue };
        while let Some(data) = response.framing.take(&mut read).ok()? {
            body.extend_from_slice(&data);
        }
    }
    response.map(|response| (response.parts.status.as_u16(), body, response.framing.is_done()))
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
