//! Creates the attributes of a request's span.
//!
//! Names are those of the semantic conventions; if configured, older names are used in addition. No attribute contains
//! arguments, tokens, queries or results.

use std::time::Instant;

use opentelemetry::KeyValue;

use super::{
    facts::{Peer, RequestFacts},
    metrics::attribute,
    operation::{Operation, OperationTarget, RequestRecord},
    outcome::{RequestOutcome, SentBody},
};
use crate::telemetry::{Telemetry, cut, http_method};

pub(super) fn count_of(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// The attributes of HTTP.
pub(super) fn http_attributes(
    facts: &RequestFacts,
    record: &RequestRecord,
    is_legacy: bool,
    outcome: RequestOutcome,
    sent: SentBody,
    now: Instant,
) -> Vec<KeyValue> {
    let RequestFacts { scheme, size, method, version, .. } = facts;
    let (host, agent) = (facts.host(), facts.user_agent().map(str::to_owned));
    let (method, path) = (http_method(method), cut(facts.path()));
    let mut all = vec![
        attribute("http.request.method", method),
        attribute("url.scheme", *scheme),
        attribute("url.path", path.to_owned()),
        attribute("network.protocol.name", "http"),
        attribute("network.protocol.version", *version),
        attribute("http.response.body.size", count_of(sent.size)),
    ];
    let full = host.map(|host| format!("{scheme}://{host}{path}"));
    let status = record.status(outcome);
    all.extend(status.map(|status| attribute("http.response.status_code", i64::from(status))));
    all.extend(size.map(|size| attribute("http.request.body.size", count_of(size))));
    all.extend(agent.clone().map(|agent| attribute("user_agent.original", agent)));
    all.extend(full.clone().map(|full| attribute("url.full", full)));
    if let Some((name, port)) = host.map(name_and_port) {
        all.push(attribute("server.address", name.to_owned()));
        all.extend(port.map(|port| attribute("server.port", i64::from(port))));
    }
    all.extend(client_attributes(facts));
    if is_legacy {
        all.extend([
            attribute("http.method", method),
            attribute("http.scheme", *scheme),
            attribute("http.target", path.to_owned()),
            attribute("http.response_content_length", count_of(sent.size)),
            attribute("http.duration_ms", now.duration_since(facts.began.1).as_secs_f64() * 1000.0),
        ]);
        all.extend(status.map(|status| attribute("http.status_code", i64::from(status))));
        all.extend(size.map(|size| attribute("http.request_content_length", count_of(size))));
        all.extend(agent.clone().map(|agent| attribute("http.user_agent", agent)));
        all.extend(full.map(|full| attribute("http.url", full)));
        all.extend(host.map(|host| attribute("http.host", host.to_owned())));
    }
    if let Some(denial) = record.response.as_ref().and_then(|head| head.denial.as_ref()) {
        all.extend([
            attribute("mcpm.denial.layer", denial.reason.layer()),
            attribute("mcpm.denial.reason", denial.reason.id()),
            attribute("mcpm.denial.refusal", denial.id.as_str().to_owned()),
        ]);
    }
    all
}

/// The addresses of the client (`client`) and of the peer of the connection (`network.peer`), which differ behind a
/// reverse proxy (HTTP conventions).
fn client_attributes(facts: &RequestFacts) -> Vec<KeyValue> {
    let peer = facts
        .peer
        .and_then(Peer::address)
        .map(|peer| (peer.ip().to_canonical().to_string(), i64::from(peer.port())));
    let mut all = Vec::new();
    match (facts.forwarded, &peer) {
        (Some(client), _) => all.push(attribute("client.address", client.to_string())),
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

/// The attributes of MCP.
pub(super) fn mcp_attributes(
    facts: &RequestFacts,
    record: &RequestRecord,
    telemetry: &Telemetry,
    is_stdio: bool,
    outcome: RequestOutcome,
) -> Vec<KeyValue> {
    let (is_legacy, name) = (telemetry.legacy, telemetry.server.clone());
    let mut all = vec![attribute("network.transport", "tcp"), attribute("mcp.server.name", name)];
    let opened = || record.response.as_ref().and_then(|head| head.session.clone());
    let session = facts.session().map(str::to_owned).or_else(opened);
    all.extend(session.map(|session| attribute("mcp.session.id", session)));
    all.extend(record.version(facts).map(|version| attribute("mcp.protocol.version", version.to_owned())));
    all.extend(record.client.clone().map(|client| attribute("mcp.client.name", client)));
    if is_legacy {
        let transport = if is_stdio { "stdio" } else { "http" };
        all.push(attribute("mcp.transport", transport));
    }
    match &record.operations[..] {
        [one] if !record.is_batch => all.extend(operation_attributes(one, is_legacy)),
        [] => {}
        several => {
            let failed = several.iter().filter(|one| record.operation_error_type(one, outcome).is_some());
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
