//! Tests of what an audit log records, redacts and suppresses.

use std::sync::atomic::Ordering;

use super::*;
use crate::{line_writer::tests::MemorySink, options::Secret};

pub(crate) fn open_in_memory(spec: &AuditSpec) -> (Arc<Audit>, MemorySink) {
    let memory = MemorySink::default();
    let secrets = [Secret::from("canary-of-server")];
    (Audit::with(spec, "server", Box::new(memory.clone()), secrets).expect("a thread"), memory)
}

fn lines(memory: &MemorySink) -> Vec<Value> {
    memory.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test]
async fn a_refused_connection_names_the_calls_in_flight_and_no_others() {
    let (audit, memory) = open_in_memory(&AuditSpec::default());
    let track = |method: &'static str, name: Option<&str>| {
        let (audit_id, name) = (AuditId::random(), name.map(str::to_owned));
        let call = CallInfo { audit_id, method: method.into(), name };
        (audit.track_call(&Arc::new(call)), audit_id.as_str().to_owned())
    };
    let (over, _) = track("tools/call", Some("gone"));
    let (one, id_of_one) = track("tools/call", Some("fetch"));
    let (other, id_of_other) = track("tools/list", None);
    drop(over);
    audit.connection_denied(Map::new(), Map::new());
    drop((one, other));
    audit.connection_denied(Map::new(), Map::new());
    audit.flush().await;
    let events = lines(&memory);
    let extra = |event: &Value| event["metadata"]["extra"].clone();
    let calls = json!([
        { "audit_id": id_of_one, "method": "tools/call", "name": "fetch" },
        { "audit_id": id_of_other, "method": "tools/list" },
    ]);
    assert_eq!(extra(&events[0]), json!({ "calls_in_flight": 2, "in_flight": calls }));
    assert_eq!(extra(&events[1]), json!({ "calls_in_flight": 0, "in_flight": [] }));
    assert_eq!((&events[0]["type"], &events[0]["outcome"]), (&json!("connection_refused"), &json!("denied")));
}

#[tokio::test]
async fn lost_events_are_counted_in_the_log_whatever_types_it_takes() {
    let spec = AuditSpec { event_types: vec![EventType::Ping], ..AuditSpec::default() };
    let (audit, memory) = open_in_memory(&spec);
    assert!(audit.records(EventType::Ping) && !audit.records(EventType::ConnectionRefused));
    audit.connection_denied(Map::new(), Map::new());
    let event = || audit.event(EventType::Ping, AuditOutcome::Success, AuditId::random(), SystemTime::now());
    memory.full.store(true, Ordering::Relaxed);
    audit.write(&event()).await.expect_err("it is full");
    memory.full.store(false, Ordering::Relaxed);
    audit.write(&event()).await.expect("there is room");
    let events = lines(&memory);
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(
        (&events[0]["type"], &events[0]["metadata"]["extra"]["events"]),
        (&json!("events_lost"), &json!(1))
    );
    assert_eq!(events[1]["type"], "mcp_ping");
}

#[test]
fn data_is_bounded_and_delegation_is_followed_so_far() {
    let (audit, _) =
        open_in_memory(&AuditSpec { max_data_size: 20, max_delegation_depth: 2, ..AuditSpec::default() });
    let masks = &ExtendedRedactor::new(audit.masks(), [None, None]);
    assert_eq!(audit.data(r#"{"a":1}"#, masks), json!({ "a": 1 }));
    assert_eq!(audit.data(r#"{"a":"canary-of-server"}"#, masks), json!({ "a": "[redacted]" }));
    let long = format!(r#"{{"a":"{}"}}"#, "é".repeat(100));
    let cut = audit.data(&long, masks);
    assert_eq!((&cut["truncated"], &cut["size"]), (&json!(true), &json!(long.len())));
    assert_eq!(cut["text"], format!("{{\"a\":\"{}…", "é".repeat(7)));
    let huge = format!("[\"{}\"]", "a".repeat(MAX_INSPECTED_BYTES));
    assert_eq!(audit.data(&huge, masks), json!({ "truncated": true, "size": huge.len(), "text": "" }));
    let claims =
        json!({ "act": { "sub": "a", "x": 1, "act": { "sub": "b", "iss": "i", "act": { "sub": "c" } } } });
    let claims = claims.as_object().expect("an object");
    assert_eq!(audit.delegation(claims), [json!({ "sub": "a" }), json!({ "sub": "b", "iss": "i" })]);
}
