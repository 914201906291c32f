//! What is said of a request when it is over: its spans, and what is counted.
//!
//! Names are those of the semantic conventions, and older ones beside them when that is asked for. Nothing said here
//! holds arguments, tokens, queries or results; labels of metrics have few values ([`crate::telemetry`]).

use std::time::Instant;

use http::{Method, StatusCode};
use opentelemetry::{
    KeyValue,
    trace::{Span as _, SpanBuilder, SpanContext, SpanKind, Status, Tracer as _},
};
use opentelemetry_sdk::trace::Span;

use super::{
    operation::{Operation, OperationTarget},
    request_telemetry::{
        RequestInfo, RequestOutcome, RequestTelemetry, ResponseInfo, SentBody, TelemetryState, attribute,
        child_context, seconds,
    },
};
use crate::{
    proxy::denial::Denial,
    telemetry::{Instruments, Telemetry, http_method, mcp_version, rpc_code},
};

/// Paths that clients use, which are few.
const ROUTES: [&str; 4] = ["/", "/mcp", "/sse", "/messages"];

/// A request begins.
pub(super) fn request_started(telemetry: &Telemetry, heard: &RequestInfo) {
    count_active(telemetry, heard, 1);
}

fn count_active(telemetry: &Telemetry, heard: &RequestInfo, change: i64) {
    let Some(instruments) = &telemetry.instruments else { return };
    let labels =
        [attribute("http.request.method", http_method(&heard.method)), attribute("url.scheme", heard.scheme)];
    instruments.active.add(change, &labels);
    if let Some(legacy) = &instruments.legacy {
        legacy.connections.add(change, &legacy.server);
    }
}

/// A request of HTTP is over.
pub(super) fn http_finished(journey: &RequestTelemetry, state: &TelemetryState, ended: RequestOutcome) {
    if let Some(instruments) = &journey.telemetry.instruments {
        count_http(journey, state, instruments, ended, Instant::now());
        count_session(&journey.info, state, instruments);
    }
    count_active(&journey.telemetry, &journey.info, -1);
}

/// All that was asked for in a request is over.
pub(super) fn operations_finished(
    journey: &RequestTelemetry,
    state: &mut TelemetryState,
    ended: RequestOutcome,
    flow: SentBody,
) {
    let now = Instant::now();
    if let Some(instruments) = &journey.telemetry.instruments {
        let took = seconds(now.duration_since(journey.started_at()));
        for operation in &state.operations {
            count_operation(&journey.info, state, instruments, operation, ended, took);
        }
        count_legacy(&journey.info, state, instruments, ended, took);
    }
    if state.span.as_ref().is_some_and(Span::is_recording) {
        end_spans(journey, state, ended, flow, now);
    }
}

/// A request was refused.
pub(super) fn count_denial(telemetry: &Telemetry, denial: &Denial) {
    let Some(instruments) = &telemetry.instruments else { return };
    let labels = [
        attribute("mcpm.denial.layer", denial.reason.layer()),
        attribute("mcpm.denial.reason", denial.reason.id()),
    ];
    instruments.denials.add(1, &labels);
}

/// How an operation failed, in few words, if it did.
fn operation_error_type(
    operation: &Operation,
    answered: Option<&ResponseInfo>,
    ended: RequestOutcome,
) -> Option<String> {
    if let Some(outcome) = &operation.outcome {
        return match outcome.code {
            Some(code) => Some(rpc_code(code)),
            None => outcome.is_tool_error.then(|| "tool_error".to_owned()),
        };
    }
    match (answered, ended) {
        (_, RequestOutcome::Panicked) => Some("panic".to_owned()),
        (None, _) => Some("cancelled".to_owned()),
        (Some(answered), _) if answered.status.as_u16() >= 400 => Some(answered.status.as_str().to_owned()),
        _ if !operation.is_request() => None,
        // It is answered on another stream, which is not known.
        (Some(answered), RequestOutcome::Complete) if answered.status == StatusCode::ACCEPTED => None,
        (_, RequestOutcome::ClientGone) => Some("cancelled".to_owned()),
        (_, RequestOutcome::Truncated) => Some("broken_off".to_owned()),
        (_, RequestOutcome::Complete) => Some("no_answer".to_owned()),
    }
}

/// How the request as a whole failed, if it did.
fn error_type(answered: Option<&ResponseInfo>, ended: RequestOutcome) -> Option<String> {
    match (answered, ended) {
        (_, RequestOutcome::Panicked) => Some("panic".to_owned()),
        (None, _) => Some("cancelled".to_owned()),
        (Some(answered), _) if answered.status.as_u16() >= 400 => Some(answered.status.as_str().to_owned()),
        (_, RequestOutcome::Truncated) => Some("broken_off".to_owned()),
        _ => None,
    }
}

/// The status that a client saw, or would have seen.
fn status_of(answered: Option<&ResponseInfo>, ended: RequestOutcome) -> Option<u16> {
    match (answered, ended) {
        (Some(answered), _) => Some(answered.status.as_u16()),
        (None, RequestOutcome::Panicked) => Some(500),
        (None, _) => None,
    }
}

fn count_http(
    journey: &RequestTelemetry,
    state: &TelemetryState,
    instruments: &Instruments,
    ended: RequestOutcome,
    now: Instant,
) {
    let heard = &journey.info;
    let answered = state.response.as_ref();
    let took = seconds(now.duration_since(journey.started_at()));
    // Who only listens may do so for hours; how fast that began is what tells something.
    let is_stream = heard.method == Method::GET && answered.is_some_and(|answered| answered.is_events);
    let until_head = answered.map(|answered| seconds(answered.at.duration_since(journey.started_at())));
    let http_took = until_head.filter(|_| is_stream).unwrap_or(took);
    let mut labels = vec![
        attribute("http.request.method", http_method(&heard.method)),
        attribute("url.scheme", heard.scheme),
        attribute("network.protocol.version", heard.version),
    ];
    if let Some(route) = ROUTES.into_iter().find(|route| *route == heard.path) {
        labels.push(attribute("http.route", route));
    }
    if let Some(status) = status_of(answered, ended) {
        labels.push(attribute("http.response.status_code", i64::from(status)));
    }
    labels.extend(error_type(answered, ended).map(|failure| attribute("error.type", failure)));
    instruments.http.record(http_took, &labels);
    if let Some(denial) = answered.and_then(|answered| answered.denial.as_ref()) {
        count_denial(&journey.telemetry, denial);
    }
}

fn count_operation(
    heard: &RequestInfo,
    state: &TelemetryState,
    instruments: &Instruments,
    operation: &Operation,
    ended: RequestOutcome,
    took: f64,
) {
    let failure = operation_error_type(operation, state.response.as_ref(), ended);
    let mut labels = vec![attribute("mcp.method.name", operation.label)];
    labels.extend(transport_attributes(heard, state));
    let known = operation.outcome.as_ref().is_some_and(|outcome| outcome.code.is_none());
    match &operation.target {
        OperationTarget::Tool(name) => {
            let name = instruments.tool(name, known);
            if let Some(legacy) = &instruments.legacy {
                let status = if failure.is_some() { "error" } else { "success" };
                let [server, _] = legacy.server.clone();
                let labels = [server, attribute("tool", name.clone()), attribute("status", status)];
                legacy.tool_calls.add(1, &labels);
            }
            labels.extend([
                attribute("gen_ai.tool.name", name),
                attribute("gen_ai.operation.name", "execute_tool"),
            ]);
        }
        OperationTarget::Prompt(name) => {
            labels.push(attribute("gen_ai.prompt.name", instruments.prompt(name, known)))
        }
        OperationTarget::Resource(_) | OperationTarget::None => {}
    }
    if let Some(code) = operation.outcome.as_ref().and_then(|outcome| outcome.code) {
        labels.push(attribute("rpc.response.status_code", rpc_code(code)));
    }
    labels.extend(failure.map(|failure| attribute("error.type", failure)));
    let took = operation.outcome.as_ref().map_or(took, |outcome| outcome.duration_seconds);
    instruments.operations.record(took, &labels);
}

/// What is said of all operations and sessions.
fn transport_attributes(heard: &RequestInfo, state: &TelemetryState) -> Vec<KeyValue> {
    let mut labels = vec![
        attribute("network.transport", "tcp"),
        attribute("network.protocol.name", "http"),
        attribute("network.protocol.version", heard.version),
    ];
    if let Some(version) = &state.version {
        labels.push(attribute("mcp.protocol.version", mcp_version(version)));
    }
    labels
}

fn count_session(heard: &RequestInfo, state: &TelemetryState, instruments: &Instruments) {
    let Some(answered) = &state.response else { return };
    let opens = state.operations.iter().any(|operation| operation.label == "initialize");
    if let Some(session) = answered.session.as_ref().filter(|_| opens && answered.status.is_success()) {
        instruments.session_opened(session.as_bytes(), transport_attributes(heard, state));
    }
    let Some(session) = &heard.session else { return };
    let is_closed = heard.method == Method::DELETE && answered.status.is_success();
    if is_closed || answered.status == StatusCode::NOT_FOUND {
        instruments.session_closed(session.as_bytes(), !is_closed);
    }
}

fn count_legacy(
    heard: &RequestInfo,
    state: &TelemetryState,
    instruments: &Instruments,
    ended: RequestOutcome,
    took: f64,
) {
    let Some(legacy) = &instruments.legacy else { return };
    let answered = state.response.as_ref();
    let failed = error_type(answered, ended).is_some()
        || state
            .operations
            .iter()
            .any(|operation| operation_error_type(operation, answered, ended).is_some());
    let (method, target) = match &state.operations[..] {
        [one] if !state.is_batch => {
            let known = one.outcome.as_ref().is_some_and(|outcome| outcome.code.is_none());
            let target = match &one.target {
                OperationTarget::Tool(name) => instruments.tool(name, known),
                OperationTarget::Prompt(name) => instruments.prompt(name, known),
                OperationTarget::Resource(_) | OperationTarget::None => String::new(),
            };
            (one.label, target)
        }
        _ => ("", String::new()),
    };
    let [server, transport] = legacy.server.clone();
    let labels = [
        attribute("method", http_method(&heard.method)),
        attribute(
            "status_code",
            status_of(answered, ended).map_or(String::new(), |status| status.to_string()),
        ),
        attribute("status", if failed { "error" } else { "success" }),
        attribute("mcp_method", method),
        attribute("mcp_resource_id", target),
        server,
        transport,
    ];
    legacy.requests.add(1, &labels);
    let is_stream = heard.method == Method::GET && answered.is_some_and(|answered| answered.is_events);
    if !is_stream {
        legacy.duration.record(took, &labels);
    }
}

/// Ends the spans of a request, and makes those of its parts.
fn end_spans(
    journey: &RequestTelemetry,
    state: &mut TelemetryState,
    ended: RequestOutcome,
    flow: SentBody,
    now: Instant,
) {
    let Some(mut span) = state.span.take() else { return };
    let parent = span.span_context().clone();
    phase_spans(journey, state, &parent, now);
    end_backend_span(journey, state, ended, flow, now);
    span.set_attributes(http_attributes(journey, state, ended, flow, now));
    span.set_attributes(mcp_attributes(journey, state, ended));
    span.set_attributes(journey.telemetry.variables.iter().cloned());
    let failed =
        state.operations.iter().find_map(|one| operation_error_type(one, state.response.as_ref(), ended));
    let is_broken = status_of(state.response.as_ref(), ended).is_none_or(|status| status >= 500);
    if let Some(failure) = failed.clone().or_else(|| error_type(state.response.as_ref(), ended)) {
        span.set_attribute(attribute("error.type", failure));
    }
    // What a client did wrong is no failure of a server (HTTP conventions); an error in the protocol is (MCP).
    if is_broken || ended == RequestOutcome::Truncated || failed.is_some() {
        span.set_status(Status::error(""));
    }
    span.end_with_timestamp(journey.to_system_time(now));
}

/// A part of a request that is over.
fn child_span(
    journey: &RequestTelemetry,
    name: &'static str,
    parent: &SpanContext,
    from: Instant,
    to: Instant,
    attributes: Vec<KeyValue>,
) {
    let Some(tracer) = &journey.telemetry.tracer else { return };
    let builder = SpanBuilder::from_name(name)
        .with_kind(SpanKind::Internal)
        .with_start_time(journey.to_system_time(from))
        .with_attributes(attributes);
    let mut span = tracer.build_with_context(builder, &child_context(Some(parent.clone())));
    span.end_with_timestamp(journey.to_system_time(to));
}

/// What came before the server behind: each part ends when the next begins.
fn phase_spans(journey: &RequestTelemetry, state: &TelemetryState, parent: &SpanContext, now: Instant) {
    let last = state.backend_span.as_ref().map(|(_, at)| *at);
    let last = last.or(state.response.as_ref().map(|answered| answered.at)).unwrap_or(now);
    for (place, (name, from)) in state.phases.iter().enumerate() {
        let to = state.phases.get(place + 1).map_or(last, |(_, next)| *next);
        let is_last = place + 1 == state.phases.len() && state.backend_span.is_none();
        let denial =
            state.response.as_ref().and_then(|answered| answered.denial.as_ref()).filter(|_| is_last);
        let attributes = denial.map(|denial| vec![attribute("mcpm.denial.reason", denial.reason.id())]);
        child_span(journey, name, parent, *from, to, attributes.unwrap_or_default());
    }
}

/// What the server behind did, from when it was waited for.
fn end_backend_span(
    journey: &RequestTelemetry,
    state: &mut TelemetryState,
    ended: RequestOutcome,
    flow: SentBody,
    now: Instant,
) {
    let Some((mut span, from)) = state.backend_span.take() else { return };
    let place = span.span_context().clone();
    let head = state.response_started_at.unwrap_or(now);
    child_span(journey, "queue", &place, from, state.sent_at.unwrap_or(head), Vec::new());
    if state.response_started_at.is_some() {
        let mut attributes = vec![attribute("http.response.body.size", count_of(flow.size))];
        if let Some(first) = flow.first_byte_at {
            let waited = seconds(first.duration_since(from));
            attributes.push(attribute("mcpm.time_to_first_byte", waited));
        }
        child_span(journey, "stream", &place, head, now, attributes);
    }
    let transport = if journey.info.is_stdio { "pipe" } else { "tcp" };
    span.set_attribute(attribute("network.transport", transport));
    if state.sent_at.is_none() {
        span.set_attribute(attribute("error.type", "not_reached"));
        span.set_status(Status::error(""));
    } else if let Some(failure) = error_type(state.response.as_ref(), ended) {
        span.set_attribute(attribute("error.type", failure));
        span.set_status(Status::error(""));
    }
    span.end_with_timestamp(journey.to_system_time(now));
}

fn count_of(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

fn http_attributes(
    journey: &RequestTelemetry,
    state: &TelemetryState,
    ended: RequestOutcome,
    flow: SentBody,
    now: Instant,
) -> Vec<KeyValue> {
    let RequestInfo { path, scheme, host, user_agent: agent, size, method, version, .. } = &journey.info;
    let is_legacy = journey.telemetry.legacy;
    let method = http_method(method);
    let mut all = vec![
        attribute("http.request.method", method),
        attribute("url.scheme", *scheme),
        attribute("url.path", path.clone()),
        attribute("network.protocol.name", "http"),
        attribute("network.protocol.version", *version),
        attribute("http.response.body.size", count_of(flow.size)),
    ];
    let full = host.as_ref().map(|host| format!("{scheme}://{host}{path}"));
    let status = status_of(state.response.as_ref(), ended);
    all.extend(status.map(|status| attribute("http.response.status_code", i64::from(status))));
    all.extend(size.map(|size| attribute("http.request.body.size", count_of(size))));
    all.extend(agent.clone().map(|agent| attribute("user_agent.original", agent)));
    all.extend(full.clone().map(|full| attribute("url.full", full)));
    if let Some((name, port)) = host.as_deref().map(name_and_port) {
        all.push(attribute("server.address", name.to_owned()));
        all.extend(port.map(|port| attribute("server.port", i64::from(port))));
    }
    all.extend(client_attributes(&journey.info));
    if is_legacy {
        all.extend([
            attribute("http.method", method),
            attribute("http.scheme", *scheme),
            attribute("http.target", path.clone()),
            attribute("http.response_content_length", count_of(flow.size)),
            attribute("http.duration_ms", seconds(now.duration_since(journey.started_at())) * 1000.0),
        ]);
        all.extend(status.map(|status| attribute("http.status_code", i64::from(status))));
        all.extend(size.map(|size| attribute("http.request_content_length", count_of(size))));
        all.extend(agent.clone().map(|agent| attribute("http.user_agent", agent)));
        all.extend(full.map(|full| attribute("http.url", full)));
        all.extend(host.clone().map(|host| attribute("http.host", host)));
    }
    if let Some(denial) = state.response.as_ref().and_then(|answered| answered.denial.as_ref()) {
        all.extend([
            attribute("mcpm.denial.layer", denial.reason.layer()),
            attribute("mcpm.denial.reason", denial.reason.id()),
            attribute("mcpm.denial.refusal", denial.id.as_str().to_owned()),
        ]);
    }
    all
}

/// Who is at the other end (HTTP conventions): `client` is whoever began, `network.peer` whoever is connected, which
/// may be a proxy in front.
fn client_attributes(heard: &RequestInfo) -> Vec<KeyValue> {
    let peer = heard.peer.map(|peer| (peer.ip().to_canonical().to_string(), i64::from(peer.port())));
    let mut all = Vec::new();
    match (&heard.forwarded, &peer) {
        (Some(client), _) => all.push(attribute("client.address", client.clone())),
        (None, Some((address, port))) => {
            all.extend([attribute("client.address", address.clone()), attribute("client.port", *port)]);
        }
        (None, None) => {}
    }
    if let Some((address, port)) = peer {
        all.extend([attribute("network.peer.address", address), attribute("network.peer.port", port)]);
    }
    all
}

/// The name and the port of a host.
fn name_and_port(host: &str) -> (&str, Option<u16>) {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => (address, rest.strip_prefix(':')),
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    (name, port.and_then(|port| port.parse().ok()))
}

fn mcp_attributes(
    journey: &RequestTelemetry,
    state: &TelemetryState,
    ended: RequestOutcome,
) -> Vec<KeyValue> {
    let is_legacy = journey.telemetry.legacy;
    let name = journey.telemetry.server.clone();
    let mut all = vec![attribute("network.transport", "tcp"), attribute("mcp.server.name", name)];
    let session = journey.info.session.clone();
    let session = session.or(state.response.as_ref().and_then(|answered| answered.session.clone()));
    all.extend(session.map(|session| attribute("mcp.session.id", session)));
    all.extend(state.version.clone().map(|version| attribute("mcp.protocol.version", version)));
    all.extend(state.client.clone().map(|client| attribute("mcp.client.name", client)));
    if is_legacy {
        let transport = if journey.info.is_stdio { "stdio" } else { "http" };
        all.push(attribute("mcp.transport", transport));
    }
    match &state.operations[..] {
        [one] if !state.is_batch => all.extend(operation_attributes(one, is_legacy)),
        [] => {}
        several => {
            let failed = several
                .iter()
                .filter(|one| operation_error_type(one, state.response.as_ref(), ended).is_some());
            all.extend([
                attribute("mcpm.batch.size", i64::try_from(several.len()).unwrap_or(i64::MAX)),
                attribute("mcpm.batch.failed", i64::try_from(failed.count()).unwrap_or(i64::MAX)),
            ]);
        }
    }
    all
}

fn operation_attributes(operation: &Operation, is_legacy: bool) -> Vec<KeyValue> {
    let method = operation.method.clone();
    let mut all = vec![
        attribute("mcp.method.name", method.clone()),
        attribute("rpc.system.name", "jsonrpc"),
        attribute("jsonrpc.protocol.version", "2.0"),
    ];
    if operation.is_request() {
        all.push(attribute("jsonrpc.request.id", operation.display_id()));
    }
    let code = operation.outcome.as_ref().and_then(|outcome| outcome.code);
    all.extend(code.map(|code| attribute("rpc.response.status_code", code.to_string())));
    let mut old = vec![
        attribute("mcp.method", method),
        attribute("rpc.system", "jsonrpc"),
        attribute("rpc.service", "mcp"),
    ];
    if operation.is_request() {
        old.push(attribute("mcp.request.id", operation.display_id()));
    }
    old.extend(code.map(|code| attribute("rpc.jsonrpc.error_code", code)));
    match &operation.target {
        OperationTarget::Tool(name) => {
            all.extend([
                attribute("gen_ai.tool.name", name.clone()),
                attribute("gen_ai.operation.name", "execute_tool"),
            ]);
            old.extend([
                attribute("mcp.tool.name", name.clone()),
                attribute("mcp.resource.id", name.clone()),
            ]);
        }
        OperationTarget::Prompt(name) => {
            all.push(attribute("gen_ai.prompt.name", name.clone()));
            old.extend([
                attribute("mcp.prompt.name", name.clone()),
                attribute("mcp.resource.id", name.clone()),
            ]);
        }
        OperationTarget::Resource(uri) => {
            all.push(attribute("mcp.resource.uri", uri.clone()));
            old.push(attribute("mcp.resource.id", uri.clone()));
        }
        OperationTarget::None => {}
    }
    if is_legacy {
        all.extend(old);
    }
    all
}
