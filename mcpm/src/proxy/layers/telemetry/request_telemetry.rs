//! One request on its way: what is known of it, and when its parts began.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use http::{HeaderMap, Method, StatusCode, Version, header};
use http_body::Body as _;
use opentelemetry::{
    Context, KeyValue,
    trace::{Span as _, SpanBuilder, SpanContext, SpanKind, TraceContextExt as _, Tracer as _},
};
use opentelemetry_sdk::trace::Span;

use super::{
    operation::{InitializeParams, Operation, OperationOutcome, OperationTarget},
    report,
    sse_pending::SsePending,
};
use crate::{
    mcp::{era::ModernMeta, message::Message},
    proxy::{
        audited_request::{Peer, forwarded_client},
        denial::Denial,
        external_url::ExternalUrlConfig,
        messages::RequestMessages,
        respond::{Request, Response},
    },
    telemetry::{Telemetry, TraceContext, cut, http_method, parent_and_link},
};

const MCP_SESSION_ID: &str = "mcp-session-id";
const MCP_PROTOCOL_VERSION: &str = "mcp-protocol-version";

/// One request.
#[derive(Debug)]
pub(crate) struct RequestTelemetry {
    pub(super) telemetry: Arc<Telemetry>,
    pub(super) info: RequestInfo,
    sse_pending: Arc<SsePending>,
    /// The same moment on both clocks.
    began: (SystemTime, Instant),
    state: Mutex<TelemetryState>,
}

/// What a request says of itself.
#[derive(Debug)]
pub(super) struct RequestInfo {
    pub(super) method: Method,
    pub(super) path: String,
    /// Where messages are posted: the whole path and query, which may hold the id of a session.
    path_and_query: String,
    /// As clients write it, in front of all proxies.
    pub(super) scheme: &'static str,
    pub(super) host: Option<String>,
    pub(super) version: &'static str,
    /// Who is at the other end of the connection.
    pub(super) peer: Option<SocketAddr>,
    /// Who called the proxy in front, if that is believed.
    pub(super) forwarded: Option<String>,
    pub(super) user_agent: Option<String>,
    pub(super) size: Option<u64>,
    pub(super) session: Option<String>,
    protocol: Option<String>,
    pub(super) is_stdio: bool,
    trace_context: TraceContext,
}

/// What is found out on the way.
#[derive(Debug, Default)]
pub(super) struct TelemetryState {
    /// Parts, and when each began.
    pub(super) phases: Vec<(&'static str, Instant)>,
    /// The request as a whole.
    pub(super) span: Option<Span>,
    /// Where that stands, also when it is over.
    span_context: Option<SpanContext>,
    /// What the server behind does.
    pub(super) backend_span: Option<(Span, Instant)>,
    /// When the server was reached.
    pub(super) sent_at: Option<Instant>,
    /// When the head of the server's answer was there.
    pub(super) response_started_at: Option<Instant>,
    pub(super) is_parsed: bool,
    pub(super) is_batch: bool,
    pub(super) operations: Vec<Operation>,
    pub(super) version: Option<String>,
    pub(super) client: Option<String>,
    pub(super) response: Option<ResponseInfo>,
    /// Whether the answer may come on another stream.
    awaits_sse_response: bool,
    /// How the request of HTTP ended, while the answer is still to come on another stream.
    post_result: Option<(RequestOutcome, SentBody)>,
    /// The place that was named in this stream.
    message_endpoint: Option<Arc<str>>,
    is_finished: bool,
    /// Whether nobody has found out yet who sent it, where callers are asked who they are.
    is_unauthenticated: bool,
}

/// The head of an answer.
#[derive(Debug)]
pub(super) struct ResponseInfo {
    pub(super) at: Instant,
    pub(super) status: StatusCode,
    /// The session that was opened.
    pub(super) session: Option<String>,
    pub(super) denial: Option<Denial>,
    pub(super) is_events: bool,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestOutcome {
    /// All of the answer went to the client.
    Complete,
    /// The answer broke off.
    Truncated,
    /// The client went away before.
    ClientGone,
    /// There is a defect in mcpm.
    Panicked,
}

/// What went to the client.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SentBody {
    pub(super) size: u64,
    /// When the first byte went.
    pub(super) first_byte_at: Option<Instant>,
}

impl RequestInfo {
    pub(super) fn from_request(request: &Request, publicity: &ExternalUrlConfig, is_stdio: bool) -> Self {
        let headers = request.headers();
        let one = |name: &str| text(headers, name).map(|value| cut(value).to_owned());
        let public = if publicity.trust_proxy_headers { publicity.resolve(headers).origin } else { None };
        let (scheme, host) = match public.as_deref().and_then(|origin| origin.split_once("://")) {
            Some(("https", host)) => ("https", Some(cut(host).to_owned())),
            Some((_, host)) => ("http", Some(cut(host).to_owned())),
            None => ("http", one(header::HOST.as_str())),
        };
        Self {
            method: request.method().clone(),
            path: cut(request.uri().path()).to_owned(),
            path_and_query: request
                .uri()
                .path_and_query()
                .map_or_else(String::new, |place| place.as_str().to_owned()),
            scheme,
            host,
            version: if request.version() == Version::HTTP_10 { "1.0" } else { "1.1" },
            peer: request.extensions().get::<Peer>().map(|peer| peer.0),
            forwarded: if publicity.trust_proxy_headers { forwarded_client(headers) } else { None },
            user_agent: one(header::USER_AGENT.as_str()),
            size: request.body().size_hint().exact(),
            session: one(MCP_SESSION_ID),
            protocol: one(MCP_PROTOCOL_VERSION),
            is_stdio,
            trace_context: TraceContext::from_headers(headers),
        }
    }
}

impl RequestTelemetry {
    pub(super) fn start(telemetry: Arc<Telemetry>, elsewhere: Arc<SsePending>, heard: RequestInfo) -> Self {
        let state = TelemetryState { version: heard.protocol.clone(), ..TelemetryState::default() };
        let began = (SystemTime::now(), Instant::now());
        report::request_started(&telemetry, &heard);
        Self { telemetry, info: heard, sse_pending: elsewhere, began, state: Mutex::new(state) }
    }

    /// Says whether it is not known who sent it. A stranger has no say in what is sampled.
    pub(super) fn set_unauthenticated(&self, is: bool) {
        self.state().is_unauthenticated = is;
    }

    pub(super) fn state(&self) -> MutexGuard<'_, TelemetryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the server behind has a pipe.
    pub(super) fn is_stdio(&self) -> bool {
        self.info.is_stdio
    }

    /// When it began.
    pub(super) fn started_at(&self) -> Instant {
        self.began.1
    }

    /// A moment on the clock of spans.
    pub(super) fn to_system_time(&self, at: Instant) -> SystemTime {
        self.began.0 + at.saturating_duration_since(self.began.1)
    }

    /// A part begins, and with it ends the one before.
    pub(super) fn begin_phase(&self, part: &'static str) {
        self.state().phases.push((part, Instant::now()));
    }

    /// Learns what is asked for, once, and begins the span of the request.
    pub(in crate::proxy) fn set_messages(self: &Arc<Self>, asked: &RequestMessages) {
        if self.parse_messages(asked) && !self.sse_pending.register(&self.info.path_and_query, self) {
            self.state().awaits_sse_response = false;
        }
    }

    /// Returns whether an answer may be expected on another stream.
    fn parse_messages(&self, asked: &RequestMessages) -> bool {
        let mut state = self.state();
        if std::mem::replace(&mut state.is_parsed, true) {
            return false;
        }
        state.is_batch = asked.is_batch();
        state.operations = asked.messages().iter().filter_map(Operation::of).collect();
        let mut carried = TraceContext::default();
        if let Some(message) = asked.single() {
            if message.may_have_meta() {
                carried = TraceContext::from_params(message.params());
                let version = ModernMeta::of(message).and_then(|meta| meta.version());
                state.version = version.map(|version| cut(&version).to_owned()).or(state.version.take());
            }
            if message.method() == "initialize" {
                let hello = InitializeParams::of(message);
                state.client = hello.client().map(str::to_owned);
                state.version = hello.protocol_version.map(|version| cut(&version).to_owned());
            }
        }
        self.begin_span(&mut state, &carried);
        // Before anything is sent, since the answer may come before the request is said to be taken.
        state.awaits_sse_response = state.operations.iter().any(Operation::is_request);
        state.awaits_sse_response
    }

    /// The ids of the trace, and of the span of the request in it; `None` when requests are counted alone.
    pub(in crate::proxy) fn trace_ids(&self) -> Option<(String, String)> {
        let mut state = self.state();
        if state.span_context.is_none() {
            self.begin_span(&mut state, &TraceContext::default());
        }
        let place = state.span_context.as_ref()?;
        Some((place.trace_id().to_string(), place.span_id().to_string()))
    }

    fn begin_span(&self, state: &mut TelemetryState, message: &TraceContext) {
        let Some(tracer) = &self.telemetry.tracer else { return };
        let (parent, link) = match parent_and_link(message, &self.info.trace_context) {
            // With a parent, that one's decision would be taken.
            (parent, _) if state.is_unauthenticated => (None, parent),
            both => both,
        };
        let title = match &state.operations[..] {
            [one] if !state.is_batch => one.span_name(),
            _ => http_method(&self.info.method).into(),
        };
        let builder = SpanBuilder::from_name(title).with_kind(SpanKind::Server).with_start_time(self.began.0);
        let mut span = tracer.build_with_context(builder, &child_context(parent));
        if let Some(link) = link {
            span.add_link(link, Vec::new());
        }
        state.span_context = Some(span.span_context().clone());
        state.span = Some(span);
    }

    /// The request goes to the server behind. Returns its place in the trace, if there is one.
    pub(super) fn begin_backend_span(&self) -> Option<TraceContext> {
        let mut state = self.state();
        if state.span.is_none() {
            self.begin_span(&mut state, &TraceContext::default());
        }
        let now = Instant::now();
        let parent = state.span.as_ref()?.span_context().clone();
        let builder = SpanBuilder::from_name("backend")
            .with_kind(SpanKind::Client)
            .with_start_time(self.to_system_time(now));
        let span = self.telemetry.tracer.as_ref()?.build_with_context(builder, &child_context(Some(parent)));
        let place = TraceContext::from_span(span.span_context());
        state.backend_span = Some((span, now));
        Some(place)
    }

    /// The server behind was reached.
    pub(in crate::proxy) fn mark_sent(&self) {
        self.state().sent_at.get_or_insert_with(Instant::now);
    }

    /// The server behind began to answer.
    pub(super) fn mark_response_started(&self) {
        self.state().response_started_at = Some(Instant::now());
    }

    /// A request of it was answered.
    pub(super) fn record_response(&self, asked: &Message, answer: &Message) {
        let took = self.began.1.elapsed();
        let mut state = self.state();
        let open = |one: &&mut Operation| one.outcome.is_none() && one.matches(asked);
        if let Some(operation) = state.operations.iter_mut().find(open) {
            let is_call = matches!(operation.target, OperationTarget::Tool(_));
            operation.outcome = Some(OperationOutcome::of(answer, is_call, seconds(took)));
        }
    }

    /// The head of the answer is there.
    pub(super) fn on_response(&self, response: &Response) {
        let mut state = self.state();
        if state.span.is_none() {
            self.begin_span(&mut state, &TraceContext::default());
        }
        let headers = response.headers();
        let kind = text(headers, header::CONTENT_TYPE.as_str()).unwrap_or_default();
        state.response = Some(ResponseInfo {
            at: Instant::now(),
            status: response.status(),
            session: text(headers, MCP_SESSION_ID).map(str::to_owned),
            denial: response.extensions().get::<Denial>().cloned(),
            is_events: kind.trim_start().starts_with("text/event-stream"),
        });
    }

    /// It is over, but for what is answered on another stream.
    pub(super) fn finish(self: &Arc<Self>, ended: RequestOutcome, flow: SentBody) {
        let mut state = self.state();
        if state.is_finished || state.post_result.is_some() {
            return;
        }
        report::http_finished(self, &state, ended);
        let is_taken = state.response.as_ref().is_some_and(|head| head.status == StatusCode::ACCEPTED);
        if state.awaits_sse_response
            && is_taken
            && ended == RequestOutcome::Complete
            && state.operations.iter().any(is_open)
        {
            state.post_result = Some((ended, flow));
            return;
        }
        let was_expected = std::mem::take(&mut state.awaits_sse_response);
        let opened = state.message_endpoint.take();
        self.end(&mut state, ended, flow);
        drop(state);
        if was_expected {
            self.sse_pending.forget(&self.info.path_and_query, self);
        }
        if let Some(place) = opened {
            self.sse_pending.close(&place);
        }
    }

    fn end(&self, state: &mut TelemetryState, ended: RequestOutcome, flow: SentBody) {
        state.is_finished = true;
        report::operations_finished(self, state, ended, flow);
    }

    /// A place is named, in this stream, where messages are posted that are answered here.
    pub(in crate::proxy) fn announce_endpoint(&self, place: &str, path: &str) {
        let mut state = self.state();
        if !state.is_finished && state.message_endpoint.is_none() {
            state.message_endpoint = self.sse_pending.open(place, path);
        }
    }

    /// A message is answered on this stream.
    pub(super) fn on_sse_response(&self, answer: &Message) {
        let opened = self.state().message_endpoint.clone();
        if let Some(place) = opened {
            self.sse_pending.on_response(&place, answer);
        }
    }

    /// Whether a message may answer what was asked for.
    pub(super) fn awaits_response(&self, answer: &Message) -> bool {
        self.state().operations.iter().any(|one| is_open(one) && one.matches(answer))
    }

    /// A message that answers it went out on another stream. Returns whether there is nothing more to come.
    pub(super) fn complete_on_sse(&self, answer: &Message) -> bool {
        self.record_response(answer, answer);
        let mut state = self.state();
        if state.operations.iter().any(is_open) {
            return false;
        }
        state.awaits_sse_response = false;
        if let Some((ended, flow)) = state.post_result.take() {
            self.end(&mut state, ended, flow);
        }
        true
    }

    /// The stream is over on which the answer would have come.
    pub(super) fn on_sse_closed(&self) {
        let mut state = self.state();
        state.awaits_sse_response = false;
        if let Some((_, flow)) = state.post_result.take() {
            self.end(&mut state, RequestOutcome::ClientGone, flow);
        }
    }
}

/// Whether an answer is still to come.
fn is_open(operation: &Operation) -> bool {
    operation.is_request() && operation.outcome.is_none()
}

/// What a span that begins under `parent` needs to know.
pub(super) fn child_context(parent: Option<SpanContext>) -> Context {
    match parent {
        Some(parent) => Context::new().with_remote_span_context(parent),
        None => Context::new(),
    }
}

pub(super) fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// One more attribute.
pub(super) fn attribute(key: &'static str, value: impl Into<opentelemetry::Value>) -> KeyValue {
    KeyValue::new(key, value)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        environment::Variables,
        options::{OptionSet as _, ProxyOptions, SharedOptions},
        proxy::{body::Body, external_url::ExternalUrlConfig, respond},
        telemetry::TelemetrySpec,
    };

    /// Measures, and samples nothing of its own.
    fn telemetry() -> Arc<Telemetry> {
        let mut options = ProxyOptions::default();
        for (name, value) in [("otel-endpoint", "http://127.0.0.1:1"), ("otel-sampling-rate", "0")] {
            options.set(name, value).expect("an option");
        }
        let variables = Variables::default();
        let spec = TelemetrySpec::read(&SharedOptions::from(&options), "s", Path::new("/"), &variables);
        let spec = spec.expect("options").expect("telemetry");
        Arc::new(Telemetry::start(&spec, &[], &variables, "s", "http").expect("telemetry"))
    }

    #[test]
    fn unauthenticated_callers_cannot_influence_sampling() {
        let telemetry = telemetry();
        for is_stranger in [false, true] {
            let mut request = Request::new(Body::empty());
            let place = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
            request.headers_mut().insert("traceparent", place.parse().expect("a value"));
            let heard = RequestInfo::from_request(&request, &ExternalUrlConfig::default(), false);
            let journey = RequestTelemetry::start(Arc::clone(&telemetry), Arc::default(), heard);
            journey.set_unauthenticated(is_stranger);
            journey.on_response(&respond::empty(StatusCode::UNAUTHORIZED));
            let state = journey.state();
            let span = state.span.as_ref().expect("a span").span_context();
            assert_eq!(span.is_sampled(), !is_stranger);
            assert_eq!(span.trace_id().to_string() == place[3..35], !is_stranger);
        }
    }
}
