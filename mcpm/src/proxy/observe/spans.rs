//! Records metrics and traces of one request.
//!
//! An HTTP request is counted when its response has ended. The operations in the request are counted, and its spans are
//! ended, at the same time or, with the deprecated transport, when the JSON-RPC response has been sent on the stream of
//! the session ([`sse_pending`](super::sse_pending)).

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Instant, SystemTime},
};

use http::{Method, StatusCode};
use opentelemetry::{
    Context, KeyValue,
    trace::{
        Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt as _, TraceFlags, Tracer as _,
    },
};
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator, Span};

use super::{
    facts::RequestFacts,
    metrics::{self, attribute},
    operation::{Operation, OperationOutcome, OperationTarget, RequestRecord},
    outcome::{RequestOutcome, ResponseHead, SentBody},
    span_attributes::{count_of, http_attributes, mcp_attributes},
    sse_pending::PendingRequest,
};
use crate::{
    mcp::message::{Message, MessageKind},
    proxy::{
        denial::Denial,
        messages::{RequestMessages, ResponseMessage},
    },
    telemetry::{Telemetry, TraceContext, http_method, parent_and_link},
};

pub(super) use super::sse_pending::SsePending;

/// Maximum number of phases of a request before the server's work; the stack marks as many.
const MAX_PHASES: usize = 5;

/// One request in metrics and traces.
#[derive(Debug)]
pub(super) struct RequestTelemetry {
    telemetry: Arc<Telemetry>,
    facts: Arc<RequestFacts>,
    sse_pending: Arc<SsePending>,
    is_stdio: bool,
    state: Mutex<TelemetryState>,
}

#[derive(Debug, Default)]
struct TelemetryState {
    record: RequestRecord,
    is_parsed: bool,
    /// Phases, and when each began.
    phases: [Option<(&'static str, Instant)>; MAX_PHASES],
    /// The span of the whole request, if it is sampled. Boxed, because it is large and most requests are not sampled.
    span: Option<Box<Span>>,
    /// The context of that span, once the request has one.
    span_context: Option<SpanContext>,
    /// The span of the server's work, if it is sampled, and when it began.
    backend_span: Option<(Box<Span>, Instant)>,
    /// When the server had received the request.
    sent_at: Option<Instant>,
    /// When the head of the server's response arrived.
    response_started_at: Option<Instant>,
    /// Whether the response may arrive on another stream.
    awaits_sse_response: bool,
    /// How the HTTP request ended, while the response on another stream is pending.
    post_result: Option<(RequestOutcome, SentBody)>,
    /// The URL for messages that this stream has named.
    message_endpoint: Option<Arc<str>>,
    is_finished: bool,
    /// Whether callers have to authenticate and this one has not yet.
    is_unauthenticated: bool,
}

impl RequestTelemetry {
    /// Counts a request that begins.
    pub(super) fn start(
        telemetry: Arc<Telemetry>,
        facts: Arc<RequestFacts>,
        sse_pending: Arc<SsePending>,
        is_stdio: bool,
        requires_auth: bool,
    ) -> Self {
        metrics::request_started(&telemetry, &facts);
        let state = TelemetryState { is_unauthenticated: requires_auth, ..TelemetryState::default() };
        Self { telemetry, facts, sse_pending, is_stdio, state: Mutex::new(state) }
    }

    /// Counts the denial of a request that is not measured.
    pub(super) fn count_denial(telemetry: &Telemetry, denial: &Denial) {
        metrics::count_denial(telemetry, denial);
    }

    fn state(&self) -> MutexGuard<'_, TelemetryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the caller is authenticated. Only then may the caller's trace context decide about sampling.
    pub(super) fn set_authenticated(&self) {
        self.state().is_unauthenticated = false;
    }

    /// Begins a phase, which ends the previous one.
    pub(super) fn begin_phase(&self, phase: &'static str) {
        if !self.telemetry.traces() {
            return;
        }
        let mut state = self.state();
        if (state.span_context.is_none() || state.span.is_some())
            && let Some(free) = state.phases.iter_mut().find(|phase| phase.is_none())
        {
            *free = Some((phase, Instant::now()));
        }
    }

    /// Records the messages and begins the span of the request; only the first call has an effect.
    pub(super) fn set_messages(self: &Arc<Self>, messages: &RequestMessages) {
        let mut state = self.state();
        if std::mem::replace(&mut state.is_parsed, true) {
            return;
        }
        let carried = state.record.read(messages);
        self.begin_span(&mut state, &carried);
        // This has to be set before the request is sent, because the response may arrive before the server accepts the
        // request.
        state.awaits_sse_response = state.record.operations.iter().any(Operation::is_request);
        let awaits = state.awaits_sse_response;
        drop(state);
        if awaits && !self.sse_pending.register(self.facts.path_and_query(), || Arc::<Self>::clone(self)) {
            self.state().awaits_sse_response = false;
        }
    }

    /// Returns the ids of the trace and of the request's span; `None` if requests are not traced.
    pub(super) fn trace_ids(&self) -> Option<([u8; 16], [u8; 8])> {
        let mut state = self.state();
        if state.span_context.is_none() {
            self.begin_span(&mut state, &TraceContext::default());
        }
        let context = state.span_context.as_ref()?;
        Some((context.trace_id().to_bytes(), context.span_id().to_bytes()))
    }

    fn begin_span(&self, state: &mut TelemetryState, message: &TraceContext) {
        let Some(tracer) = &self.telemetry.tracer else { return };
        let (parent, link) = match parent_and_link(message, &self.facts.trace_context) {
            // As a parent, the caller's span would decide about sampling, so it is only linked.
            (parent, _) if state.is_unauthenticated => (None, parent),
            both => both,
        };
        let single = state.record.single();
        let name = single.map_or(http_method(&self.facts.method), |one| one.label);
        let builder =
            SpanBuilder::from_name(name).with_kind(SpanKind::Server).with_start_time(self.facts.began.0);
        let mut span = tracer.build_with_context(builder, &child_context(parent));
        state.span_context = Some(span.span_context().clone());
        if !span.is_recording() {
            // Most requests are not sampled.
            return;
        }
        if let Some(one) = single {
            span.update_name(one.span_name());
        }
        if let Some(link) = link {
            span.add_link(link, Vec::new());
        }
        state.span = Some(Box::new(span));
    }

    /// Begins the span of the server's work. Returns its trace context; `None` if requests are not traced.
    pub(super) fn begin_backend_span(&self) -> Option<TraceContext> {
        let mut state = self.state();
        if state.span_context.is_none() {
            self.begin_span(&mut state, &TraceContext::default());
        }
        let parent = state.span_context.clone()?;
        if state.span.is_none() {
            // The server also gets the ids of a span that is not sampled.
            let id = RandomIdGenerator::default().new_span_id();
            let state = parent.trace_state().clone();
            let span = SpanContext::new(parent.trace_id(), id, TraceFlags::default(), false, state);
            return Some(TraceContext::from_span(&span));
        }
        let now = Instant::now();
        let builder = SpanBuilder::from_name("backend")
            .with_kind(SpanKind::Client)
            .with_start_time(self.facts.to_system_time(now));
        let span = self.telemetry.tracer.as_ref()?.build_with_context(builder, &child_context(Some(parent)));
        let context = TraceContext::from_span(span.span_context());
        state.backend_span = Some((Box::new(span), now));
        Some(context)
    }

    /// Whether the spans of the request are exported.
    pub(super) fn is_recording(&self) -> bool {
        self.state().span.is_some()
    }

    pub(super) fn mark_sent(&self) {
        self.state().sent_at.get_or_insert_with(Instant::now);
    }

    pub(super) fn mark_response_started(&self) {
        self.state().response_started_at = Some(Instant::now());
    }

    /// Whether the response may contain messages that are measured.
    pub(super) fn reads_messages(&self) -> bool {
        self.facts.method == Method::POST || self.facts.method == Method::GET && self.facts.accepts_events
    }

    /// Records a message of the response, on its way to the client.
    pub(super) fn on_message(&self, response: &ResponseMessage<'_>) {
        if !self.reads_messages() {
            return;
        }
        if self.facts.method == Method::POST {
            if let Some(request) = response.request {
                self.record_response(request, response.message);
            }
        } else if response.message.kind() == MessageKind::Response {
            self.on_sse_response(response.message);
        }
        if let Some(denial) = response.denial {
            metrics::count_denial(&self.telemetry, denial);
        }
    }

    fn record_response(&self, request: &Message, response: &Message) {
        let seconds = self.facts.began.1.elapsed().as_secs_f64();
        let mut state = self.state();
        let open = |one: &&mut Operation| one.outcome.is_none() && one.matches(request);
        if let Some(operation) = state.record.operations.iter_mut().find(open) {
            let is_call = matches!(operation.target, OperationTarget::Tool(_));
            operation.outcome = Some(OperationOutcome::of(response, is_call, seconds));
        }
    }

    /// Records a response to another request, which was posted to the endpoint of this stream.
    fn on_sse_response(&self, response: &Message) {
        let endpoint = self.state().message_endpoint.clone();
        if let Some(endpoint) = endpoint {
            self.sse_pending.on_response(&endpoint, response);
        }
    }

    pub(super) fn on_response(&self, head: Arc<ResponseHead>) {
        let mut state = self.state();
        if state.span_context.is_none() {
            self.begin_span(&mut state, &TraceContext::default());
        }
        state.record.response = Some(head);
    }

    /// Ends the HTTP request, and everything else unless a response is pending on another stream.
    pub(super) fn finish(&self, outcome: RequestOutcome, sent: SentBody) {
        let mut state = self.state();
        if state.is_finished || state.post_result.is_some() {
            return;
        }
        metrics::http_finished(&self.telemetry, &self.facts, &state.record, outcome);
        let is_accepted =
            state.record.response.as_ref().is_some_and(|head| head.status == StatusCode::ACCEPTED);
        if state.awaits_sse_response
            && is_accepted
            && outcome == RequestOutcome::Complete
            && state.record.operations.iter().any(Operation::is_open)
        {
            state.post_result = Some((outcome, sent));
            return;
        }
        let was_pending = std::mem::take(&mut state.awaits_sse_response);
        let endpoint = state.message_endpoint.take();
        self.end(&mut state, outcome, sent);
        drop(state);
        if was_pending {
            self.sse_pending.forget(self.facts.path_and_query(), self);
        }
        if let Some(endpoint) = endpoint {
            self.sse_pending.close(&endpoint);
        }
    }

    fn end(&self, state: &mut TelemetryState, outcome: RequestOutcome, sent: SentBody) {
        state.is_finished = true;
        let now = Instant::now();
        metrics::operations_finished(&self.telemetry, &self.facts, &state.record, outcome, now);
        if let Some(span) = state.span.take() {
            self.end_spans(state, *span, outcome, sent, now);
        }
    }

    pub(super) fn announce_endpoint(&self, endpoint: &str, path: &str) {
        let mut state = self.state();
        if !state.is_finished && state.message_endpoint.is_none() {
            state.message_endpoint = self.sse_pending.open(endpoint, path);
        }
    }

    /// Ends the span of the request and the span of the server's work, and creates the spans of the phases.
    fn end_spans(
        &self,
        state: &mut TelemetryState,
        mut span: Span,
        outcome: RequestOutcome,
        sent: SentBody,
        now: Instant,
    ) {
        self.phase_spans(state, &span.span_context().clone(), now);
        self.end_backend_span(state, outcome, sent, now);
        let (facts, record, telemetry) = (&*self.facts, &state.record, &*self.telemetry);
        span.set_attributes(http_attributes(facts, record, telemetry.legacy, outcome, sent, now));
        span.set_attributes(mcp_attributes(facts, record, telemetry, self.is_stdio, outcome));
        span.set_attributes(telemetry.variables.iter().cloned());
        let failed = record.operations.iter().find_map(|one| record.operation_error_type(one, outcome));
        let is_broken = record.status(outcome).is_none_or(|status| status >= 500);
        if let Some(failure) = failed.clone().or_else(|| record.error_type(outcome)) {
            span.set_attribute(attribute("error.type", failure));
        }
        // An error of the client (4xx) is not an error of a server span (HTTP conventions); a JSON-RPC error is one
        // (MCP conventions).
        if is_broken || outcome == RequestOutcome::Truncated || failed.is_some() {
            span.set_status(Status::error(""));
        }
        span.end_with_timestamp(self.facts.to_system_time(now));
    }

    fn child_span(
        &self,
        name: &'static str,
        parent: &SpanContext,
        from: Instant,
        to: Instant,
        attributes: Vec<KeyValue>,
    ) {
        let Some(tracer) = &self.telemetry.tracer else { return };
        let builder = SpanBuilder::from_name(name)
            .with_kind(SpanKind::Internal)
            .with_start_time(self.facts.to_system_time(from))
            .with_attributes(attributes);
        let mut span = tracer.build_with_context(builder, &child_context(Some(parent.clone())));
        span.end_with_timestamp(self.facts.to_system_time(to));
    }

    /// Creates the spans of the phases before the server's work: each phase ends when the next one begins.
    fn phase_spans(&self, state: &TelemetryState, parent: &SpanContext, now: Instant) {
        let head = state.record.response.as_deref();
        let last = state.backend_span.as_ref().map(|(_, at)| *at);
        let last = last.or(head.map(|head| head.at)).unwrap_or(now);
        let mut phases = state.phases.iter().flatten().peekable();
        while let Some((name, from)) = phases.next() {
            let next = phases.peek().map(|(_, next)| *next);
            let (to, is_last) = (next.unwrap_or(last), next.is_none() && state.backend_span.is_none());
            let denial = head.and_then(|head| head.denial.as_ref()).filter(|_| is_last);
            let attributes = denial.map(|denial| vec![attribute("mcpm.denial.reason", denial.reason.id())]);
            self.child_span(name, parent, *from, to, attributes.unwrap_or_default());
        }
    }

    fn end_backend_span(
        &self,
        state: &mut TelemetryState,
        outcome: RequestOutcome,
        sent: SentBody,
        now: Instant,
    ) {
        let Some((mut span, from)) = state.backend_span.take() else { return };
        let context = span.span_context().clone();
        let head = state.response_started_at.unwrap_or(now);
        self.child_span("queue", &context, from, state.sent_at.unwrap_or(head), Vec::new());
        if state.response_started_at.is_some() {
            let mut attributes = vec![attribute("http.response.body.size", count_of(sent.size))];
            if let Some(first) = sent.first_byte_at {
                let waited = first.duration_since(from).as_secs_f64();
                attributes.push(attribute("mcpm.time_to_first_byte", waited));
            }
            self.child_span("stream", &context, head, now, attributes);
        }
        let transport = if self.is_stdio { "pipe" } else { "tcp" };
        span.set_attribute(attribute("network.transport", transport));
        if state.sent_at.is_none() {
            span.set_attribute(attribute("error.type", "not_reached"));
            span.set_status(Status::error(""));
        } else if let Some(failure) = state.record.error_type(outcome) {
            span.set_attribute(attribute("error.type", failure));
            span.set_status(Status::error(""));
        }
        span.end_with_timestamp(self.facts.to_system_time(now));
    }
}

impl PendingRequest for RequestTelemetry {
    fn awaits_response(&self, response: &Message) -> bool {
        self.state().record.operations.iter().any(|one| one.is_open() && one.matches(response))
    }

    fn complete(&self, response: &Message) -> bool {
        self.record_response(response, response);
        let mut state = self.state();
        if state.record.operations.iter().any(Operation::is_open) {
            return false;
        }
        state.awaits_sse_response = false;
        if let Some((outcome, sent)) = state.post_result.take() {
            self.end(&mut state, outcome, sent);
        }
        true
    }

    fn on_stream_closed(&self) {
        let mut state = self.state();
        state.awaits_sse_response = false;
        if let Some((_, sent)) = state.post_result.take() {
            self.end(&mut state, RequestOutcome::ClientGone, sent);
        }
    }
}

impl RequestFacts {
    /// Converts a time of the monotonic clock to the clock of spans and events.
    pub(super) fn to_system_time(&self, at: Instant) -> SystemTime {
        self.began.0 + at.saturating_duration_since(self.began.1)
    }
}

/// The context of a span below `parent`.
fn child_context(parent: Option<SpanContext>) -> Context {
    match parent {
        Some(parent) => Context::new().with_remote_span_context(parent),
        None => Context::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{
        environment::Variables,
        options::{OptionSet as _, ProxyOptions, SharedOptions},
        proxy::{
            body::Body,
            external_url::ExternalUrlConfig,
            respond::{self, Request},
        },
        telemetry::TelemetrySpec,
    };

    /// Telemetry that samples only requests whose parent is sampled.
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
        for is_unauthenticated in [false, true] {
            let mut request = Request::new(Body::empty());
            let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
            request.headers_mut().insert("traceparent", parent.parse().expect("a value"));
            let facts = Arc::new(RequestFacts::from_request(&request, &ExternalUrlConfig::default(), true));
            let observed = RequestTelemetry::start(
                Arc::clone(&telemetry),
                facts,
                Arc::default(),
                false,
                is_unauthenticated,
            );
            observed.on_response(Arc::new(ResponseHead::of(&respond::empty(StatusCode::UNAUTHORIZED))));
            let state = observed.state();
            let span = state.span_context.as_ref().expect("a span");
            assert_eq!(span.is_sampled(), !is_unauthenticated);
            assert_eq!(span.trace_id().to_string() == parent[3..35], !is_unauthenticated);
        }
    }
}
