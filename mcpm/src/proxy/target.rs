//! The target of forwarded requests: the URL of an HTTP server, its current address, and the login to it.

use std::{
    borrow::Cow,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use http::{
    HeaderMap, HeaderValue, Uri, header,
    uri::{Authority, PathAndQuery},
};
use url::Url;

use super::last_seen::LastSeen;
use crate::{
    Error, ErrorKind, Result,
    auth::outgoing::OutgoingAuth,
    redact::url::redact_url_text,
    transport::{
        http::{Address, Dial, Http1Client},
        tls::TrustStore,
    },
};

/// The path of the MCP endpoint for clients, whatever the server's own path is.
pub(crate) const MCP_PATH: &str = "/mcp";
/// The path of SSE streams of the deprecated transport.
pub(crate) const SSE_PATH: &str = "/sse";

/// An HTTP server and its path.
#[derive(Debug)]
pub(crate) struct Target {
    /// The current instance, or the reason why there is none: a container's address changes when it restarts.
    instance: RwLock<std::result::Result<Arc<TargetInstance>, String>>,
    /// The number of instances so far.
    generation_counter: AtomicU64,
    /// The path of the server; `/` if the server may use all paths of its host.
    path: String,
    /// Prepended to every request's query.
    query: Option<String>,
    /// Headers that replace the client's headers of the same name in each request: clients must not choose them,
    /// whether they are secret or not.
    headers: HeaderMap,
    /// Authentication to a remote server.
    outgoing: Option<Arc<OutgoingAuth>>,
}

/// A server at its current address.
#[derive(Debug)]
pub(crate) struct TargetInstance {
    pub(crate) client: Http1Client,
    /// The value of the `Host` header.
    pub(crate) host: HeaderValue,
    /// `scheme://host[:port]`, for comparison.
    pub(crate) origin: String,
    /// The generation, which changes with each restart.
    pub(crate) generation: u64,
    /// The last exchange with it.
    pub(super) last_seen: LastSeen,
}

impl Target {
    /// Parses a target URI: `http` or `https`, with an optional path and query.
    pub(crate) fn parse(uri: &str) -> Result<Self> {
        Self::parse_with_trust(uri, TrustStore::default())
    }

    /// Parses the target URI of a server whose certificate is issued by an authority in `trust`.
    pub(crate) fn parse_with_trust(uri: &str, trust: TrustStore) -> Result<Self> {
        let bad = |reason: &str| {
            let shown = redact_url_text(uri);
            Error::new(ErrorKind::InvalidOption, format!("`{shown}` is not a valid target URI: {reason}"))
                .hint("use `http://HOST[:PORT][/PATH]` or `https://…`")
        };
        let url = Url::parse(uri).map_err(|error| bad(&error.to_string()))?;
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            _ => return Err(bad("the scheme is neither `http` nor `https`")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(bad("it contains credentials"));
        }
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or_else(|| bad("it has no host"))?;
        let port = url.port_or_known_default().ok_or_else(|| bad("it has no port"))?;
        let address = Address { host: host.trim_matches(['[', ']']).to_owned(), port, tls };
        let reached = TargetInstance::new(
            address,
            url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")),
            0,
            trust,
        )?;
        Ok(Self {
            instance: RwLock::new(Ok(Arc::new(reached))),
            generation_counter: AtomicU64::new(0),
            path: url.path().to_owned(),
            query: url.query().filter(|query| !query.is_empty()).map(str::to_owned),
            headers: HeaderMap::new(),
            outgoing: None,
        })
    }

    /// Sets headers for each request.
    pub(crate) fn with_headers(mut self, headers: HeaderMap) -> Self {
        self.headers = headers;
        self
    }

    /// Sets more headers for each request.
    pub(crate) fn add_headers(&mut self, headers: HeaderMap) {
        self.headers.extend(headers);
    }

    /// Adds the target's headers to those of a request.
    pub(crate) fn set_headers(&self, headers: &mut HeaderMap) {
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
    }

    /// The target's headers, with those of the current login.
    pub(crate) fn headers(&self) -> Cow<'_, HeaderMap> {
        let Some(token) = self.outgoing.as_ref().and_then(|outgoing| outgoing.current()) else {
            return Cow::Borrowed(&self.headers);
        };
        let mut headers = self.headers.clone();
        headers.insert(header::AUTHORIZATION, token);
        Cow::Owned(headers)
    }

    /// Authenticates requests with the token of `outgoing`.
    pub(crate) fn with_outgoing(mut self, outgoing: Option<Arc<OutgoingAuth>>) -> Self {
        self.outgoing = outgoing;
        self
    }

    /// Authentication to the server, if it is remote.
    pub(crate) fn outgoing(&self) -> Option<&Arc<OutgoingAuth>> {
        self.outgoing.as_ref()
    }

    /// Whether each request has a header of that name.
    pub(crate) fn sets_header(&self, name: &str) -> bool {
        self.headers.contains_key(name)
            || name == header::AUTHORIZATION.as_str()
                && self.outgoing.as_ref().is_some_and(|outgoing| outgoing.current().is_some())
    }

    /// A target that is not reachable yet.
    pub(crate) fn unreachable(reason: &str) -> Self {
        Self {
            instance: RwLock::new(Err(reason.to_owned())),
            generation_counter: AtomicU64::new(0),
            path: "/".to_owned(),
            query: None,
            headers: HeaderMap::new(),
            outgoing: None,
        }
    }

    /// Creates an instance of the server at an address, or at the other end of `dial`. Requests are not forwarded
    /// there yet.
    pub(crate) fn new_instance(
        &self,
        address: Address,
        dial: Option<Arc<dyn Dial>>,
    ) -> Result<TargetInstance> {
        let host = address.to_string();
        let life = self.generation_counter.fetch_add(1, Ordering::Relaxed) + 1;
        let mut reached = TargetInstance::new(address.clone(), host, life, TrustStore::default())?;
        if let Some(dial) = dial {
            reached.client = Http1Client::with_dialer(dial, address);
        }
        Ok(reached)
    }

    /// Forwards requests to this instance from now on.
    pub(crate) fn set_instance(&self, reached: TargetInstance) {
        *self.instance.write().unwrap_or_else(PoisonError::into_inner) = Ok(Arc::new(reached));
    }

    /// Marks the server as unreachable, with the reason.
    pub(crate) fn set_unreachable(&self, reason: &str) {
        *self.instance.write().unwrap_or_else(PoisonError::into_inner) = Err(reason.to_owned());
    }

    /// The current instance, or the reason why there is none.
    pub(crate) fn instance(&self) -> std::result::Result<Arc<TargetInstance>, String> {
        self.instance.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The path of the server.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Maps a client's URI to the server's.
    ///
    /// A server with a path of its own is reachable at that path, at `/mcp` and at `/`; other paths are unchanged,
    /// so that URLs from the server (a message endpoint, metadata) work.
    pub(crate) fn map_uri(&self, uri: &Uri) -> Uri {
        let path_of_client = uri.path();
        let path = match self.path.as_str() {
            "/" => path_of_client,
            path if path_of_client == MCP_PATH || path_of_client == "/" => path,
            _ => path_of_client,
        };
        if self.query.is_none() && path == path_of_client && uri.authority().is_none() {
            return uri.clone();
        }
        let query = match (self.query.as_deref(), uri.query()) {
            (Some(own), Some(path_of_client)) => format!("?{own}&{path_of_client}"),
            (Some(one), None) | (None, Some(one)) => format!("?{one}"),
            (None, None) => String::new(),
        };
        // Both parts were parsed as parts of URIs before.
        PathAndQuery::try_from(format!("{path}{query}")).map_or_else(|_| uri.clone(), Uri::from)
    }
}

impl TargetInstance {
    /// Resolves a URI reference that the server sent; `None` if it leads to another server, which must not receive the
    /// credentials.
    pub(crate) fn same_origin_uri(&self, base: &Uri, reference: &str) -> Option<Uri> {
        let base = Url::parse(&format!("{}{base}", self.origin)).ok()?;
        let url = base.join(reference).ok().filter(|url| url.origin() == base.origin())?;
        url[url::Position::BeforePath..url::Position::AfterQuery].parse().ok()
    }

    fn new(address: Address, host: String, life: u64, trust: TrustStore) -> Result<Self> {
        let bad = || Error::new(ErrorKind::InvalidOption, format!("`{host}` is not a valid host"));
        host.parse::<Authority>().map_err(|error| bad().source(error))?;
        let value = HeaderValue::from_str(&host).map_err(|error| bad().source(error))?;
        let scheme = if address.tls { "https" } else { "http" };
        let origin = format!("{scheme}://{host}");
        let client = Http1Client::with_trust(address, trust);
        Ok(Self { client, host: value, origin, generation: life, last_seen: LastSeen::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_target_is_not_doubled() {
        let mapped = |target: &str, asked: &str| {
            let target = Target::parse(target).expect("a target");
            target.map_uri(&asked.parse().expect("a URI")).to_string()
        };
        for (target, asked, sent) in [
            ("http://h:1", "/mcp", "/mcp"),
            ("http://h:1/", "/a/b?c=1", "/a/b?c=1"),
            ("http://h:1/v1/mcp", "/mcp", "/v1/mcp"),
            ("http://h:1/v1/mcp", "/v1/mcp?a=1", "/v1/mcp?a=1"),
            ("http://h:1/v1/mcp", "/", "/v1/mcp"),
            ("http://h:1/v1/mcp", "/messages?s=1", "/messages?s=1"),
            ("http://h:1/v1/mcp?key=k", "/mcp?a=1", "/v1/mcp?key=k&a=1"),
            ("http://h:1?key=k", "/mcp", "/mcp?key=k"),
            ("http://h:1/mcp", "http://proxy/mcp?x", "/mcp?x"),
        ] {
            assert_eq!(mapped(target, asked), sent, "{target} {asked}");
        }
    }

    #[test]
    fn what_is_no_target_is_refused() {
        for uri in ["", "h:1", "ftp://h", "http://", "http://u:p@h", "/mcp", "http://h:99999"] {
            let error = Target::parse(uri).expect_err(uri);
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{uri}");
        }
    }
}
