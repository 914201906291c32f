//! Checks that the audit log and a trace have the same ids for a request.

use std::fs;

use serde_json::{Value, json};

use super::fixture::{OtlpReceiver, call, measured_proxy};

const ONE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OTHER: &str = "00-11111111111111111111111111111111-2222222222222222-01";

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_event_names_the_requests_own_span() {
    let folder = tempfile::tempdir().unwrap();
    let (config, log) = (folder.path().join("audit.json"), folder.path().join("audit.jsonl"));
    fs::write(&config, json!({ "logFile": log }).to_string()).unwrap();
    let receiver = OtlpReceiver::start("").await;
    let measured = measured_proxy(|proxy| {
        let proxy = proxy.otel_endpoint(format!("http://{}", receiver.http)).otel_sampling_rate(1.0);
        proxy.audit_config(&config)
    })
    .await;
    let meta = format!(r#","_meta":{{"traceparent":"{ONE}"}}"#);
    for (tool, meta, header) in
        [("new", "", None), ("header", "", Some(OTHER)), ("meta", &*meta, Some(OTHER))]
    {
        let mut request = measured.http.post("/mcp", call(tool, meta));
        if let Some(header) = header {
            request = request.header("traceparent", header);
        }
        assert_eq!(request.send().await.status, 200);
    }
    let refused = measured.http.post("/mcp", call("x", "")).header("Origin", "https://evil.example");
    assert_eq!(refused.send().await.status, 403);
    measured.proxy.stop().await;
    let exports = receiver.finish().await;
    let text = fs::read_to_string(log).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), 4, "{text}");
    let spans = ["tools/call new", "tools/call header", "tools/call meta", "POST"];
    for (event, name) in events.iter().zip(spans) {
        let (span, extra) = (exports.span(name), &event["metadata"]["extra"]);
        assert_eq!((&extra["trace_id"], &extra["span_id"]), (&json!(span.trace), &json!(span.id)), "{name}");
    }
    assert_eq!(exports.span("tools/call header").trace, &OTHER[3..35]);
    assert_eq!(exports.span("tools/call meta").trace, &ONE[3..35]);
}
