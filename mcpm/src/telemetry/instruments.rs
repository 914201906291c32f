//! Defines the metrics, with the names of the semantic conventions (MCP, HTTP) and, if configured, also with legacy
//! names.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use opentelemetry::{
    KeyValue,
    metrics::{BoundCounter, BoundHistogram, BoundUpDownCounter, Counter, Histogram, Meter, UpDownCounter},
};

use super::{label_sets::LabelSets, labels::NameLabels};

/// Histogram bounds in seconds, from the MCP conventions.
const BOUNDS: [f64; 14] = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// Histogram bounds in seconds, from the HTTP conventions.
const HTTP_BOUNDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];
/// Histogram bounds in seconds for sessions, which are longer.
const SESSION_BOUNDS: [f64; 12] =
    [1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 1800.0, 3600.0, 14400.0, 86400.0];
/// Maximum number of open sessions whose duration is measured.
const MAX_OPEN_SESSIONS: usize = 10_000;
/// Age at which an open session is removed if the maximum number is reached, because most clients never close their
/// sessions.
const MAX_SESSION_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// The metrics.
#[derive(Debug)]
pub(crate) struct Instruments {
    /// HTTP requests, from the first byte to the last; for GET streams, until the response head.
    pub(crate) http: Histogram<f64>,
    /// Active requests, including streams.
    pub(crate) active: UpDownCounter<i64>,
    /// MCP requests and notifications.
    pub(crate) operations: Histogram<f64>,
    /// Denied requests, by the reason.
    pub(crate) denials: Counter<u64>,
    /// Legacy metrics.
    pub(crate) legacy: Option<Legacy>,
    /// The instruments of requests without an error, by their labels.
    pub(crate) bound_active: LabelSets<ActiveLabels, BoundUpDownCounter<i64>>,
    pub(crate) bound_http: LabelSets<HttpLabels, BoundHistogram<f64>>,
    pub(crate) bound_operations: LabelSets<OperationLabels, BoundHistogram<f64>>,
    sessions: Histogram<f64>,
    tools: NameLabels,
    prompts: NameLabels,
    open_sessions: Mutex<HashMap<u64, OpenSession>>,
    hasher: RandomState,
}

/// Metrics under legacy names.
#[derive(Debug)]
pub(crate) struct Legacy {
    pub(crate) requests: Counter<u64>,
    pub(crate) duration: Histogram<f64>,
    pub(crate) connections: UpDownCounter<i64>,
    pub(crate) tool_calls: Counter<u64>,
    /// Labels: the server's name and its transport.
    pub(crate) server: [KeyValue; 2],
    /// The instruments of requests without an error, by their labels.
    pub(crate) bound_requests: LabelSets<LegacyLabels, (BoundCounter<u64>, BoundHistogram<f64>)>,
    pub(crate) bound_tool_calls: LabelSets<String, BoundCounter<u64>>,
    pub(crate) bound_connections: OnceLock<BoundUpDownCounter<i64>>,
}

/// The labels of active requests: method and scheme.
pub(crate) type ActiveLabels = (&'static str, &'static str);

/// The labels of an HTTP request without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HttpLabels {
    pub(crate) method: &'static str,
    pub(crate) scheme: &'static str,
    pub(crate) version: &'static str,
    pub(crate) route: Option<&'static str>,
    pub(crate) status: Option<u16>,
}

/// The labels of an MCP request or notification without an error.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OperationLabels {
    pub(crate) method: &'static str,
    pub(crate) http_version: &'static str,
    pub(crate) mcp_version: Option<&'static str>,
    /// The tool or the prompt.
    pub(crate) target: Option<String>,
}

/// The legacy labels of a request without an error.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LegacyLabels {
    pub(crate) http_method: &'static str,
    pub(crate) status: Option<u16>,
    pub(crate) mcp_method: &'static str,
    /// The tool or the prompt.
    pub(crate) target: Option<String>,
}

/// An open session.
#[derive(Debug)]
struct OpenSession {
    since: Instant,
    labels: Vec<KeyValue>,
}

impl Instruments {
    pub(super) fn new(meter: &Meter, legacy: bool, server: &str, transport: &'static str) -> Self {
        let seconds = |name: &'static str, text: &'static str, bounds: &[f64]| {
            let builder = meter.f64_histogram(name).with_unit("s").with_description(text);
            builder.with_boundaries(bounds.to_vec()).build()
        };
        let legacy = legacy.then(|| Legacy {
            requests: meter.u64_counter("mcpm_mcp_requests").with_description("Requests").build(),
            duration: seconds("mcpm_mcp_request_duration", "Duration of requests", &BOUNDS),
            connections: meter
                .i64_up_down_counter("mcpm_mcp_active_connections")
                .with_description("Requests in progress")
                .build(),
            tool_calls: meter.u64_counter("mcpm_mcp_tool_calls").with_description("Tool calls").build(),
            server: [KeyValue::new("server", server.to_owned()), KeyValue::new("transport", transport)],
            bound_requests: LabelSets::default(),
            bound_tool_calls: LabelSets::default(),
            bound_connections: OnceLock::new(),
        });
        Self {
            http: seconds("http.server.request.duration", "Duration of HTTP server requests", &HTTP_BOUNDS),
            active: meter
                .i64_up_down_counter("http.server.active_requests")
                .with_unit("{request}")
                .with_description("Number of active HTTP server requests")
                .build(),
            operations: seconds(
                "mcp.server.operation.duration",
                "Duration of MCP requests and notifications, as observed by the receiver",
                &BOUNDS,
            ),
            denials: meter.u64_counter("mcpm.denials").with_description("Denied requests, by reason").build(),
            legacy,
            bound_active: LabelSets::default(),
            bound_http: LabelSets::default(),
            bound_operations: LabelSets::default(),
            sessions: seconds(
                "mcp.server.session.duration",
                "Duration of MCP sessions, as observed by the server",
                &SESSION_BOUNDS,
            ),
            tools: NameLabels::default(),
            prompts: NameLabels::default(),
            open_sessions: Mutex::default(),
            hasher: RandomState::new(),
        }
    }

    /// The label of a tool; `known` if the server has responded to a call of it.
    pub(crate) fn tool(&self, name: &str, known: bool) -> String {
        self.tools.label(name, known)
    }

    /// The label of a prompt; `known` if the server has responded to a request for it.
    pub(crate) fn prompt(&self, name: &str, known: bool) -> String {
        self.prompts.label(name, known)
    }

    /// Records the start of a session. Beyond the maximum number, its duration is not measured.
    pub(crate) fn session_opened(&self, session: &[u8], labels: Vec<KeyValue>) {
        let key = self.hasher.hash_one(session);
        let mut open = self.open_sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() == MAX_OPEN_SESSIONS {
            open.retain(|_, session| session.since.elapsed() < MAX_SESSION_AGE);
        }
        if open.len() < MAX_OPEN_SESSIONS {
            open.insert(key, OpenSession { since: Instant::now(), labels });
        }
    }

    /// Records the end of a session, which was closed or `lost`.
    pub(crate) fn session_closed(&self, session: &[u8], lost: bool) {
        let key = self.hasher.hash_one(session);
        let closed = self.open_sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        let Some(OpenSession { since, mut labels }) = closed else { return };
        if lost {
            labels.push(KeyValue::new("error.type", "session_lost"));
        }
        self.sessions.record(since.elapsed().as_secs_f64(), &labels);
    }

    /// Ends all sessions when the proxy stops.
    pub(super) fn end_sessions(&self) {
        let open = std::mem::take(&mut *self.open_sessions.lock().unwrap_or_else(PoisonError::into_inner));
        for OpenSession { since, labels } in open.into_values() {
            self.sessions.record(since.elapsed().as_secs_f64(), &labels);
        }
    }
}
