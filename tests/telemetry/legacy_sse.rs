//! Tests calls over the deprecated transport, whose responses do not arrive in the response to the POST request, but on
//! another stream.

use std::collections::BTreeMap;

use mcpm::{
    Proxy,
    options::ProxyMode,
    proxy::{ProxySpec, StdioProxy},
    telemetry::TelemetrySpec,
};
use mcpm_tests::harness::{
    http::{Http, Response},
    mcp::{initialize, notification, request, tool},
    poll,
    scripted_server::ScriptedServer,
};
use serde_json::{Value, json};

/// The counts of calls: labels and values of data points.
async fn calls(http: Http) -> Vec<String> {
    let text = http.request("GET", "/metrics").send().await.text().await;
    let is_call = |line: &&str| {
        line.starts_with("mcp_server_operation_duration_seconds_count{") && line.contains("\"tools/call\"")
    };
    text.lines().filter(is_call).map(str::to_owned).collect()
}

struct Client {
    http: Http,
    stream: Response,
    endpoint: String,
}

impl Client {
    async fn open(http: Http) -> Self {
        let mut stream = http.get("/sse").send().await;
        let endpoint = stream.event().await.unwrap().data;
        let mut client = Self { http, stream, endpoint };
        client.post(&initialize("2024-11-05", json!({}))).await;
        client.stream.event().await.unwrap();
        client.post(&notification("notifications/initialized", json!({}))).await;
        client
    }

    /// Posts a message, and waits until it was accepted.
    async fn post(&mut self, message: &Value) {
        let response = self.http.post(&self.endpoint, message.to_string()).send().await;
        assert_eq!(response.status, 202);
        response.text().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_span_ends_when_the_answer_is_sent_on_the_session_stream() {
    let script = ScriptedServer::new(env!("CARGO_BIN_EXE_scripted-server")).await;
    let telemetry = TelemetrySpec {
        service_name: "elsewhere".to_owned(),
        attributes: BTreeMap::default(),
        legacy: false,
        prometheus: true,
        prometheus_port: None,
        otlp: None,
    };
    let spec = ProxySpec { mode: ProxyMode::Sse, telemetry: Some(telemetry), ..ProxySpec::default() };
    let proxy = StdioProxy::new("elsewhere", script.process(&[])).spec(spec);
    let mut bridge = script.serve(proxy).await;
    // The same server, as an HTTP server behind a second proxy.
    let front =
        Proxy::builder("front", bridge.running.proxy().url()).otel_enable_prometheus_metrics_path(true);
    let front = front.build().unwrap().start().await.unwrap();
    for (http, gates) in [(bridge.http, ["a", "b", "c"]), (Http(front.address().unwrap()), ["d", "e", "f"])] {
        let before = calls(http).await.len();
        let mut client = Client::open(http).await;
        let mut other = Client::open(http).await;
        for (client, gate) in [(&mut client, gates[0]), (&mut other, gates[1])] {
            client.post(&request(1, "tools/call", tool("echo", json!({ "gate": gate })))).await;
            bridge.process.received("tools/call").await;
        }
        assert_eq!(calls(http).await.len(), before, "they were posted, and are not answered");
        bridge.process.open(gates[0]).await;
        let answer = client.stream.event().await.unwrap().json();
        assert_eq!(answer["id"], 1, "{answer}");
        let counted = |calls: Vec<String>| {
            let answered =
                calls.iter().find(|line| line.contains("\"echo\"") && !line.contains("error_type"));
            answered.and_then(|line| line.rsplit(' ').next()?.parse::<u32>().ok())
        };
        let first = counted(calls(http).await).expect("its answer has gone out");
        // The other call has the same id, and belongs to another session.
        bridge.process.open(gates[1]).await;
        other.stream.event().await.unwrap();
        assert_eq!(counted(calls(http).await), Some(first + 1));
        other.post(&request(2, "tools/call", tool("echo", json!({ "gate": gates[2] })))).await;
        bridge.process.received("tools/call").await;
        drop(other);
        poll::wait_for_async("a call to end with its stream", async || {
            calls(http).await.into_iter().find(|line| line.contains("error_type=\"cancelled\""))
        })
        .await;
        bridge.process.open(gates[2]).await;
    }
    front.stop().await;
}
