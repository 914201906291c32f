//! Counts requests, operations, sessions and denials.
//!
//! Names are those of the semantic conventions, and older ones beside them if asked for. Labels have few values
//! ([`crate::telemetry`]), and hold no arguments, tokens, queries or results.

use std::time::Instant;

use http::{Method, StatusCode};
use opentelemetry::KeyValue;

use super::{
    facts::RequestFacts,
    operation::{Operation, OperationTarget, RequestRecord},
    outcome::RequestOutcome,
};
use crate::{
    proxy::denial::Denial,
    telemetry::{Instruments, Telemetry, http_method, mcp_version, rpc_code},
};

/// The paths that clients use; a label has no other path.
const ROUTES: [&str; 4] = ["/", "/mcp", "/sse", "/messages"];

/// Counts a request that begins.
pub(super) fn request_started(telemetry: &Telemetry, facts: &RequestFacts) {
    count_active(telemetry, facts, 1);
}

fn count_active(telemetry: &Telemetry, facts: &RequestFacts, change: i64) {
    let Some(instruments) = &telemetry.instruments else { return };
    let labels =
        [attribute("http.request.method", http_method(&facts.method)), attribute("url.scheme", facts.scheme)];
    instruments.active.add(change, &labels);
    if let Some(legacy) = &instruments.legacy {
        legacy.connections.add(change, &legacy.server);
    }
}

/// Counts an HTTP request that has ended.
pub(super) fn http_finished(
    telemetry: &Telemetry,
    facts: &RequestFacts,
    record: &RequestRecord,
    outcome: RequestOutcome,
) {
    if let Some(instruments) = &telemetry.instruments {
        count_http(facts, record, instruments, outcome, Instant::now());
        if let Some(denial) = record.response.as_ref().and_then(|head| head.denial.as_ref()) {
            count_denial(telemetry, denial);
        }
        count_session(facts, record, instruments);
    }
    count_active(telemetry, facts, -1);
}

/// Counts the operations of a request, after the last response.
pub(super) fn operations_finished(
    telemetry: &Telemetry,
    facts: &RequestFacts,
    record: &RequestRecord,
    outcome: RequestOutcome,
    now: Instant,
) {
    let Some(instruments) = &telemetry.instruments else { return };
    let seconds = now.duration_since(facts.began.1).as_secs_f64();
    for operation in &record.operations {
        count_operation(facts, record, instruments, operation, outcome, seconds);
    }
    count_legacy(facts, record, instruments, outcome, seconds);
}

/// Counts a denial.
pub(super) fn count_denial(telemetry: &Telemetry, denial: &Denial) {
    let Some(instruments) = &telemetry.instruments else { return };
    let labels = [
        attribute("mcpm.denial.layer", denial.reason.layer()),
        attribute("mcpm.denial.reason", denial.reason.id()),
    ];
    instruments.denials.add(1, &labels);
}

fn count_http(
    facts: &RequestFacts,
    record: &RequestRecord,
    instruments: &Instruments,
    outcome: RequestOutcome,
    now: Instant,
) {
    let since_start = |at: Instant| at.duration_since(facts.began.1).as_secs_f64();
    // A GET stream may be open for hours; the time to its head says more.
    let ended = record.response.as_ref().filter(|_| is_get_stream(facts, record)).map_or(now, |head| head.at);
    let mut labels = Vec::with_capacity(6);
    labels.extend([
        attribute("http.request.method", http_method(&facts.method)),
        attribute("url.scheme", facts.scheme),
        attribute("network.protocol.version", facts.version),
    ]);
    if let Some(route) = ROUTES.into_iter().find(|route| *route == facts.path) {
        labels.push(attribute("http.route", route));
    }
    if let Some(status) = record.status(outcome) {
        labels.push(attribute("http.response.status_code", i64::from(status)));
    }
    labels.extend(record.error_type(outcome).map(|failure| attribute("error.type", failure)));
    instruments.http.record(since_start(ended), &labels);
}

fn is_get_stream(facts: &RequestFacts, record: &RequestRecord) -> bool {
    facts.method == Method::GET && record.response.as_ref().is_some_and(|head| head.is_events)
}

fn count_operation(
    facts: &RequestFacts,
    record: &RequestRecord,
    instruments: &Instruments,
    operation: &Operation,
    outcome: RequestOutcome,
    took: f64,
) {
    let failure = record.operation_error_type(operation, outcome);
    let mut labels = Vec::with_capacity(9);
    labels.push(attribute("mcp.method.name", operation.label));
    labels.extend(transport_attributes(facts, record));
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

/// The labels of operations and sessions.
fn transport_attributes(facts: &RequestFacts, record: &RequestRecord) -> impl Iterator<Item = KeyValue> {
    let version = record.version.as_deref().map(mcp_version);
    let version = version.map(|version| attribute("mcp.protocol.version", version));
    let transport = [
        attribute("network.transport", "tcp"),
        attribute("network.protocol.name", "http"),
        attribute("network.protocol.version", facts.version),
    ];
    transport.into_iter().chain(version)
}

fn count_session(facts: &RequestFacts, record: &RequestRecord, instruments: &Instruments) {
    let Some(head) = &record.response else { return };
    let opens = record.operations.iter().any(|operation| operation.label == "initialize");
    if let Some(session) = head.session.as_ref().filter(|_| opens && head.status.is_success()) {
        instruments.session_opened(session.as_bytes(), transport_attributes(facts, record).collect());
    }
    let Some(session) = &facts.session else { return };
    let is_closed = facts.method == Method::DELETE && head.status.is_success();
    if is_closed || head.status == StatusCode::NOT_FOUND {
        instruments.session_closed(session.as_bytes(), !is_closed);
    }
}

fn count_legacy(
    facts: &RequestFacts,
    record: &RequestRecord,
    instruments: &Instruments,
    outcome: RequestOutcome,
    took: f64,
) {
    let Some(legacy) = &instruments.legacy else { return };
    let failed = record.error_type(outcome).is_some()
        || record.operations.iter().any(|one| record.operation_error_type(one, outcome).is_some());
    let (method, target) = match record.single() {
        Some(one) => {
            let known = one.outcome.as_ref().is_some_and(|outcome| outcome.code.is_none());
            let target = match &one.target {
                OperationTarget::Tool(name) => instruments.tool(name, known),
                OperationTarget::Prompt(name) => instruments.prompt(name, known),
                OperationTarget::Resource(_) | OperationTarget::None => String::new(),
            };
            (one.label, target)
        }
        None => ("", String::new()),
    };
    let [server, transport] = legacy.server.clone();
    let labels = [
        attribute("method", http_method(&facts.method)),
        attribute("status_code", record.status(outcome).map_or(String::new(), |status| status.to_string())),
        attribute("status", if failed { "error" } else { "success" }),
        attribute("mcp_method", method),
        attribute("mcp_resource_id", target),
        server,
        transport,
    ];
    legacy.requests.add(1, &labels);
    if !is_get_stream(facts, record) {
        legacy.duration.record(took, &labels);
    }
}

/// An attribute of a span, or a label of a metric.
pub(super) fn attribute(key: &'static str, value: impl Into<opentelemetry::Value>) -> KeyValue {
    KeyValue::new(key, value)
}
