//! Sends HTTP requests to identity providers, and only to URLs and addresses that are allowed.
//!
//! By default, the client requires HTTPS for all hosts except loopback, and connects only to public addresses. For
//! incoming authentication, options can waive both. For a login, private addresses are allowed if the remote server has
//! only such addresses, and private and loopback addresses if its URL names loopback. The client resolves names itself,
//! unless it connects through a proxy of the environment (`HTTPS_PROXY`). It follows redirects only where its caller
//! allows that, and limits the time and the size of every response. It trusts the certificates in option
//! `mcpm_ca_bundle` in addition to the system's.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use url::{Host, Url, form_urlencoded};

use crate::{
    Error, ErrorKind, Result,
    explain::Reason,
    http_client::{AddressFilter, HttpClient, is_loopback_url, request_for_url},
    isolation,
    options::Secret,
    redact::url::{redact_url, redact_url_text},
    transport::tls::TrustStore,
};

/// Timeout of a request to the authorization server of a remote server, for which a user waits.
const LOGIN_REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Timeout of any other request, from name resolution to the end of the response.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

const PRIVATE_ADDRESS_HINT: &str = "ask the operator of the remote server to correct its metadata; only a server on a \
                                    private network may name a private address";
/// Maximum number of redirects that are followed, where redirects are followed.
#[cfg(feature = "login")]
const MAX_REDIRECTS: usize = 3;

/// The addresses that may be connected to.
#[cfg_attr(not(feature = "login"), expect(dead_code, reason = "for logins"))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum AllowedAddresses {
    /// Public addresses only.
    #[default]
    Public,
    /// Public addresses, and those of private networks (RFC 1918, RFC 4193).
    Private,
    /// Public and private addresses, and loopback. Link-local addresses are excluded, because clouds serve credentials
    /// there.
    Local,
    /// All addresses.
    All,
}

impl AllowedAddresses {
    /// The addresses that the server of `url` may name in its metadata. A server whose address is unknown counts as
    /// public. A DNS server can return any address for a name, so a server counts as local only if the URL itself names
    /// loopback. On private networks, servers that such a server could name are protected by their certificates.
    #[cfg(feature = "login")]
    pub(crate) async fn for_server(url: &Url) -> Self {
        if is_loopback_url(url) {
            return Self::Local;
        }
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let port = url.port_or_known_default().unwrap_or_default();
        let found = tokio::net::lookup_host((host, port)).await.into_iter().flatten();
        let addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
        match !addresses.is_empty() && addresses.into_iter().all(is_private) {
            true => Self::Private,
            false => Self::Public,
        }
    }

    fn contains(self, ip: IpAddr) -> bool {
        isolation::is_public(ip)
            || match self {
                Self::Public => false,
                Self::Private => is_private(ip),
                Self::Local => is_private(ip) || ip.to_canonical().is_loopback(),
                Self::All => true,
            }
    }
}

fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_private(),
        IpAddr::V6(ip) => ip.is_unique_local(),
    }
}

/// The address in a URL whose host is an IP address or `localhost`.
fn literal_address(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(ip) => Some(ip.into()),
        Host::Ipv6(ip) => Some(ip.into()),
        Host::Domain(_) => is_loopback_url(url).then_some(Ipv4Addr::LOCALHOST.into()),
    }
}

/// The source of the URLs that a client requests. Errors depend on it, because they contain the way to allow a denied
/// URL.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum UrlSource {
    /// The options of incoming authentication.
    #[default]
    Options,
    /// A remote server, or its authorization server.
    RemoteServer,
}

/// The guards that are waived, and additional trusted certificates.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClientGuard {
    /// Whether plain HTTP to hosts other than loopback is allowed.
    pub(crate) allow_http: bool,
    /// The addresses that may be connected to.
    pub(crate) addresses: AllowedAddresses,
    /// The source of the URLs.
    pub(crate) source: UrlSource,
    /// A file of certificates that are trusted in addition to the system's.
    pub(crate) ca_bundle: Option<PathBuf>,
}

/// An HTTP client that applies a [`ClientGuard`] to every request.
pub(crate) struct GuardedClient {
    guard: ClientGuard,
    client: HttpClient,
}

impl std::fmt::Debug for GuardedClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Http").field(&self.guard).finish()
    }
}

/// A request to an identity provider.
#[derive(Debug)]
pub(crate) struct ProviderRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A complete response.
#[derive(Debug)]
pub(crate) struct ProviderResponse {
    pub(crate) status: StatusCode,
    #[cfg_attr(not(feature = "login"), expect(dead_code, reason = "for logins"))]
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl ClientGuard {
    /// Parses a URL and rejects one that the guards do not allow.
    ///
    /// # Errors
    /// `InvalidOption` if the text is not such a URL.
    pub(crate) fn parse_url(&self, text: &str) -> Result<Url> {
        let invalid = |why: &str| {
            let message = format!("`{}` cannot be used: {why}", redact_url_text(text));
            let error = Error::new(ErrorKind::InvalidOption, message);
            match self.source {
                UrlSource::Options => error,
                UrlSource::RemoteServer => error.reason(Reason::LoginUrlDenied),
            }
        };
        let url = Url::parse(text).map_err(|error| invalid("it is not a URL").source(error))?;
        // A terminal or a log would interpret them; the parser removes or encodes them.
        if text.chars().any(|c| c != '\'' && c.escape_debug().len() > 1) {
            return Err(invalid(
                "it contains a quotation mark, a backslash, or a character that is not printable",
            ));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("it contains credentials"));
        }
        if url.fragment().is_some() {
            return Err(invalid("it has a fragment"));
        }
        if self.source == UrlSource::RemoteServer
            && let Some(ip) = literal_address(&url)
            && !self.addresses.contains(ip)
        {
            // The browser may open this URL, and its connections do not pass the address filter.
            return Err(invalid(&format!("`{ip}` is not a public address")).hint(PRIVATE_ADDRESS_HINT));
        }
        match url.scheme() {
            "https" => Ok(url),
            "http" if self.allow_http || is_loopback_url(&url) => Ok(url),
            "http" => Err(match self.source {
                UrlSource::Options => invalid("it does not use `https`")
                    .hint("use `https`, or set `oidc_insecure_allow_http` to `true` for development"),
                UrlSource::RemoteServer => invalid("it does not use `https`"),
            }),
            _ => Err(invalid("the scheme is neither `https` nor `http`")),
        }
    }

    /// Decides which addresses may be connected to; `None` accepts all.
    fn address_filter(&self) -> Option<AddressFilter> {
        let (addresses, source) = (self.addresses, self.source);
        let filter = move |ip: IpAddr| {
            if addresses.contains(ip) {
                return Ok(());
            }
            let denied = failed(format!("`{ip}` is not a public address"));
            Err(match source {
                UrlSource::Options => denied.hint("allow it with `jwks_allow_private_ip`"),
                UrlSource::RemoteServer => denied.hint(PRIVATE_ADDRESS_HINT).reason(Reason::LoginUrlDenied),
            })
        };
        (addresses != AllowedAddresses::All).then(|| Arc::new(filter) as AddressFilter)
    }
}

/// The `Authorization` header of HTTP Basic client authentication (RFC 6749 section 2.3.1).
///
/// # Errors
/// `InvalidOption` if the secret cannot be sent in a header.
pub(crate) fn basic(client_id: &str, secret: &Secret) -> Result<HeaderValue> {
    // RFC 6749 requires both parts to be form-encoded first.
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = BASE64_STANDARD.encode(format!("{}:{}", encoded(client_id), encoded(secret.expose())));
    let mut value = HeaderValue::from_str(&format!("Basic {pair}")).map_err(|_| {
        Error::new(
            ErrorKind::InvalidOption,
            "invalid client secret: it cannot be sent in an `Authorization` header",
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Upstream, message.into())
}

impl GuardedClient {
    /// Creates a client and loads the additional certificates.
    ///
    /// # Errors
    /// `InvalidOption` if the bundle cannot be read or contains no certificate.
    pub(crate) fn new(guard: ClientGuard) -> Result<Self> {
        let trust = TrustStore::with_bundle(guard.ca_bundle.as_deref())?;
        let client = match guard.address_filter() {
            Some(filter) => HttpClient::with_address_filter(trust, filter),
            None => HttpClient::new(trust),
        };
        Ok(Self { guard, client })
    }

    pub(crate) fn guard(&self) -> &ClientGuard {
        &self.guard
    }

    /// Sends a request and reads the response, up to `max_bytes`.
    ///
    /// # Errors
    /// `Upstream` if the request fails, times out, is rejected by a guard, or its response is too large.
    pub(crate) async fn send(&self, ask: ProviderRequest, max_bytes: usize) -> Result<ProviderResponse> {
        let shown = redact_url(&ask.url);
        let in_context = |error: Error| error.with("url", &shown);
        let limit = match self.guard.source {
            UrlSource::Options => REQUEST_TIMEOUT,
            UrlSource::RemoteServer => LOGIN_REQUEST_TIMEOUT,
        };
        match tokio::time::timeout(limit, Box::pin(self.exchange(ask, max_bytes))).await {
            Ok(outcome) => outcome.map_err(in_context),
            Err(_) => {
                let late = failed(format!("no response within {} s", limit.as_secs()));
                Err(in_context(self.unusable(late)))
            }
        }
    }

    /// Sends a request without a body, and follows redirects. Each hop passes the guards.
    ///
    /// # Errors
    /// As for [`send`](Self::send), and `Upstream` for too many redirects and for one without a URL.
    #[cfg(feature = "login")]
    pub(crate) async fn send_following(
        &self,
        mut request: ProviderRequest,
        max_bytes: usize,
    ) -> Result<ProviderResponse> {
        for _ in 0..=MAX_REDIRECTS {
            let hop = ProviderRequest {
                method: request.method.clone(),
                url: request.url.clone(),
                headers: request.headers.clone(),
                body: Bytes::new(),
            };
            let response = self.send(hop, max_bytes).await?;
            let is_redirect = matches!(response.status.as_u16(), 301 | 302 | 303 | 307 | 308);
            if !is_redirect {
                return Ok(response);
            }
            let location = response.headers.get(http::header::LOCATION).and_then(|value| value.to_str().ok());
            let next = location.and_then(|location| request.url.join(location).ok());
            request.url =
                next.ok_or_else(|| self.unusable(failed("a redirect has no valid `Location` header")))?;
        }
        Err(self.unusable(failed(format!("more than {MAX_REDIRECTS} redirects"))))
    }

    /// Adds the reason to an error, if the response belongs to a login to a remote server.
    fn unusable(&self, error: Error) -> Error {
        match self.guard.source {
            UrlSource::Options => error,
            UrlSource::RemoteServer => error.reason(Reason::LoginResponseUnusable),
        }
    }

    /// Fetches a document. A redirect is an error.
    ///
    /// # Errors
    /// As for [`send`](Self::send), and `Upstream` for any status but 200.
    pub(crate) async fn get(&self, url: Url, headers: HeaderMap, max_bytes: usize) -> Result<Bytes> {
        let shown = redact_url(&url);
        let ask = ProviderRequest { method: Method::GET, url, headers, body: Bytes::new() };
        match self.send(ask, max_bytes).await? {
            ProviderResponse { status: StatusCode::OK, body, .. } => Ok(body),
            ProviderResponse { status, .. } => {
                Err(failed(format!("the response has status {status}")).with("url", shown))
            }
        }
    }

    async fn exchange(&self, ask: ProviderRequest, max_bytes: usize) -> Result<ProviderResponse> {
        let url = self.guard.parse_url(ask.url.as_str())?;
        let request = request_for_url(ask.method, &url, ask.headers, ask.body)?;
        let (parts, body) = self.client.send(request).await?.into_parts();
        let body = Limited::new(body, max_bytes).collect().await.map_err(|error| {
            let message = format!("the response was interrupted, or is larger than {max_bytes} bytes");
            self.unusable(failed(message).source(error))
        })?;
        Ok(ProviderResponse { status: parts.status, headers: parts.headers, body: body.to_bytes() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_for_this_machine_unless_it_is_waived() {
        let strict = ClientGuard::default();
        let waived = ClientGuard { allow_http: true, ..ClientGuard::default() };
        for url in ["https://a.example/x?y", "http://localhost:1", "http://127.0.0.9/", "http://[::1]:2/x"] {
            assert!(strict.parse_url(url).is_ok(), "{url}");
        }
        for url in ["http://a.example", "http://localhost.a.example/", "http://10.0.0.1/"] {
            assert!(strict.parse_url(url).is_err(), "{url}");
            assert!(waived.parse_url(url).is_ok(), "{url}");
        }
        for url in [
            "",
            "a.example",
            "ftp://a.example",
            "https://u:canary@a.example",
            "https://a.example/?key=canary#f",
            "https://a.example:99999/?key=canary",
        ] {
            let error = waived.parse_url(url).expect_err(url).to_string();
            assert!(!error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn only_public_addresses_are_accepted() {
        let filter = ClientGuard::default().address_filter().expect("a filter");
        for ip in ["127.0.0.1", "10.1.2.3", "169.254.169.254", "100.64.0.1", "::1", "8.8.8.8"] {
            let accepted = filter(ip.parse().expect("an address"));
            assert_eq!(accepted.is_ok(), ip == "8.8.8.8", "{ip}");
            assert!(accepted.err().is_none_or(|error| error.to_string().contains("`jwks_allow_private_ip`")));
        }
        let all = ClientGuard { addresses: AllowedAddresses::All, ..ClientGuard::default() };
        assert!(all.address_filter().is_none());
    }

    #[tokio::test]
    async fn a_name_that_resolves_to_a_private_address_is_not_connected_to() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let port = listener.local_addr().expect("an address").port();
        let client =
            GuardedClient::new(ClientGuard { source: UrlSource::RemoteServer, ..ClientGuard::default() });
        let url = Url::parse(&format!("https://localhost:{port}/")).expect("a URL");
        let denied = client.expect("a client").get(url, HeaderMap::new(), 1).await.expect_err("a denial");
        assert!(denied.to_string().contains("is not a public address"), "{denied}");
        assert!(denied.has_reason(Reason::LoginUrlDenied), "{denied}");
        let accepted = listener.into_std().expect("a listener").accept();
        assert!(accepted.is_err(), "it was connected to");
    }

    #[cfg(feature = "login")]
    #[tokio::test]
    async fn a_server_names_no_address_that_is_less_public_than_its_own() {
        for (server, expected) in [
            ("https://1.1.1.1/mcp", AllowedAddresses::Public),
            ("https://192.168.7.7/mcp", AllowedAddresses::Private),
            ("https://[fd00::7]/mcp", AllowedAddresses::Private),
            ("http://127.0.0.1:1/mcp", AllowedAddresses::Local),
            ("http://localhost:1/mcp", AllowedAddresses::Local),
            ("https://169.254.169.254/mcp", AllowedAddresses::Public),
            // The top-level domain without addresses (RFC 6761).
            ("https://mcp.invalid/mcp", AllowedAddresses::Public),
        ] {
            let url = Url::parse(server).expect("a URL");
            assert_eq!(AllowedAddresses::for_server(&url).await, expected, "{server}");
        }
        for (ip, from_public, from_private, from_local) in [
            ("8.8.8.8", true, true, true),
            ("10.1.2.3", false, true, true),
            ("::ffff:192.168.1.1", false, true, true),
            ("fd00::1", false, true, true),
            ("127.0.0.1", false, false, true),
            ("::1", false, false, true),
            ("169.254.169.254", false, false, false),
            ("fe80::1", false, false, false),
            ("0.0.0.0", false, false, false),
        ] {
            let address = ip.parse().expect("an address");
            for (addresses, expected) in [
                (AllowedAddresses::Public, from_public),
                (AllowedAddresses::Private, from_private),
                (AllowedAddresses::Local, from_local),
            ] {
                assert_eq!(addresses.contains(address), expected, "{ip} {addresses:?}");
                let guard =
                    ClientGuard { addresses, source: UrlSource::RemoteServer, ..ClientGuard::default() };
                let host = if address.is_ipv6() { format!("[{ip}]") } else { ip.to_owned() };
                assert_eq!(
                    guard.parse_url(&format!("https://{host}/x")).is_ok(),
                    expected,
                    "{ip} {addresses:?}"
                );
            }
        }
        let public = ClientGuard { source: UrlSource::RemoteServer, ..ClientGuard::default() };
        assert!(public.parse_url("http://localhost:8080/page").is_err());
    }
}
