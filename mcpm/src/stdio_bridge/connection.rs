//! Connects a program to the server behind one of its own proxies or stdio bridges, without a port.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::{HeaderMap, header::AUTHORIZATION};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio_util::sync::CancellationToken;

use super::builder::StdioBridge;
use crate::{
    Result,
    auth::bearer_value,
    options::{ProxyMode, Secret},
    proxy::RunningProxy,
};

/// Number of bytes that are buffered in each direction.
const BUFFER_BYTES: usize = 64 << 10;
/// How long to wait for missing responses after the program has closed the connection.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// A connection to the server behind a proxy of this process, which needs no port, or behind a [`StdioBridge`].
///
/// It is a byte stream with one JSON-RPC message per line in each direction, as over the pipes of a stdio server, so
/// MCP clients for stdio servers can use it. Requests pass through the whole proxy, with authentication, tool filters,
/// policies and the audit log, as if they arrived at a port. The stream ends when the proxy stops, or when the server
/// has lost the session and cannot continue it. Dropping the connection closes it.
#[derive(Debug)]
pub struct Connection {
    stream: DuplexStream,
    /// Cancelled when the connection has ended, and nothing more is sent to the server.
    ended: CancellationToken,
}

/// Options of a [`Connection`].
#[derive(Debug, Clone, Default)]
pub struct ConnectOptions {
    /// The access token of the caller, if the proxy authenticates callers; none by default.
    pub bearer_token: Option<Secret>,
    /// The transport of the server; by default, it is determined by the URL: SSE if the path is `/sse`, otherwise
    /// streamable HTTP.
    pub mode: Option<ProxyMode>,
}

impl RunningProxy {
    /// Connects to the server from this process. Nothing is sent before the first message.
    ///
    /// # Errors
    /// `Upstream` if the proxy has stopped, or if 256 connections are open.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn connect(&self) -> Result<Connection> {
        self.connect_with(ConnectOptions::default())
    }

    /// Connects to the server with options.
    ///
    /// # Errors
    /// `Upstream` if the proxy has stopped, or if 256 connections are open; `InvalidOption` for a token that is not
    /// valid in a header.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn connect_with(&self, options: ConnectOptions) -> Result<Connection> {
        let ConnectOptions { bearer_token, mode } = options;
        let mut headers = HeaderMap::new();
        if let Some(token) = &bearer_token {
            headers.insert(AUTHORIZATION, bearer_value(token)?);
        }
        let (connection, target, is_sse) = self.connect_in_process()?;
        let mode = mode.unwrap_or(if is_sse { ProxyMode::Sse } else { ProxyMode::StreamableHttp });
        let bridge = StdioBridge::in_process(connection, target.with_headers(headers), mode, EXIT_GRACE);
        Ok(bridge.connect_until(self.stop_token().cancelled_owned()))
    }
}

impl StdioBridge {
    /// Serves on a connection within this process, until it is closed. If options require a login, the bridge logs in
    /// before it reads the first message; if the login fails, the stream ends, and the log contains the reason.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn connect(self) -> Connection {
        self.connect_until(std::future::pending())
    }

    fn connect_until(self, stop: impl Future<Output = ()> + Send + 'static) -> Connection {
        let (ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
        let (input, output) = tokio::io::split(theirs);
        // The task ends with the connection or with the proxy.
        let ended = CancellationToken::new();
        let on_end = ended.clone().drop_guard();
        tokio::spawn(async move {
            if let Err(error) = self.serve_until(input, output, stop).await {
                tracing::warn!(%error, "a connection to a server ended with an error");
            }
            drop(on_end);
        });
        Connection { stream: ours, ended }
    }
}

impl Connection {
    /// Returns a future that completes when the connection has ended, and with it the session on the server. The future
    /// does not close the connection; dropping the connection does.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        self.ended.clone().cancelled_owned()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
