//! The public interface of a stdio bridge.

use std::{path::PathBuf, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncRead, AsyncWrite};
use url::Url;

use super::{
    client::ServerClient,
    dispatch::{self, Server},
    sse::SseServer,
    streamable::StreamableServer,
};
use crate::{
    Error, ErrorKind, Result,
    http_client::is_loopback_url,
    options::{Header, ProxyMode},
    proxy::target::Target,
    transport::tls::TrustStore,
};

/// How long the server may send nothing before a request is answered with an error, unless the program sets another.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How long missing responses are waited for at the end of the input, unless the program sets another.
const EXIT_GRACE: Duration = Duration::from_secs(30);

/// Serves an HTTP server on a pair of byte streams, with one JSON-RPC message a line.
///
/// It is for clients that only start commands. The opposite is [`StdioProxy`](crate::proxy::StdioProxy).
///
/// ```no_run
/// # async fn run(input: tokio::net::UnixStream, output: tokio::net::UnixStream) -> mcpm::Result<()> {
/// let bridge = mcpm::StdioBridge::builder("http://127.0.0.1:8080/mcp").build()?;
/// bridge.serve(input, output).await
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing happens until it serves"]
pub struct StdioBridge {
    client: ServerClient,
    mode: ProxyMode,
    response_timeout: Duration,
    exit_grace: Duration,
}

/// Configures a [`StdioBridge`].
#[derive(Debug, Clone)]
#[must_use = "nothing happens until it is built"]
pub struct StdioBridgeBuilder {
    url: String,
    mode: ProxyMode,
    headers: Vec<Header>,
    ca_bundle: Option<PathBuf>,
    response_timeout: Duration,
    exit_grace: Duration,
}

impl StdioBridge {
    /// Starts to configure a bridge to the server at a URL. [`Workloads::stdio_bridge`] does it for a workload.
    ///
    /// [`Workloads::stdio_bridge`]: crate::workload::Workloads::stdio_bridge
    pub fn builder(url: impl Into<String>) -> StdioBridgeBuilder {
        StdioBridgeBuilder {
            url: url.into(),
            mode: ProxyMode::StreamableHttp,
            headers: Vec::new(),
            ca_bundle: None,
            response_timeout: RESPONSE_TIMEOUT,
            exit_grace: EXIT_GRACE,
        }
    }

    /// Serves until the input ends or the client closes the output.
    ///
    /// Each request is answered, if necessary with an error. At the end of the input, missing responses are waited for.
    ///
    /// # Errors
    /// `Io` if the input cannot be read; `Upstream` if the server has lost the session and the client has to start
    /// again.
    pub async fn serve(
        self,
        input: impl AsyncRead + Send + Unpin,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<()> {
        self.serve_until(input, output, std::future::pending()).await
    }

    /// Serves until `stop` is ready as well. Requests that are not answered then get an error.
    ///
    /// # Errors
    /// As [`serve`](Self::serve).
    pub async fn serve_until(
        self,
        input: impl AsyncRead + Send + Unpin,
        output: impl AsyncWrite + Send + Unpin + 'static,
        stop: impl Future<Output = ()>,
    ) -> Result<()> {
        let Self { client, mode, response_timeout, exit_grace } = self;
        let connect = |output| match mode {
            ProxyMode::StreamableHttp => {
                Server::Streamable(Arc::new(StreamableServer::new(client, output, response_timeout)))
            }
            ProxyMode::Sse => Server::Sse(Arc::new(SseServer::new(client, output, response_timeout))),
        };
        dispatch::serve(connect, input, output, stop, exit_grace).await
    }
}

impl StdioBridgeBuilder {
    /// Sets the transport of the server; streamable HTTP by default.
    pub fn mode(mut self, mode: ProxyMode) -> Self {
        self.mode = mode;
        self
    }

    /// Adds a header to each request, such as `Authorization`.
    pub fn header(mut self, header: impl Into<Header>) -> Self {
        self.headers.push(header.into());
        self
    }

    /// Trusts the certificate authorities in a PEM file as well.
    pub fn ca_bundle(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_bundle = Some(path.into());
        self
    }

    /// Sets how long the server may send nothing before a request is answered with an error; 10 min by default.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// Sets how long missing responses are waited for at the end of the input; 30 s by default.
    pub fn exit_grace(mut self, grace: Duration) -> Self {
        self.exit_grace = grace;
        self
    }

    /// Builds the bridge; nothing is sent yet.
    ///
    /// # Errors
    /// `InvalidOption` for an invalid URL or header, headers for a remote server without TLS, or a bundle without
    /// certificates.
    pub fn build(self) -> Result<StdioBridge> {
        if !self.headers.is_empty()
            && Url::parse(&self.url).is_ok_and(|url| url.scheme() == "http" && !is_loopback_url(&url))
        {
            let message = "headers with credentials are not sent to a remote server over plain HTTP";
            return Err(Error::new(ErrorKind::InvalidOption, message).hint("use an `https://` URL"));
        }
        let trust = TrustStore::with_bundle(self.ca_bundle.as_deref())?;
        let mut headers = HeaderMap::new();
        for Header { name, value } in &self.headers {
            let invalid = || Error::new(ErrorKind::InvalidOption, format!("`{name}` is not a valid header"));
            let key = HeaderName::try_from(name).map_err(|_| invalid())?;
            let mut value = HeaderValue::try_from(value.expose()).map_err(|_| invalid())?;
            value.set_sensitive(true);
            headers.append(key, value);
        }
        let target = Target::parse_with_trust(&self.url, trust)?.with_headers(headers);
        let Self { mode, response_timeout, exit_grace, .. } = self;
        Ok(StdioBridge { client: ServerClient::new(target), mode, response_timeout, exit_grace })
    }
}
