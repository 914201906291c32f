//! The HTTP client for requests to registries, identity providers and telemetry collectors.
//!
//! The client is `hyper-util`'s pooling client over `hyper-rustls`. It uses HTTP/1.1 and HTTP/2, trusts the certificate
//! authorities of a [`TrustStore`], and connects to `https` URLs through the proxy in `HTTPS_PROXY` or `ALL_PROXY`,
//! unless `NO_PROXY` lists the host. It follows no redirects and reads no bodies: callers do both, within their own
//! limits. Requests of MCP clients are sent by another client (`transport::http`).

#[cfg(feature = "telemetry")]
pub(crate) mod http2;

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::{Arc, LazyLock, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::{
        legacy::{
            self,
            connect::{Connect, HttpConnector, dns::Name, proxy::Tunnel},
        },
        proxy::matcher::Matcher,
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use tokio::net::TcpStream;
use tower_service::Service;
use url::{Host, Url};

use crate::{
    Error, ErrorKind, Result,
    transport::tls::{self, TrustStore},
};

/// Timeout for opening a connection, without the handshakes of a proxy and of TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an idle connection stays open.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of idle connections to one server.
const MAX_IDLE_CONNECTIONS: usize = 2;
const USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("mcpm/", env!("CARGO_PKG_VERSION")));

/// The proxies that the environment variables name, read once.
static PROXIES: LazyLock<Arc<Matcher>> = LazyLock::new(|| Arc::new(Matcher::from_env()));

type Client<C> = legacy::Client<C, Full<Bytes>>;
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Decides which addresses may be connected to.
pub(crate) type AddressFilter = Arc<dyn Fn(IpAddr) -> Result<()> + Send + Sync>;

/// Sends requests. Clones share connections.
#[derive(Clone, Default)]
pub(crate) struct HttpClient(Arc<ClientState>);

#[derive(Default)]
struct ClientState {
    trust: TrustStore,
    filter: Option<AddressFilter>,
    plain: OnceLock<Client<Connector>>,
    /// Created for the first request over TLS, because reading the machine's certificates takes some milliseconds, and
    /// fails if there are none.
    tls: OnceLock<Client<HttpsConnector<Connector>>>,
}

impl HttpClient {
    /// A client that trusts the authorities of `trust`.
    pub(crate) fn new(trust: TrustStore) -> Self {
        Self(Arc::new(ClientState { trust, ..ClientState::default() }))
    }

    /// A client that connects only to addresses that `filter` accepts. A proxy of the environment may have any address,
    /// and it resolves names itself, without the filter.
    pub(crate) fn with_address_filter(trust: TrustStore, filter: AddressFilter) -> Self {
        Self(Arc::new(ClientState { trust, filter: Some(filter), ..ClientState::default() }))
    }

    /// Sends a request and returns the head of the response, whose body the caller reads and bounds.
    ///
    /// # Errors
    /// `Upstream` when the server cannot be reached or does not answer; the error of the address filter; `Io` when the
    /// machine's certificates cannot be read.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>> {
        let uri = request.uri().clone();
        let responding = match is_https(&uri) {
            true => self.tls()?.request(request),
            false => self.0.plain.get_or_init(|| pooling_client(self.connector())).request(request),
        };
        responding.await.map_err(|error| match error.is_connect() {
            true => connect_error(&uri, error),
            false => request_error("no response from", &uri, error),
        })
    }

    fn tls(&self) -> Result<&Client<HttpsConnector<Connector>>> {
        if let Some(client) = self.0.tls.get() {
            return Ok(client);
        }
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(self.0.trust.connector()?.config().as_ref().clone())
            .https_only()
            .enable_all_versions()
            .wrap_connector(self.connector());
        Ok(self.0.tls.get_or_init(|| pooling_client(connector)))
    }

    fn connector(&self) -> Connector {
        Connector::new(self.0.filter.clone(), &PROXIES)
    }
}

fn pooling_client<C: Connect + Clone>(connector: C) -> Client<C> {
    legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(MAX_IDLE_CONNECTIONS)
        .build(connector)
}

fn is_https(uri: &Uri) -> bool {
    uri.scheme_str() == Some("https")
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpClient").field(&self.0.trust).finish()
    }
}

/// Creates a request for a URL, with the user agent of mcpm.
///
/// # Errors
/// `Upstream` for a URL that has no host or is not a URI (RFC 3986).
pub(crate) fn request_for_url(
    method: Method,
    url: &Url,
    mut headers: HeaderMap,
    body: impl Into<Bytes>,
) -> Result<Request<Full<Bytes>>> {
    headers.insert(header::USER_AGENT, USER_AGENT);
    let invalid = || Error::new(ErrorKind::Upstream, "the URL cannot be requested");
    let mut plain = url.clone();
    plain.set_fragment(None);
    let uri: Uri = plain.as_str().parse().map_err(|error: http::uri::InvalidUri| invalid().source(error))?;
    let mut request = Request::new(Full::new(body.into()));
    (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) = (method, uri, headers);
    Ok(request)
}

/// The error for a connection that could not be opened.
fn connect_error(uri: &Uri, error: impl Into<BoxError>) -> Error {
    request_error("cannot connect to", uri, error)
}

fn request_error(problem: &str, uri: &Uri, error: impl Into<BoxError>) -> Error {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let server = authority.rsplit_once('@').map_or(authority, |(_, server)| server);
    Error::new(ErrorKind::Upstream, format!("{problem} `{server}`")).source(RootCause(error.into()))
}

/// Tells whether a URL names this machine by `localhost` or a loopback address.
pub(crate) fn is_loopback_url(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

/// Tells whether data that is sent to a URL is encrypted, or stays on this machine.
pub(crate) fn is_confidential(url: &Url) -> bool {
    url.scheme() == "https" || is_loopback_url(url)
}

/// Why a request failed, displayed with the innermost cause, because the causes around it only name layers of the
/// client.
#[derive(Debug)]
pub(crate) struct RootCause(BoxError);

impl RootCause {
    /// The causes, outermost first.
    pub(crate) fn chain(&self) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
        let outermost: &(dyn std::error::Error + 'static) = self.0.as_ref();
        std::iter::successors(Some(outermost), |error| error.source())
    }
}

impl fmt::Display for RootCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An error of this library already contains its causes.
        let ours = self.chain().find_map(|error| error.downcast_ref::<Error>());
        match ours {
            Some(error) => fmt::Display::fmt(error, f),
            None => self.chain().last().map_or(Ok(()), |error| fmt::Display::fmt(error, f)),
        }
    }
}

impl std::error::Error for RootCause {}

/// Tells whether a request failed because no trusted authority issued the server's certificate.
pub(crate) fn is_untrusted_issuer(error: &Error) -> bool {
    root_cause(error).is_some_and(|cause| {
        cause.chain().filter_map(|error| error.downcast_ref()).any(tls::is_untrusted_issuer_failure)
    })
}

/// Tells whether a request failed because the server could not be reached or did not respond, and not because of data
/// that the server sent, such as its certificate.
#[cfg(any(feature = "verify", all(feature = "builtin", target_os = "linux")))]
pub(crate) fn is_unreachable(error: &Error) -> bool {
    root_cause(error).is_some_and(|cause| {
        !cause.chain().filter_map(|error| error.downcast_ref()).any(tls::is_handshake_failure)
    })
}

fn root_cause(error: &Error) -> Option<&RootCause> {
    std::error::Error::source(error).and_then(|cause| cause.downcast_ref())
}

/// Opens connections, directly to the server or through a proxy from the environment.
#[derive(Clone)]
struct Connector {
    direct: HttpConnector<Resolver>,
    /// Connects to a proxy. The user has chosen the proxy, so its address is not filtered.
    to_proxy: HttpConnector,
    filter: Option<AddressFilter>,
    proxies: Arc<Matcher>,
}

impl Connector {
    fn new(filter: Option<AddressFilter>, proxies: &Arc<Matcher>) -> Self {
        let mut direct = HttpConnector::new_with_resolver(Resolver(filter.clone()));
        let mut to_proxy = HttpConnector::new();
        direct.enforce_http(false);
        direct.set_nodelay(true);
        direct.set_connect_timeout(Some(CONNECT_TIMEOUT));
        to_proxy.set_connect_timeout(Some(CONNECT_TIMEOUT));
        Self { direct, to_proxy, filter, proxies: Arc::clone(proxies) }
    }

    async fn connect(mut self, uri: Uri) -> Result<TokioIo<TcpStream>, BoxError> {
        // The resolver, which applies the filter, is not called for literal addresses.
        if let (Some(filter), Some(ip)) = (&self.filter, literal_address(&uri)) {
            filter(ip)?;
        }
        match self.proxies.intercept(&uri) {
            Some(proxy) if is_https(&uri) => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), self.to_proxy);
                if let Some(credentials) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(credentials.clone());
                }
                let connecting = tokio::time::timeout(CONNECT_TIMEOUT, tunnel.call(uri)).await;
                let connected = connecting.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
                Ok(connected.map_err(|error| {
                    format!("the proxy in `HTTPS_PROXY` or `ALL_PROXY` did not open a tunnel: {error}")
                })?)
            }
            _ => Ok(self.direct.call(uri).await?),
        }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

fn literal_address(uri: &Uri) -> Option<IpAddr> {
    uri.host()?.trim_matches(['[', ']']).parse().ok()
}

/// Resolves names with the machine's resolver, and drops addresses that the filter rejects.
#[derive(Clone)]
struct Resolver(Option<AddressFilter>);

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let filter = self.0.clone();
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let Some(filter) = filter else { return Ok(found.into_iter()) };
            let mut rejected = None;
            let accepts = |at: &SocketAddr| filter(at.ip()).map_err(|error| rejected = Some(error)).is_ok();
            let accepted: Vec<_> = found.into_iter().filter(accepts).collect();
            match rejected {
                Some(error) if accepted.is_empty() => Err(error.into()),
                _ => Ok(accepted.into_iter()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;
    use crate::testing::with_timeout;

    /// Responds to one request with `response`, and returns the received request head.
    async fn respond_once(listener: &TcpListener, response: &str) -> String {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = Vec::new();
        while !received.ends_with(b"\r\n\r\n") {
            received.push(stream.read_u8().await.unwrap());
        }
        stream.write_all(response.as_bytes()).await.unwrap();
        String::from_utf8(received).unwrap()
    }

    fn get(url: &str) -> Request<Full<Bytes>> {
        request_for_url(Method::GET, &Url::parse(url).unwrap(), HeaderMap::new(), "").unwrap()
    }

    #[tokio::test]
    async fn an_https_url_goes_through_the_proxy_with_its_credentials() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://user:word@{}", listener.local_addr().unwrap());
        let proxies = Arc::new(Matcher::builder().https(proxy).no("direct.example").build());
        let connect = |url: &str| Connector::new(None, &proxies).connect(url.parse().unwrap());
        let answered = respond_once(&listener, "HTTP/1.1 403 Forbidden\r\n\r\n");
        let (error, received) =
            with_timeout(async { tokio::join!(connect("https://a.example/x"), answered) }).await;
        assert!(received.starts_with("CONNECT a.example:443 HTTP/1.1\r\n"), "{received}");
        assert!(received.to_lowercase().contains("proxy-authorization: basic dxnlcjp3b3jk"), "{received}");
        assert!(error.unwrap_err().to_string().contains("`HTTPS_PROXY`"));
        // The proxy no longer accepts connections, so the error of a request that uses it would name it.
        drop(listener);
        for direct in ["https://direct.example/", "http://a.invalid/"] {
            let error = with_timeout(connect(direct)).await.unwrap_err().to_string();
            assert!(!error.contains("HTTPS_PROXY"), "{error}");
        }
    }

    #[tokio::test]
    async fn only_addresses_that_the_filter_accepts_are_connected_to() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let filter: AddressFilter = Arc::new(|ip| match ip.is_loopback() {
            true => Err(Error::new(ErrorKind::Upstream, "`ADDRESS` is a private address").hint("allow it")),
            false => Ok(()),
        });
        let client = HttpClient::with_address_filter(TrustStore::default(), filter);
        for host in ["127.0.0.1", "localhost", "[::1]", "127.1"] {
            let error = client.send(get(&format!("http://{host}:{port}/"))).await.unwrap_err();
            assert!(error.to_string().ends_with("`ADDRESS` is a private address; allow it"), "{error}");
        }
        let client = HttpClient::default();
        let url = format!("http://127.0.0.1:{port}/x?y#z");
        let answered = respond_once(&listener, "HTTP/1.1 204 No Content\r\n\r\n");
        let (response, received) =
            with_timeout(async { tokio::join!(client.send(get(&url)), answered) }).await;
        assert_eq!(response.unwrap().status(), 204);
        assert!(
            received.starts_with("GET /x?y HTTP/1.1\r\n") && received.contains("user-agent: mcpm/"),
            "{received}"
        );
    }
}
