//! Provides servers whose proxies export to a receiver.

use mcpm::{Proxy, ProxyBuilder, RunningProxy};
pub(crate) use mcpm_tests::harness::otlp_receiver::{OtlpExports, OtlpReceiver};
use mcpm_tests::harness::{
    http::Http,
    upstream::{ReceivedRequest, Upstream, UpstreamResponse},
};
use serde_json::Value;
use tokio::sync::mpsc;

/// A proxy, and the requests that its server receives.
pub(crate) struct MeasuredProxy {
    pub(crate) proxy: RunningProxy,
    pub(crate) http: Http,
    pub(crate) through: mpsc::UnboundedReceiver<ReceivedRequest>,
}

/// Returns a server's response to a body.
pub(crate) fn answer(body: &str) -> UpstreamResponse {
    let (kind, answer) = match body {
        body if body.contains("notifications/") => {
            return UpstreamResponse { status: "202 Accepted".into(), ..UpstreamResponse::default() };
        }
        body if body.contains("\"missing\"") => (
            "application/json",
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#.to_owned(),
        ),
        body if body.contains("\"tools/list\"") => {
            let id = &serde_json::from_str::<Value>(body).unwrap()["id"];
            ("application/json", format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[]}}}}"#))
        }
        body if body.contains("\"broken\"") => {
            let events = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#;
            ("text/event-stream", format!("data: {events}\n\n"))
        }
        _ => ("application/json", r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#.to_owned()),
    };
    let session = if body.contains("\"initialize\"") { "Mcp-Session-Id: session-1\r\n" } else { "" };
    UpstreamResponse {
        status: "200 OK".to_owned(),
        headers: format!("Content-Type: {kind}\r\n{session}"),
        body: answer,
    }
}

/// Starts a proxy with telemetry, which the test configures.
pub(crate) async fn measured_proxy(set_up: impl FnOnce(ProxyBuilder) -> ProxyBuilder) -> MeasuredProxy {
    let server = Upstream::listen().await;
    let (tell, through) = mpsc::unbounded_channel();
    let uri = server.uri("/mcp");
    server.serve(move |received| {
        let answered = answer(&String::from_utf8_lossy(&received.body));
        let ReceivedRequest { line, headers, body } = received;
        let copy = ReceivedRequest { line: line.clone(), headers: headers.clone(), body: body.clone() };
        // The receiver may be gone.
        let _ = tell.send(copy);
        answered
    });
    let proxy = set_up(Proxy::builder("measured", uri)).build().unwrap().start().await.unwrap();
    MeasuredProxy { http: Http(proxy.address().unwrap()), proxy, through }
}

/// Returns a call of a tool.
pub(crate) fn call(name: &str, meta: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}","arguments":{{"a":"canary-argument"}}{meta}}}}}"#
    )
}
