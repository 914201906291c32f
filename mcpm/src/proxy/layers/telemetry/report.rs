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
    journey::{Answered, Ended, Flow, Heard, Journey, State, below, pair, seconds},
    operation::{Operation, Target},
};
use crate::proxy::denial::Denial;
use crate::telemetry::{Instruments, Telemetry, http_method, mcp_version, rpc_code};

/// Paths that clients use, which are few.
const ROUTES: [&str; 4] = ["/", "/mcp", "/sse", "/messages"];

/// A request begins.
pub(super) fn begun(telemetry: &Telemetry, heard: &Heard) {
    count_active(telemetry, heard, 1);
}

fn count_active(telemetry: &Telemetry, heard: &Heard, change: i64) {
    let Some(instruments) = &telemetry.instruments else { return };
    let labels = [pair("http.request.method", http_method(&heard.method)), pair("url.scheme", heard.scheme)];
    instruments.active.add(change, &labels);
    if let Some(legacy) = &instruments.legacy {
        legacy.connections.add(change, &legacy.server);
    }
}

/// A request of HTTP is over.
pub(super) fn sent(journey: &Journey, state: &State, ended: Ended) {
    if let Some(instruments) = &journey.telemetry.instruments {
        count_http(journey, state, instruments, ended, Instant::now());
        count_session(&journey.heard, state, instruments);
    }
    count_active(&journey.telemetry, &journey.heard, -1);
}

/// All that was asked for in a request is over.
pub(super) fn finished(journey: &Journey, state: &mut State, ended: Ended, flow: Flow) {
    let now = Instant::now();
    if let Some(instruments) = &journey.telemetry.instruments {
        let took = seconds(now.duration_since(journey.since()));
        for operation in &state.operations {
            count_operation(&journey.heard, state, instruments, operation, ended, took);
        }
        count_legacy(&journey.heard, state, instruments, ended, took);
    }
    if state.span.as_ref().is_some_and(Span::is_recording) {
        trace(journey, state, ended, flow, now);
    }
}

/// A request was refused.
pub(super) fn denied(telemetry: &Telemetry, denial: &Denial) {
    let Some(instruments) = &telemetry.instruments else { return };
    let labels =
        [pair("mcpm.denial.layer", denial.reason.layer()), pair("mcpm.denial.reason", denial.reason.id())];
    instruments.denials.add(1, &labels);
}

/// How an operation failed, in few words, if it did.
fn failure(operation: &Operation, answered: Option<&Answered>, ended: Ended) -> Option<String> {
    if let Some(outcome) = &operation.outcome {
        return match outcome.code {
            Some(code) => Some(rpc_code(code)),
            None => outcome.is_tool_error.then(|| "tool_error".to_owned()),
        };
    }
    match (answered, ended) {
        (_, Ended::Panicked) => Some("panic".to_owned()),
        (None, _) => Some("cancelled".to_owned()),
        (Some(answered), _) if answered.status.as_u16() >= 400 => Some(answered.status.as_str().to_owned()),
        _ if !operation.is_request() => None,
        // It is answered on another stream, which is not known.
        (Some(answered), Ended::Whole) if answered.status == StatusCode::ACCEPTED => None,
        (_, Ended::Gone) => Some("cancelled".to_owned()),
        (_, Ended::Broken) => Some("broken_off".to_owned()),
        (_, Ended::Whole) => Some("no_answer".to_owned()),
    }
}

/// How the request as a whole failed, if it did.
fn error_type(answered: Option<&Answered>, ended: Ended) -> Option<String> {
    match (answered, ended) {
        (_, Ended::Panicked) => Some("panic".to_owned()),
        (None, _) => Some("cancelled".to_owned()),
        (Some(answered), _) if answered.status.as_u16() >= 400 => Some(answered.status.as_str().to_owned()),
        (_, Ended::Broken) => Some("broken_off".to_owned()),
        _ => None,
    }
}

/// The status that a client saw, or would have seen.
fn status_of(answered: Option<&Answered>, ended: Ended) -> Option<u16> {
    match (answered, ended) {
        (Some(answered), _) => Some(answered.status.as_u16()),
        (None, Ended::Panicked) => Some(500),
        (None, _) => None,
    }
}

fn count_http(journey: &Journey, state: &State, instruments: &Instruments, ended: Ended, now: Instant) {
    let heard = &journey.heard;
    let answered = state.answered.as_ref();
    let took = seconds(now.duration_since(journey.since()));
    // Who only listens may do so for hours; how fast that began is what tells something.
    let is_stream = heard.method == Method::GET && answered.is_some_and(|answered| answered.is_events);
    let until_head = answered.map(|answered| seconds(answered.at.duration_since(journey.since())));
    let http_took = until_head.filter(|_| is_stream).unwrap_or(took);
    let mut labels = vec![
        pair("http.request.method", http_method(&heard.method)),
        pair("url.scheme", heard.scheme),
        pair("network.protocol.version", heard.version),
    ];
    if let Some(route) = ROUTES.into_iter().find(|route| *route == heard.path) {
        labels.push(pair("http.route", route));
    }
    if let Some(status) = status_of(answered, ended) {
        labels.push(pair("http.response.status_code", i64::from(status)));
    }
    labels.extend(error_type(answered, ended).map(|failure| pair("error.type", failure)));
    instruments.http.record(http_took, &labels);
    if let Some(denial) = answered.and_then(|answered| answered.denial.as_ref()) {
        denied(&journey.telemetry, denial);
    }
}

fn count_operation(
    heard: &Heard,
    state: &State,
    instruments: &Instruments,
    operation: &Operation,
    ended: Ended,
    took: f64,
) {
    let failure = failure(operation, state.answered.as_ref(), ended);
    let mut labels = vec![pair("mcp.method.name", operation.label)];
    labels.extend(of_wire(heard, state));
    let known = operation.outcome.as_ref().is_some_and(|outcome| outcome.code.is_none());
    match &operation.target {
        Target::Tool(name) => {
            let name = instruments.tool(name, known);
            if let Some(legacy) = &instruments.legacy {
                let status = if failure.is_some() { "error" } else { "success" };
                let [server, _] = legacy.server.clone();
                let labels = [server, pair("tool", name.clone()), pair("status", status)];
                legacy.tool_calls.add(1, &labels);
            }
            labels.extend([pair("gen_ai.tool.name", name), pair("gen_ai.operation.name", "execute_tool")]);
        }
        Target::Prompt(name) => labels.push(pair("gen_ai.prompt.name", instruments.prompt(name, known))),
        Target::Resource(_) | Target::None => {}
    }
    if let Some(code) = operation.outcome.as_ref().and_then(|outcome| outcome.code) {
        labels.push(pair("rpc.response.status_code", rpc_code(code)));
    }
    labels.extend(failure.map(|failure| pair("error.type", failure)));
    let took = operation.outcome.as_ref().map_or(took, |outcome| outcome.took);
    instruments.operations.record(took, &labels);
}

/// What is said of all operations and sessions.
fn of_wire(heard: &Heard, state: &State) -> Vec<KeyValue> {
    let mut labels = vec![
        pair("network.transport", "tcp"),
        pair("network.protocol.name", "http"),
        pair("network.protocol.version", heard.version),
    ];
    if let Some(version) = &state.version {
        labels.push(pair("mcp.protocol.version", mcp_version(version)));
    }
    labels
}

fn count_session(heard: &Heard, state: &State, instruments: &Instruments) {
    let Some(answered) = &state.answered else { return };
    let opens = state.operations.iter().any(|operation| operation.label == "initialize");
    if let Some(session) = answered.session.as_ref().filter(|_| opens && answered.status.is_success()) {
        instruments.opened(session.as_bytes(), of_wire(heard, state));
    }
    let Some(session) = &heard.session else { return };
    let is_closed = heard.method == Method::DELETE && answered.status.is_success();
    if is_closed || answered.status == StatusCode::NOT_FOUND {
        instruments.closed(session.as_bytes(), !is_closed);
    }
}

fn count_legacy(heard: &Heard, state: &State, instruments: &Instruments, ended: Ended, took: f64) {
    let Some(legacy) = &instruments.legacy else { return };
    let answered = state.answered.as_ref();
    let failed = error_type(answered, ended).is_some()
        || state.operations.iter().any(|operation| failure(operation, answered, ended).is_some());
    let (method, target) = match &state.operations[..] {
        [one] if !state.is_batch => {
            let known = one.outcome.as_ref().is_some_and(|outcome| outcome.code.is_none());
            let target = match &one.target {
                Target::Tool(name) => instruments.tool(name, known),
                Target::Prompt(name) => instruments.prompt(name, known),
                Target::Resource(_) | Target::None => String::new(),
            };
            (one.label, target)
        }
        _ => ("", String::new()),
    };
    let [server, transport] = legacy.server.clone();
    let labels = [
        pair("method", http_method(&heard.method)),
        pair("status_code", status_of(answered, ended).map_or(String::new(), |status| status.to_string())),
        pair("status", if failed { "error" } else { "success" }),
        pair("mcp_method", method),
        pair("mcp_resource_id", target),
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
fn trace(journey: &Journey, state: &mut State, ended: Ended, flow: Flow, now: Instant) {
    let Some(mut span) = state.span.take() else { return };
    let parent = span.span_context().clone();
    parts(journey, state, &parent, now);
    backend(journey, state, ended, flow, now);
    span.set_attributes(of_http(journey, state, ended, flow, now));
    span.set_attributes(of_mcp(journey, state, ended));
    span.set_attributes(journey.telemetry.variables.iter().cloned());
    let failed = state.operations.iter().find_map(|one| failure(one, state.answered.as_ref(), ended));
    let is_broken = status_of(state.answered.as_ref(), ended).is_none_or(|status| status >= 500);
    if let Some(failure) = failed.clone().or_else(|| error_type(state.answered.as_ref(), ended)) {
        span.set_attribute(pair("error.type", failure));
    }
    // What a client did wrong is no failure of a server (HTTP conventions); an error in the protocol is (MCP).
    if is_broken || ended == Ended::Broken || failed.is_some() {
        span.set_status(Status::error(""));
    }
    span.end_with_timestamp(journey.on_clock(now));
}

/// A part of a request that is over.
fn part(
    journey: &Journey,
    name: &'static str,
    parent: &SpanContext,
    from: Instant,
    to: Instant,
    attributes: Vec<KeyValue>,
) {
    let Some(tracer) = &journey.telemetry.tracer else { return };
    let builder = SpanBuilder::from_name(name)
        .with_kind(SpanKind::Internal)
        .with_start_time(journey.on_clock(from))
        .with_attributes(attributes);
    let mut span = tracer.build_with_context(builder, &below(Some(parent.clone())));
    span.end_with_timestamp(journey.on_clock(to));
}

/// What came before the server behind: each part ends when the next begins.
fn parts(journey: &Journey, state: &State, parent: &SpanContext, now: Instant) {
    let last = state.sending.as_ref().map(|(_, at)| *at);
    let last = last.or(state.answered.as_ref().map(|answered| answered.at)).unwrap_or(now);
    for (place, (name, from)) in state.marks.iter().enumerate() {
        let to = state.marks.get(place + 1).map_or(last, |(_, next)| *next);
        let is_last = place + 1 == state.marks.len() && state.sending.is_none();
        let denial =
            state.answered.as_ref().and_then(|answered| answered.denial.as_ref()).filter(|_| is_last);
        let attributes = denial.map(|denial| vec![pair("mcpm.denial.reason", denial.reason.id())]);
        part(journey, name, parent, *from, to, attributes.unwrap_or_default());
    }
}

/// What the server behind did, from when it was waited for.
fn backend(journey: &Journey, state: &mut State, ended: Ended, flow: Flow, now: Instant) {
    let Some((mut span, from)) = state.sending.take() else { return };
    let place = span.span_context().clone();
    let head = state.head.unwrap_or(now);
    part(journey, "queue", &place, from, state.sent.unwrap_or(head), Vec::new());
    if state.head.is_some() {
        let mut attributes = vec![pair("http.response.body.size", count_of(flow.size))];
        if let Some(first) = flow.first {
            let waited = seconds(first.duration_since(from));
            attributes.push(pair("mcpm.time_to_first_byte", waited));
        }
        part(journey, "stream", &place, head, now, attributes);
    }
    let transport = if journey.heard.is_stdio { "pipe" } else { "tcp" };
    span.set_attribute(pair("network.transport", transport));
    if state.sent.is_none() {
        span.set_attribute(pair("error.type", "not_reached"));
        span.set_status(Status::error(""));
    } else if let Some(failure) = error_type(state.answered.as_ref(), ended) {
        span.set_attribute(pair("error.type", failure));
        span.set_status(Status::error(""));
    }
    span.end_with_timestamp(journey.on_clock(now));
}

fn count_of(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

fn of_http(journey: &Journey, state: &State, ended: Ended, flow: Flow, now: Instant) -> Vec<KeyValue> {
    let Heard { path, scheme, host, agent, size, method, version, .. } = &journey.heard;
    let is_legacy = journey.telemetry.legacy;
    let method = http_method(method);
    let mut all = vec![
        pair("http.request.method", method),
        pair("url.scheme", *scheme),
        pair("url.path", path.clone()),
        pair("network.protocol.name", "http"),
        pair("network.protocol.version", *version),
        pair("http.response.body.size", count_of(flow.size)),
    ];
    let full = host.as_ref().map(|host| format!("{scheme}://{host}{path}"));
    let status = status_of(state.answered.as_ref(), ended);
    all.extend(status.map(|status| pair("http.response.status_code", i64::from(status))));
    all.extend(size.map(|size| pair("http.request.body.size", count_of(size))));
    all.extend(agent.clone().map(|agent| pair("user_agent.original", agent)));
    all.extend(full.clone().map(|full| pair("url.full", full)));
    if let Some((name, port)) = host.as_deref().map(name_and_port) {
        all.push(pair("server.address", name.to_owned()));
        all.extend(port.map(|port| pair("server.port", i64::from(port))));
    }
    all.extend(of_client(&journey.heard));
    if is_legacy {
        all.extend([
            pair("http.method", method),
            pair("http.scheme", *scheme),
            pair("http.target", path.clone()),
            pair("http.response_content_length", count_of(flow.size)),
            pair("http.duration_ms", seconds(now.duration_since(journey.since())) * 1000.0),
        ]);
        all.extend(status.map(|status| pair("http.status_code", i64::from(status))));
        all.extend(size.map(|size| pair("http.request_content_length", count_of(size))));
        all.extend(agent.clone().map(|agent| pair("http.user_agent", agent)));
        all.extend(full.map(|full| pair("http.url", full)));
        all.extend(host.clone().map(|host| pair("http.host", host)));
    }
    if let Some(denial) = state.answered.as_ref().and_then(|answered| answered.denial.as_ref()) {
        all.extend([
            pair("mcpm.denial.layer", denial.reason.layer()),
            pair("mcpm.denial.reason", denial.reason.id()),
            pair("mcpm.denial.refusal", denial.refusal.as_str().to_owned()),
        ]);
    }
    all
}

/// Who is at the other end (HTTP conventions): `client` is whoever began, `network.peer` whoever is connected, which
/// may be a proxy in front.
fn of_client(heard: &Heard) -> Vec<KeyValue> {
    let peer = heard.peer.map(|peer| (peer.ip().to_canonical().to_string(), i64::from(peer.port())));
    let mut all = Vec::new();
    match (&heard.forwarded, &peer) {
        (Some(client), _) => all.push(pair("client.address", client.clone())),
        (None, Some((address, port))) => {
            all.extend([pair("client.address", address.clone()), pair("client.port", *port)]);
        }
        (None, None) => {}
    }
    if let Some((address, port)) = peer {
        all.extend([pair("network.peer.address", address), pair("network.peer.port", port)]);
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

fn of_mcp(journey: &Journey, state: &State, ended: Ended) -> Vec<KeyValue> {
    let is_legacy = journey.telemetry.legacy;
    let name = journey.telemetry.server.clone();
    let mut all = vec![pair("network.transport", "tcp"), pair("mcp.server.name", name)];
    let session = journey.heard.session.clone();
    let session = session.or(state.answered.as_ref().and_then(|answered| answered.session.clone()));
    all.extend(session.map(|session| pair("mcp.session.id", session)));
    all.extend(state.version.clone().map(|version| pair("mcp.protocol.version", version)));
    all.extend(state.client.clone().map(|client| pair("mcp.client.name", client)));
    if is_legacy {
        let transport = if journey.heard.is_stdio { "stdio" } else { "http" };
        all.push(pair("mcp.transport", transport));
    }
    match &state.operations[..] {
        [one] if !state.is_batch => all.extend(of_operation(one, is_legacy)),
        [] => {}
        several => {
            let failed = several.iter().filter(|one| failure(one, state.answered.as_ref(), ended).is_some());
            all.extend([
                pair("mcpm.batch.size", i64::try_from(several.len()).unwrap_or(i64::MAX)),
                pair("mcpm.batch.failed", i64::try_from(failed.count()).unwrap_or(i64::MAX)),
            ]);
        }
    }
    all
}

fn of_operation(operation: &Operation, is_legacy: bool) -> Vec<KeyValue> {
    let method = operation.method.clone();
    let mut all = vec![
        pair("mcp.method.name", method.clone()),
        pair("rpc.system.name", "jsonrpc"),
        pair("jsonrpc.protocol.version", "2.0"),
    ];
    if operation.is_request() {
        all.push(pair("jsonrpc.request.id", operation.shown_id()));
    }
    let code = operation.outcome.as_ref().and_then(|outcome| outcome.code);
    all.extend(code.map(|code| pair("rpc.response.status_code", code.to_string())));
    let mut old = vec![pair("mcp.method", method), pair("rpc.system", "jsonrpc"), pair("rpc.service", "mcp")];
    if operation.is_request() {
        old.push(pair("mcp.request.id", operation.shown_id()));
    }
    old.extend(code.map(|code| pair("rpc.jsonrpc.error_code", code)));
    match &operation.target {
        Target::Tool(name) => {
            all.extend([
                pair("gen_ai.tool.name", name.clone()),
                pair("gen_ai.operation.name", "execute_tool"),
            ]);
            old.extend([pair("mcp.tool.name", name.clone()), pair("mcp.resource.id", name.clone())]);
        }
        Target::Prompt(name) => {
            all.push(pair("gen_ai.prompt.name", name.clone()));
            old.extend([pair("mcp.prompt.name", name.clone()), pair("mcp.resource.id", name.clone())]);
        }
        Target::Resource(uri) => {
            all.push(pair("mcp.resource.uri", uri.clone()));
            old.push(pair("mcp.resource.id", uri.clone()));
        }
        Target::None => {}
    }
    if is_legacy {
        all.extend(old);
    }
    all
}
