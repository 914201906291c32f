//! Counts requests, operations, sessions and denials.
//!
//! Names are those of the semantic conventions; if configured, older names are used in addition. Labels have few values
//! ([`crate::telemetry`]), and never contain arguments, tokens, queries or results.

use std::time::Instant;

use http::{Method, StatusCode};
use opentelemetry::{
    KeyValue,
    metrics::{BoundCounter, BoundHistogram},
};

use super::{
    facts::RequestFacts,
    operation::{Operation, OperationTarget, RequestRecord},
    outcome::RequestOutcome,
};
use crate::{
    proxy::denial::Denial,
    telemetry::{
        HttpLabels, Instruments, Legacy, LegacyLabels, OperationLabels, Telemetry, http_method, mcp_version,
        rpc_code,
    },
};

/// The paths that clients use; a label has no other path.
const ROUTES: [&str; 4] = ["/", "/mcp", "/sse", "/messages"];

/// Counts a request that begins.
pub(super) fn request_started(telemetry: &Telemetry, facts: &RequestFacts) {
    count_active(telemetry, facts, 1);
}

fn count_active(telemetry: &Telemetry, facts: &RequestFacts, change: i64) {
    let Some(instruments) = &telemetry.instruments else { return };
    let (method, scheme) = (http_method(&facts.method), facts.scheme);
    if !instruments.bound_active.measure(|labels| *labels == (method, scheme), |active| active.add(change)) {
        let labels = [attribute("http.request.method", method), attribute("url.scheme", scheme)];
        instruments.active.add(change, &labels);
        instruments.bound_active.bind((method, scheme), || instruments.active.bind(&labels));
    }
    if let Some(legacy) = &instruments.legacy {
        legacy.bound_connections.get_or_init(|| legacy.connections.bind(&legacy.server)).add(change);
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
    // A GET stream may be open for hours, so the time until its response head is measured.
    let ended = record.response.as_ref().filter(|_| is_get_stream(facts, record)).map_or(now, |head| head.at);
    let (took, failure) = (since_start(ended), record.error_type(outcome));
    let known = HttpLabels {
        method: http_method(&facts.method),
        scheme: facts.scheme,
        version: facts.version,
        route: ROUTES.into_iter().find(|route| *route == facts.path()),
        status: record.status(outcome),
    };
    if failure.is_none()
        && instruments.bound_http.measure(|labels| *labels == known, |http| http.record(took))
    {
        return;
    }
    let mut labels = Vec::with_capacity(6);
    labels.extend([
        attribute("http.request.method", known.method),
        attribute("url.scheme", known.scheme),
        attribute("network.protocol.version", known.version),
    ]);
    labels.extend(known.route.map(|route| attribute("http.route", route)));
    labels.extend(known.status.map(|status| attribute("http.response.status_code", i64::from(status))));
    let is_success = failure.is_none();
    labels.extend(failure.map(|failure| attribute("error.type", failure)));
    instruments.http.record(took, &labels);
    if is_success {
        instruments.bound_http.bind(known, || instruments.http.bind(&labels));
    }
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
    let is_success = failure.is_none();
    let took = operation.outcome.as_ref().map_or(took, |outcome| outcome.duration_seconds);
    let (mcp_version, target) = (record.version(facts).map(mcp_version), operation.target.name());
    let is_same = |labels: &OperationLabels| {
        (labels.method, labels.http_version, labels.mcp_version, labels.target.as_deref())
            == (operation.label, facts.version, mcp_version, target)
    };
    if is_success && instruments.bound_operations.measure(is_same, |operations| operations.record(took)) {
        if let (Some(legacy), OperationTarget::Tool(name)) = (&instruments.legacy, &operation.target) {
            count_legacy_call(legacy, name, "success");
        }
        return;
    }
    let mut labels = Vec::with_capacity(9);
    labels.push(attribute("mcp.method.name", operation.label));
    labels.extend(transport_attributes(facts, record));
    let known = operation.outcome.as_ref().is_some_and(|outcome| outcome.code.is_none());
    let mut label = None;
    match &operation.target {
        OperationTarget::Tool(name) => {
            let name = instruments.tool(name, known);
            if let Some(legacy) = &instruments.legacy {
                count_legacy_call(legacy, &name, if is_success { "success" } else { "error" });
            }
            labels.extend([
                attribute("gen_ai.tool.name", name.clone()),
                attribute("gen_ai.operation.name", "execute_tool"),
            ]);
            label = Some(name);
        }
        OperationTarget::Prompt(name) => {
            let name = instruments.prompt(name, known);
            labels.push(attribute("gen_ai.prompt.name", name.clone()));
            label = Some(name);
        }
        OperationTarget::Resource(_) | OperationTarget::None => {}
    }
    if let Some(code) = operation.outcome.as_ref().and_then(|outcome| outcome.code) {
        labels.push(attribute("rpc.response.status_code", rpc_code(code)));
    }
    labels.extend(failure.map(|failure| attribute("error.type", failure)));
    instruments.operations.record(took, &labels);
    // The label of a name that the server has not confirmed differs from the name.
    if is_success && label.as_deref() == target {
        let (method, http_version) = (operation.label, facts.version);
        let known = OperationLabels { method, http_version, mcp_version, target: label };
        instruments.bound_operations.bind(known, || instruments.operations.bind(&labels));
    }
}

/// Counts a call of the tool with this label.
fn count_legacy_call(legacy: &Legacy, tool: &str, status: &'static str) {
    let is_success = status == "success";
    if is_success && legacy.bound_tool_calls.measure(|known| *known == tool, |calls| calls.add(1)) {
        return;
    }
    let [server, _] = legacy.server.clone();
    let labels = [server, attribute("tool", tool.to_owned()), attribute("status", status)];
    legacy.tool_calls.add(1, &labels);
    if is_success {
        legacy.bound_tool_calls.bind(tool.to_owned(), || legacy.tool_calls.bind(&labels));
    }
}

/// The labels of operations and sessions.
fn transport_attributes(facts: &RequestFacts, record: &RequestRecord) -> impl Iterator<Item = KeyValue> {
    let version = record.version(facts).map(mcp_version);
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
    let Some(session) = facts.session() else { return };
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
    let (http_method, status) = (http_method(&facts.method), record.status(outcome));
    let single = record.single();
    let (mcp_method, name) = single.map_or(("", None), |one| (one.label, one.target.name()));
    let is_timed = !is_get_stream(facts, record);
    let is_same = |labels: &LegacyLabels| {
        (labels.http_method, labels.status, labels.mcp_method, labels.target.as_deref())
            == (http_method, status, mcp_method, name)
    };
    let measure = |(requests, duration): &(BoundCounter<u64>, BoundHistogram<f64>)| {
        requests.add(1);
        if is_timed {
            duration.record(took);
        }
    };
    if !failed && legacy.bound_requests.measure(is_same, measure) {
        return;
    }
    let label = single.and_then(|one| {
        let known = one.outcome.as_ref().is_some_and(|outcome| outcome.code.is_none());
        match &one.target {
            OperationTarget::Tool(name) => Some(instruments.tool(name, known)),
            OperationTarget::Prompt(name) => Some(instruments.prompt(name, known)),
            OperationTarget::Resource(_) | OperationTarget::None => None,
        }
    });
    let [server, transport] = legacy.server.clone();
    let labels = [
        attribute("method", http_method),
        attribute("status_code", status.map_or(String::new(), |status| status.to_string())),
        attribute("status", if failed { "error" } else { "success" }),
        attribute("mcp_method", mcp_method),
        attribute("mcp_resource_id", label.clone().unwrap_or_default()),
        server,
        transport,
    ];
    legacy.requests.add(1, &labels);
    if is_timed {
        legacy.duration.record(took, &labels);
    }
    if !failed && is_timed && label.as_deref() == name {
        let known = LegacyLabels { http_method, status, mcp_method, target: label };
        let bind = || (legacy.requests.bind(&labels), legacy.duration.bind(&labels));
        legacy.bound_requests.bind(known, bind);
    }
}

/// An attribute of a span, or a label of a metric.
pub(super) fn attribute(key: &'static str, value: impl Into<opentelemetry::Value>) -> KeyValue {
    KeyValue::new(key, value)
}
