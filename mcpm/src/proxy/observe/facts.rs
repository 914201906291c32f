//! Metadata of a request, read once from its head for the audit log, metrics and traces.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Instant, SystemTime},
};

use http::{HeaderMap, HeaderName, Method, Version, header};
use http_body::Body as _;
use memchr::memmem;

use crate::{
    proxy::{
        external_url::{ExternalUrl, ExternalUrlConfig},
        respond::Request,
    },
    telemetry::{TraceContext, cut},
};

pub(super) const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The peer of a connection, in the extensions of observed requests and of requests from this process.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Peer {
    Address(SocketAddr),
    /// The process that the proxy runs in.
    InProcess,
}

impl Peer {
    pub(super) fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Address(address) => Some(address),
            Self::InProcess => None,
        }
    }

    /// The external URL of the proxy for the sender of a request. No reverse proxy is in front of a client in this
    /// process.
    pub(crate) fn external_url(config: &ExternalUrlConfig, request: &Request) -> ExternalUrl {
        match request.extensions().get::<Self>() {
            Some(Self::InProcess) => ExternalUrl::default(),
            _ => config.resolve(request.headers()),
        }
    }
}

/// The data about a request that its head contains.
#[derive(Debug)]
#[cfg_attr(not(feature = "telemetry"), expect(dead_code, reason = "the audit log reads a part of it"))]
pub(super) struct RequestFacts {
    /// When the request arrived, on both clocks.
    pub(super) began: (SystemTime, Instant),
    pub(super) method: Method,
    texts: HeadTexts,
    /// The scheme as clients see it, in front of trusted reverse proxies.
    pub(super) scheme: &'static str,
    pub(super) version: &'static str,
    /// The peer of the connection, if it is known.
    pub(super) peer: Option<Peer>,
    /// The client that a trusted reverse proxy names.
    pub(super) forwarded: Option<IpAddr>,
    /// Size of the body, if known in advance.
    pub(super) size: Option<u64>,
    /// The trace context in the headers; only read for spans.
    pub(super) trace_context: TraceContext,
    /// Whether `Accept` names event streams, and whether it allows them.
    pub(super) names_events: bool,
    pub(super) accepts_events: bool,
}

/// Texts of the request head in one allocation: the concatenated texts, and the position where each one ends.
#[derive(Debug, Default)]
struct HeadTexts {
    text: String,
    ends: [usize; 5],
}

/// A text of the head.
#[derive(Debug, Clone, Copy)]
enum HeadText {
    /// Path and query, which may hold the id of a session.
    Target,
    /// The host as clients see it; only read for spans.
    Host,
    /// The `User-Agent` header; only read for spans.
    UserAgent,
    Session,
    Protocol,
}

impl HeadTexts {
    fn new(texts: [Option<&str>; 5]) -> Self {
        let length = texts.iter().flatten().map(|text| text.len()).sum();
        let mut all = Self { text: String::with_capacity(length), ..Self::default() };
        for (text, end) in texts.into_iter().zip(&mut all.ends) {
            all.text += text.unwrap_or_default();
            *end = all.text.len();
        }
        all
    }

    /// The text; empty if it is missing.
    fn get(&self, which: HeadText) -> &str {
        let which = which as usize;
        let start = which.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.text.get(start..self.ends[which]).unwrap_or_default()
    }

    fn some(&self, which: HeadText) -> Option<&str> {
        Some(self.get(which)).filter(|text| !text.is_empty())
    }
}

#[cfg_attr(not(feature = "telemetry"), expect(dead_code, reason = "the audit log reads a part of it"))]
impl RequestFacts {
    /// Path and query, which may hold the id of a session.
    pub(super) fn path_and_query(&self) -> &str {
        self.texts.get(HeadText::Target)
    }

    /// The path, without the query, which may hold secrets.
    pub(super) fn path(&self) -> &str {
        let target = self.path_and_query();
        target.split_once('?').map_or(target, |(path, _)| path)
    }

    pub(super) fn host(&self) -> Option<&str> {
        self.texts.some(HeadText::Host)
    }

    pub(super) fn user_agent(&self) -> Option<&str> {
        self.texts.some(HeadText::UserAgent)
    }

    pub(super) fn session(&self) -> Option<&str> {
        self.texts.some(HeadText::Session)
    }

    pub(super) fn protocol(&self) -> Option<&str> {
        self.texts.some(HeadText::Protocol)
    }

    /// Reads the head of a request. Data that only spans contain is omitted unless the request `is_traced`.
    pub(super) fn from_request(request: &Request, external_url: &ExternalUrlConfig, is_traced: bool) -> Self {
        let headers = request.headers();
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).map(cut);
        let trusted = external_url.trust_proxy_headers;
        let origin = if trusted { external_url.resolve(headers).origin } else { None };
        let (scheme, host) = match origin.as_deref().and_then(|origin| origin.split_once("://")) {
            Some(("https", host)) => ("https", Some(cut(host))),
            Some((_, host)) => ("http", Some(cut(host))),
            None => ("http", if is_traced { text(header::HOST) } else { None }),
        };
        let uri = request.uri();
        let (names_events, accepts_events) = event_streams(headers);
        Self {
            began: (SystemTime::now(), Instant::now()),
            method: request.method().clone(),
            texts: HeadTexts::new([
                uri.path_and_query().map(|path| path.as_str()),
                host,
                if is_traced { text(header::USER_AGENT) } else { None },
                text(MCP_SESSION_ID),
                text(MCP_PROTOCOL_VERSION),
            ]),
            scheme,
            version: if request.version() == Version::HTTP_10 { "1.0" } else { "1.1" },
            peer: request.extensions().get::<Peer>().copied(),
            forwarded: if trusted { forwarded_client(headers) } else { None },
            size: request.body().size_hint().exact(),
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

/// Whether `Accept` names event streams, and whether it allows them. A request without the header allows them.
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

/// The client of the reverse proxy: the last entry of `X-Forwarded-For`, which the reverse proxy itself has appended.
fn forwarded_client(headers: &HeaderMap) -> Option<IpAddr> {
    let line = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
    line.rsplit(',').next()?.trim().parse().ok()
}
