//! Tests of the outcome of a request, depending on the head of its response and the messages in it.

use serde_json::Value;

use super::*;
use crate::{
    audit::{AuditSpec, tests::open_in_memory},
    proxy::{body::Body, external_url::ExternalUrlConfig},
};

const ASK: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;
const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn request(uri: &str, body: &'static str) -> RequestAudit {
    request_in(&open_in_memory(&AuditSpec::default()).0, uri, body)
}

fn request_in(audit: &Arc<Audit>, uri: &str, body: &'static str) -> RequestAudit {
    let request = http::Request::post(uri).body(Body::empty()).expect("a request");
    let facts = Arc::new(RequestFacts::from_request(&request, &ExternalUrlConfig::default(), false));
    let audited = RequestAudit::new(audit, &facts, None, &request, false);
    audited.set_messages(&RequestMessages::read(request.headers(), body.into()).expect("a message"));
    audited
}

fn finish(audited: &RequestAudit, status: u16, headers: &[(&str, &str)]) -> Vec<Value> {
    let mut response = http::Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    let response = response.body(Body::from(bytes::Bytes::from_static(b"text"))).expect("a response");
    let events = audited.settle_by_head(&Arc::new(ResponseHead::of(&response)));
    events.iter().map(|event| serde_json::to_value(event).expect("JSON")).collect()
}

#[test]
fn only_what_was_answered_is_a_success() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#;
    let ok = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let other = r#"{"jsonrpc":"2.0","id":2,"result":{}}"#;
    let gzip = [("content-encoding", "gzip")];
    let none: &[(&str, &str)] = &[];
    for (ask, answer, status, headers, outcome) in [
        (ASK, Some(ok), 200, none, "success"),
        (ASK, Some(other), 200, none, "unanswered"),
        (ASK, Some(error), 200, none, "application_error"),
        (ASK, None, 200, none, "unanswered"),
        (ASK, None, 202, none, "accepted"),
        (ASK, None, 500, none, "error"),
        (ASK, None, 404, none, "failure"),
        (ASK, None, 200, &gzip, "success"),
        (NOTE, None, 202, none, "success"),
        (NOTE, None, 200, none, "success"),
    ] {
        let audited = request("/mcp", ask);
        if let Some(answer) = answer {
            audited.on_message(&Message::parse(answer.into()).expect("a message"), None);
        }
        let events = finish(&audited, status, headers);
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0]["outcome"], outcome, "{status} {answer:?}");
    }
    // A response that was interrupted.
    let audited = request("/mcp", ASK);
    audited.on_messages_end(true);
    assert_eq!(finish(&audited, 200, none)[0]["outcome"], "error");
}

#[test]
fn outgoing_credentials_are_named_without_their_values() {
    let secret = |text: &'static str| {
        let mut value = HeaderValue::from_static(text);
        value.set_sensitive(true);
        value
    };
    let key = HeaderName::from_static("x-key");
    let plain = HeaderValue::from_static("canary");
    for (set, exchanged, own, expected) in [
        (&[][..], None, false, "none"),
        (&[(HeaderName::from_static("x-region"), plain.clone())], None, false, "none"),
        (&[], None, true, "caller"),
        (&[(key.clone(), secret("canary"))], None, true, "x-key,caller"),
        (&[(header::AUTHORIZATION, plain)], None, false, "authorization"),
        (&[], Some(header::AUTHORIZATION), true, "exchanged"),
        (&[(key.clone(), secret("canary"))], Some(header::AUTHORIZATION), true, "x-key,exchanged"),
        (&[(key.clone(), secret("canary"))], Some(key.clone()), false, "x-key"),
    ] {
        let audited = request("/mcp", ASK);
        if let Some(name) = &exchanged {
            audited.set_exchanged_token(name, &secret("Bearer canary"));
        }
        let set: HeaderMap = set.iter().cloned().collect();
        let mut headers = set.clone();
        if own {
            headers.insert(header::AUTHORIZATION, secret("Bearer canary"));
        }
        audited.set_outgoing_headers(&headers, &set);
        let event = &finish(&audited, 200, &[])[0];
        assert_eq!(event["metadata"]["extra"]["credential"], expected);
        assert!(!event.to_string().contains("canary"), "{event}");
    }
}

#[test]
fn a_path_is_recorded_up_to_its_bound() {
    let uri = format!("/mcp/{}?canary", "a".repeat(10_000));
    let events = finish(&request(&uri, ASK), 200, &[]);
    let endpoint = events[0]["target"]["endpoint"].as_str().expect("a path");
    assert!(endpoint.starts_with("/mcp/aaa") && endpoint.len() < MAX_PATH_BYTES + 4, "{}", endpoint.len());
}

#[tokio::test]
async fn a_stream_that_expires_is_not_recorded_as_client_gone() {
    for (exp, outcome) in
        [(Some(1), "unanswered"), (Some(u64::from(u32::MAX)), "client_gone"), (None, "client_gone")]
    {
        let (audit, memory) = open_in_memory(&AuditSpec::default());
        let audited = request_in(&audit, "/mcp", ASK);
        audited.set_principal(&Arc::new(Principal {
            issuer: "https://issuer".to_owned(),
            subject: "alice".to_owned(),
            audience: Vec::new(),
            client_id: None,
            scopes: Vec::new(),
            claims: exp.map(|exp| ("exp".to_owned(), exp.into())).into_iter().collect(),
            expires: SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(exp.unwrap_or_default()),
            token: "a token".into(),
        }));
        assert!(finish(&audited, 200, &[("content-type", "text/event-stream")]).is_empty());
        audited.finish(RequestOutcome::ClientGone);
        audit.flush().await;
        let event: Value = serde_json::from_str(&memory.text()).expect("one event");
        assert_eq!(event["outcome"], outcome, "{exp:?}");
    }
}

#[test]
fn an_event_stream_is_recognized_in_any_case() {
    let audited = request("/mcp", ASK);
    assert!(finish(&audited, 200, &[("content-type", "Text/Event-Stream; charset=utf-8")]).is_empty());
    assert!(audited.is_streaming());
}

#[test]
fn several_traceparent_headers_are_treated_as_none() {
    let trace = |count: usize| {
        let mut request = http::Request::post("/mcp").body(Body::empty()).expect("a request");
        let value = HeaderValue::from_static("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        for _ in 0..count {
            request.headers_mut().append("traceparent", value.clone());
        }
        let audit = open_in_memory(&AuditSpec::default()).0;
        let facts = Arc::new(RequestFacts::from_request(&request, &ExternalUrlConfig::default(), false));
        let audited = RequestAudit::new(&audit, &facts, None, &request, false);
        audited.set_messages(&RequestMessages::read(request.headers(), ASK.into()).expect("a message"));
        finish(&audited, 200, &[])[0]["metadata"]["extra"]["trace_id"].clone()
    };
    assert_eq!(trace(1), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!((trace(0), trace(2)), (Value::Null, Value::Null));
}
