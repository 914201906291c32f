//! Tests clients in the process of a proxy, whose requests pass all layers, with or without a port.

use std::{fs, time::Duration};

use mcpm::{
    ConnectOptions, Connection, ErrorKind,
    audit::{AuditSink, AuditSpec},
    options::ProxyMode,
    policy::PolicySpec,
    proxy::{ProxySpec, RunningProxy, StdioProxy},
};
use mcpm_tests::harness::{
    mcp::{LEGACY, Modern, initialize, notification, request, tool},
    with_timeout,
};
use rmcp::{ServiceExt as _, model::CallToolRequestParams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

use crate::{modern, script};

/// A connection, and the lines that were read from it.
struct Client(BufReader<Connection>);

impl Client {
    fn connect(proxy: &RunningProxy, mode: Option<ProxyMode>) -> Self {
        let options = ConnectOptions { mode, ..ConnectOptions::default() };
        Self(BufReader::new(proxy.connect_with(options).unwrap()))
    }

    async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        with_timeout("the connection", self.0.write_all(line.as_bytes())).await.unwrap();
    }

    /// Returns the next message; `None` at the end of the stream.
    async fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = with_timeout("a message", self.0.read_line(&mut line)).await.unwrap();
        (read > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    async fn ask(&mut self, message: Value) -> Value {
        self.send(message).await;
        self.receive().await.unwrap()
    }

    /// Makes the handshake of a session.
    async fn open(proxy: &RunningProxy, mode: Option<ProxyMode>) -> Self {
        let mut client = Self::connect(proxy, mode);
        let response = client.ask(initialize(LEGACY, json!({}))).await;
        assert_eq!(response["result"]["protocolVersion"], LEGACY);
        client.send(notification("notifications/initialized", json!({}))).await;
        client
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_published_rust_client_needs_no_port() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("audit.jsonl");
    let audit = AuditSpec { sink: AuditSink::File(log.clone()), ..AuditSpec::default() };
    let policy = PolicySpec { tools: vec!["!regional".to_owned()], ..PolicySpec::default() };
    // It is impossible to listen on this address.
    let spec = ProxySpec { host: "192.0.2.1".to_owned(), policy, audit: Some(audit), ..ProxySpec::default() };
    let script = script().await;
    let proxy = StdioProxy::new("scripted", script.process(&[])).spec(spec).in_process_only();
    let running = with_timeout("the proxy to start", proxy.start(|_| ())).await.unwrap();
    assert_eq!((running.proxy().url(), running.proxy().address()), ("", None));

    let client = ().serve(running.proxy().connect().unwrap()).await.unwrap();
    let tools = client.list_all_tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "echo"), "{tools:?}");
    assert!(tools.iter().all(|tool| tool.name != "regional"), "{tools:?}");
    client.call_tool(CallToolRequestParams::new("echo")).await.unwrap();
    client.call_tool(CallToolRequestParams::new("regional")).await.unwrap_err();
    client.cancel().await.unwrap();
    with_timeout("the proxy to stop", running.stop(Duration::from_secs(1))).await;

    let text = fs::read_to_string(log).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let outcomes = events.iter().filter(|event| event["type"] == "mcp_tool_call").map(|event| {
        assert_eq!(
            (&event["source"]["type"], &event["source"]["value"]),
            (&json!("in_process"), &json!("in_process"))
        );
        event["outcome"].as_str().unwrap()
    });
    assert_eq!(outcomes.collect::<Vec<_>>(), ["success", "denied"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_the_port_and_of_the_process_use_the_same_proxy() {
    let bridge = modern().await;
    let mut own = Client::open(bridge.running.proxy(), None).await;
    let call = request("a", "tools/call", json!({ "name": "echo", "arguments": { "text": "own" } }));
    let port = Modern(bridge.http);
    let (own, other) = tokio::join!(own.ask(call), port.call(7, "echo", json!({ "text": "other" })));
    assert_eq!((&own["id"], &own["result"]["echo"]["text"]), (&json!("a"), &json!("own")));
    assert_eq!((&other["id"], &other["result"]["echo"]["text"]), (&json!(7), &json!("other")));
    // A client of the stateless era needs no handshake.
    let mut stateless = Client::connect(bridge.running.proxy(), None);
    let params = Modern::params(json!({ "name": "echo", "arguments": {} }));
    assert_eq!(stateless.ask(request(1, "tools/call", params)).await["id"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_the_deprecated_transport_need_no_port() {
    let script = script().await;
    // The prefix is for clients of a reverse proxy.
    let prefix = Some("/team".to_owned());
    let spec = ProxySpec { mode: ProxyMode::Sse, endpoint_prefix: prefix, ..ProxySpec::default() };
    let proxy = StdioProxy::new("scripted", script.process(&[])).spec(spec).in_process_only();
    let running = with_timeout("the proxy to start", proxy.start(|_| ())).await.unwrap();
    assert_eq!(running.proxy().address(), None);
    for mode in [None, Some(ProxyMode::Sse)] {
        let mut client = Client::open(running.proxy(), mode).await;
        let response = client.ask(request(1, "tools/call", tool("echo", json!({ "who": "sse" })))).await;
        assert_eq!((&response["id"], &response["result"]["echo"]["who"]), (&json!(1), &json!("sse")));
    }
    // The given transport is used, even if the path is that of the other one.
    let mut client = Client::connect(running.proxy(), Some(ProxyMode::StreamableHttp));
    let response = client.ask(initialize(LEGACY, json!({}))).await;
    assert!(response["error"].is_object(), "{response}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_ends_with_its_proxy() {
    let bridge = modern().await;
    let proxy = bridge.running.proxy();
    let mut client = Client::open(proxy, None).await;
    with_timeout("the proxy to stop", bridge.running.stop(Duration::from_secs(1))).await;
    assert_eq!(client.receive().await, None);
    assert_eq!(proxy.connect().unwrap_err().kind(), ErrorKind::Upstream);
}
