//! Metadata of a request, read once from its head for the audit log, metrics and traces.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Instant, SystemTime},
};

use http::{HeaderMap, HeaderName, Method, Version, header};
use http_body::Body as _;
use memchr::memmem;

use crate::{
    proxy::{external_url::ExternalUrlConfig, respond::Request},
    telemetry::{TraceContext, cut},
};

pub(super) const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The other end of a connection, in the extensions of requests that are observed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Peer {
    Address(SocketAddr),
    /// The program that the proxy runs in.
    InProcess,
}

impl Peer {
    pub(super) fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Address(address) => Some(address),
            Self::InProcess => None,
        }
    }
}

/// What is known of a request from its head.
#[derive(Debug)]
#[cfg_attr(not(feature = "telemetry"), expect(dead_code, reason = "the audit log reads a part of it"))]
pub(super) struct RequestFacts {
    /// When the request arrived, on both clocks.
    pub(super) began: (SystemTime, Instant),
    pub(super) method: Method,
    /// Path and query, which may hold the id of a session.
    pub(super) path_and_query: String,
    /// The scheme as clients see it, in front of all trusted proxies.
    pub(super) scheme: &'static str,
    /// The host as clients see it; only for spans.
    pub(super) host: Option<String>,
    pub(super) version: &'static str,
    /// The other end of the connection, if it is known.
    pub(super) peer: Option<Peer>,
    /// The client of a trusted proxy in front.
    pub(super) forwarded: Option<IpAddr>,
    /// Only for spans.
    pub(super) user_agent: Option<String>,
    /// Size of the body, if known in advance.
    pub(super) size: Option<u64>,
    pub(super) session: Option<String>,
    pub(super) protocol: Option<String>,
    /// Only for spans.
    pub(super) trace_context: TraceContext,
    /// Whether `Accept` names event streams, and whether it allows them.
    pub(super) names_events: bool,
    pub(super) accepts_events: bool,
}

impl RequestFacts {
    /// The path, without the query, which may hold secrets.
    pub(super) fn path(&self) -> &str {
        self.path_and_query.split_once('?').map_or(&*self.path_and_query, |(path, _)| path)
    }

    /// Reads the head of a request. What only spans show is left out unless the request `is_traced`.
    pub(super) fn from_request(request: &Request, external_url: &ExternalUrlConfig, is_traced: bool) -> Self {
        let headers = request.headers();
        let text = |name: HeaderName| {
            headers.get(name).and_then(|value| value.to_str().ok()).map(|value| cut(value).to_owned())
        };
        let trusted = external_url.trust_proxy_headers;
        let origin = if trusted { external_url.resolve(headers).origin } else { None };
        let (scheme, host) = match origin.as_deref().and_then(|origin| origin.split_once("://")) {
            Some(("https", host)) => ("https", Some(cut(host).to_owned())),
            Some((_, host)) => ("http", Some(cut(host).to_owned())),
            None => ("http", if is_traced { text(header::HOST) } else { None }),
        };
        let uri = request.uri();
        let (names_events, accepts_events) = event_streams(headers);
        Self {
            began: (SystemTime::now(), Instant::now()),
            method: request.method().clone(),
            path_and_query: uri.path_and_query().map_or_else(String::new, |path| path.as_str().to_owned()),
            scheme,
            host,
            version: if request.version() == Version::HTTP_10 { "1.0" } else { "1.1" },
            peer: request.extensions().get::<Peer>().copied(),
            forwarded: if trusted { forwarded_client(headers) } else { None },
            user_agent: if is_traced { text(header::USER_AGENT) } else { None },
            size: request.body().size_hint().exact(),
            session: text(MCP_SESSION_ID),
            protocol: text(MCP_PROTOCOL_VERSION),
            trace_context: if is_traced {
                TraceContext::from_headers(headers)
            } else {
                TraceContext::default()
            },
            names_events,
            accepts_events,
        }
    }
}

/// Whether `Accept` names event streams, and whether it allows them, which a request without the header does.
fn event_streams(headers: &HeaderMap) -> (bool, bool) {
    let (mut names, mut accepts, mut is_missing) = (false, false, true);
    for line in headers.get_all(header::ACCEPT) {
        is_missing = false;
        let line = line.as_bytes();
        let has = |kind: &[u8]| {
            memmem::find(line, kind).is_some()
                || line.windows(kind.len()).any(|part| part.eq_ignore_ascii_case(kind))
        };
        names |= has(b"text/event-stream");
        accepts |= names || has(b"text/*") || has(b"*/*");
    }
    (names, accepts || is_missing)
}

/// The client of the proxy in front: the last entry of `X-Forwarded-For`, which that proxy wrote itself.
fn forwarded_client(headers: &HeaderMap) -> Option<IpAddr> {
    let line = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
    line.rsplit(',').next()?.trim().parse().ok()
}
