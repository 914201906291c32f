//! Defines the public interface of the stdio bridge.

use std::{
    path::{Path, PathBuf},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use http::header::AUTHORIZATION;
use tokio::io::{AsyncRead, AsyncWrite};
use url::Url;

use super::{
    client::ServerClient,
    dispatch::{self, Server},
    sse::SseServer,
    streamable::StreamableServer,
};
use crate::{
    Environment, Error, ErrorKind, Result,
    http_client::is_confidential,
    options::{Header, HeaderSecret, OptionSet as _, OptionSpec, ProxyMode, ProxyOptions, SharedOptions},
    printable::Printable as _,
    proxy::{
        added_headers::header_map,
        in_process::InProcessConnection,
        remote::{self, read_outgoing, remote_target},
        target::Target,
    },
};

/// Default time without data from the server after which a request gets an error.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Default time to wait for missing responses at the end of the input.
const EXIT_GRACE: Duration = Duration::from_secs(30);

/// Serves an HTTP server on a pair of byte streams, with one JSON-RPC message per line.
///
/// The bridge is for clients that only start commands. The opposite is [`StdioProxy`](crate::proxy::StdioProxy).
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
    secret_headers: Vec<HeaderSecret>,
    environment: Option<Environment>,
    response_timeout: Duration,
    exit_grace: Duration,
}

/// Configures a [`StdioBridge`].
#[derive(Debug, Clone)]
#[must_use = "nothing happens until it is built"]
pub struct StdioBridgeBuilder {
    url: String,
    mode: ProxyMode,
    options: ProxyOptions,
    environment: Option<Environment>,
    response_timeout: Duration,
    exit_grace: Duration,
}

impl StdioBridge {
    /// Starts to configure a bridge to the server at a URL. For a workload, use [`Workloads::stdio_bridge`].
    ///
    /// [`Workloads::stdio_bridge`]: crate::workload::Workloads::stdio_bridge
    pub fn builder(url: impl Into<String>) -> StdioBridgeBuilder {
        let url = url.into();
        // Both are required.
        let (server_name, target_uri) = (Some("stdio".to_owned()), Some(url.clone()));
        StdioBridgeBuilder {
            url,
            mode: ProxyMode::StreamableHttp,
            options: ProxyOptions { server_name, target_uri, ..ProxyOptions::default() },
            environment: None,
            response_timeout: RESPONSE_TIMEOUT,
            exit_grace: EXIT_GRACE,
        }
    }

    /// Creates a bridge to a proxy in this process.
    pub(super) fn in_process(
        connection: InProcessConnection,
        target: Target,
        mode: ProxyMode,
        exit_grace: Duration,
    ) -> Self {
        Self {
            client: ServerClient::in_process(connection, target),
            mode,
            secret_headers: Vec::new(),
            environment: None,
            response_timeout: RESPONSE_TIMEOUT,
            exit_grace,
        }
    }

    /// Returns the options of [`StdioBridgeBuilder::set`]: those of a [`Proxy`](crate::Proxy) for requests to its
    /// server.
    pub fn option_specs() -> impl Iterator<Item = &'static OptionSpec> {
        ProxyOptions::SPECS.iter().filter(|spec| {
            spec.name.starts_with("remote_auth")
                || spec.name.starts_with("remote_forward_headers")
                || spec.name == "mcpm_ca_bundle"
        })
    }

    /// Logs in if options require a login, and serves until the input ends or the client closes the output.
    ///
    /// Each request gets a response, if necessary an error. At the end of the input, the bridge waits for missing
    /// responses.
    ///
    /// # Errors
    /// `Io` if the input cannot be read; `Upstream` if the server has lost the session and the client has to start
    /// again, or if the login fails; `LoginRequired` if a login is required and the environment has no user prompt;
    /// `NotFound` and `SecretsUnavailable` for secrets of headers.
    pub async fn serve(
        self,
        input: impl AsyncRead + Send + Unpin,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<()> {
        self.serve_until(input, output, std::future::pending()).await
    }

    /// Serves like [`serve`](Self::serve), but ends also when `stop` completes. Requests without a response then get an
    /// error.
    ///
    /// # Errors
    /// As for [`serve`](Self::serve).
    pub async fn serve_until(
        self,
        input: impl AsyncRead + Send + Unpin,
        output: impl AsyncWrite + Send + Unpin + 'static,
        stop: impl Future<Output = ()>,
    ) -> Result<()> {
        let Self { mut client, mode, secret_headers, environment, response_timeout, exit_grace } = self;
        let mut stop = pin!(stop);
        let preparing = async {
            let headers = remote::secret_headers(&secret_headers, environment.as_ref()).await?;
            client.prepare(headers).await
        };
        tokio::select! {
            prepared = Box::pin(preparing) => prepared?,
            () = &mut stop => return Ok(()),
        }
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

    /// Uses an environment: its secret store, in which logins are stored, its prompts, and its secrets for
    /// authentication to remote servers. Without an environment, logins are not possible.
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Sets an option by name, with a value in text form, as on the command line.
    ///
    /// # Errors
    /// `InvalidOption` for an unknown name or an invalid value.
    pub fn set(mut self, name: &str, text: &str) -> Result<Self> {
        if !StdioBridge::option_specs().any(|spec| spec.name == name) {
            let message = format!("`{}` is not an option of a stdio bridge", name.printable());
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        self.options.set(name, text)?;
        Ok(self)
    }

    /// Adds a header to each request, such as `Authorization`.
    pub fn header(mut self, header: impl Into<Header>) -> Self {
        self.options.remote_forward_headers.push(header.into());
        self
    }

    /// Trusts the certificate authorities in a PEM file as well.
    pub fn ca_bundle(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.mcpm_ca_bundle = Some(path.into());
        self
    }

    /// Sets the time without data from the server after which a request gets an error; 10 min by default.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// Sets how long to wait for missing responses at the end of the input; 30 s by default.
    pub fn exit_grace(mut self, grace: Duration) -> Self {
        self.exit_grace = grace;
        self
    }

    /// Builds the bridge. Reads the files that options name, but sends nothing yet.
    ///
    /// # Errors
    /// `InvalidOption` for invalid or contradictory options, an invalid URL, and headers or logins for a remote server
    /// without TLS; `NotFound` or `Io` for a file that cannot be read.
    pub fn build(self) -> Result<StdioBridge> {
        self.options.check()?;
        let Self { url, mode, options, environment, response_timeout, exit_grace } = self;
        let folder = Path::new("");
        let (outgoing, secrets) =
            read_outgoing(&SharedOptions::from(&options), folder, environment.as_ref())?;
        if let Some(outgoing) = &outgoing {
            outgoing.check_secrets(&secrets)?;
        }
        let headers = header_map(&options.remote_forward_headers)?;
        let secret_headers = options.remote_forward_headers_secret.clone();
        let contradiction =
            |message: String, hint| Err(Error::new(ErrorKind::InvalidOption, message).hint(hint));
        let is_authorized = headers.contains_key(AUTHORIZATION)
            || secret_headers.iter().any(|header| header.name.eq_ignore_ascii_case(AUTHORIZATION.as_str()));
        if is_authorized && outgoing.is_some() {
            let message =
                "the header `Authorization` cannot be combined with a login or a bearer token".to_owned();
            return contradiction(message, "leave out one of them");
        }
        if !(headers.is_empty() && secret_headers.is_empty())
            && Url::parse(&url).is_ok_and(|url| !is_confidential(&url))
        {
            let message =
                "headers that may contain credentials are not sent to a remote server over plain HTTP";
            return contradiction(message.to_owned(), "use an `https://` URL");
        }
        let target = remote_target(&url, &options, headers, (outgoing, secrets), environment.as_ref())?;
        let client = ServerClient::new(target);
        Ok(StdioBridge { client, mode, secret_headers, environment, response_timeout, exit_grace })
    }
}
