//! Tests the stdio bridge on a pair of pipes: the requests that it sends, and the messages that a client gets after
//! failures.

mod limits;

use std::time::Duration;

use mcpm::{ErrorKind, Result, StdioBridge, options::ProxyMode, stdio_bridge::StdioBridgeBuilder};
use mcpm_tests::harness::{
    mcp::{LEGACY, MODERN, Modern, initialize, notification, request, tool},
    upstream::{Connection, ReceivedRequest, Upstream},
    with_timeout,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines},
    net::TcpListener,
    task::JoinHandle,
};

use crate::modern;

const JSON: &str = "Content-Type: application/json\r\nConnection: close\r\n";
const IN_SESSION: &str = "Content-Type: application/json\r\nConnection: close\r\nMcp-Session-Id: one\r\n";

/// The client of a bridge.
struct Client {
    input: DuplexStream,
    output: Lines<BufReader<DuplexStream>>,
    serving: JoinHandle<Result<()>>,
}

impl Client {
    fn start(bridge: StdioBridgeBuilder) -> Self {
        let bridge = bridge.build().unwrap();
        let (input, theirs) = tokio::io::duplex(64 << 10);
        let (output, written) = tokio::io::duplex(64 << 10);
        let serving = tokio::spawn(bridge.serve(theirs, written));
        Self { input, output: BufReader::new(output).lines(), serving }
    }

    async fn write(&mut self, text: &str) {
        with_timeout("the bridge to read", self.input.write_all(text.as_bytes())).await.unwrap();
    }

    async fn send(&mut self, message: Value) {
        self.write(&format!("{message}\n")).await;
    }

    async fn line(&mut self) -> Option<String> {
        with_timeout("a line of the bridge", self.output.next_line()).await.unwrap()
    }

    async fn receive(&mut self) -> Value {
        serde_json::from_str(&self.line().await.unwrap()).unwrap()
    }

    /// Closes the input, and returns the remaining output and the result of serving.
    async fn finish(self) -> (Vec<String>, Result<()>) {
        let Self { input, mut output, serving } = self;
        drop(input);
        let mut last = Vec::new();
        while let Some(line) = with_timeout("the bridge to end", output.next_line()).await.unwrap() {
            last.push(line);
        }
        (last, with_timeout("the bridge to end", serving).await.unwrap())
    }
}

fn method(received: &ReceivedRequest) -> String {
    let message: Value = serde_json::from_slice(&received.body).unwrap_or_default();
    let verb = received.line.split(' ').next().unwrap();
    message["method"].as_str().map_or_else(|| verb.to_owned(), str::to_owned)
}

/// Waits for a request with an MCP method, or with an HTTP method and no MCP method.
async fn expect(upstream: &Upstream, expected: &str) -> (Connection, ReceivedRequest) {
    let (connection, received) = upstream.request().await;
    assert_eq!(method(&received), expected, "{received:?}");
    (connection, received)
}

fn result(id: Value, result: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()
}

fn initialized(capabilities: Value) -> String {
    result(json!(0), json!({ "protocolVersion": LEGACY, "capabilities": capabilities, "serverInfo": {} }))
}

/// Makes the handshake, in a session, with a server that has no stream of its own messages.
async fn handshake(client: &mut Client, upstream: &Upstream) {
    client.send(initialize(LEGACY, json!({}))).await;
    client.send(notification("notifications/initialized", json!({}))).await;
    let (mut connection, received) = expect(upstream, "initialize").await;
    assert_eq!(received.headers.get("mcp-session-id"), None);
    connection.answer("200 OK", IN_SESSION, &initialized(json!({ "tools": {} }))).await;
    assert_eq!(client.receive().await["result"]["protocolVersion"], LEGACY);
    accept_initialized(upstream, "one").await;
}

async fn accept_initialized(upstream: &Upstream, session: &str) {
    let (mut connection, received) = expect(upstream, "notifications/initialized").await;
    assert_in_session(&received, session);
    connection.answer("202 Accepted", "Connection: close\r\n", "").await;
    let (mut connection, received) = expect(upstream, "GET").await;
    assert_in_session(&received, session);
    connection.answer("405 Method Not Allowed", "Connection: close\r\n", "").await;
}

fn assert_in_session(received: &ReceivedRequest, session: &str) {
    let header = |name| received.headers.get(name);
    assert_eq!((header("mcp-session-id"), header("mcp-protocol-version")), (Some(session), Some(LEGACY)));
}

async fn end_session(client: Client, upstream: &Upstream, session: &str) {
    let finishing = tokio::spawn(client.finish());
    let (mut connection, received) = expect(upstream, "DELETE").await;
    assert_in_session(&received, session);
    connection.answer("204 No Content", "Connection: close\r\n", "").await;
    let (last, outcome) = finishing.await.unwrap();
    assert!(last.is_empty() && outcome.is_ok(), "{last:?}, {outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_the_older_era_passes_byte_for_byte_in_both_directions() {
    let upstream = Upstream::listen().await;
    let bridge = StdioBridge::builder(upstream.uri("/mcp?key=a")).header(("Authorization", "Bearer hush"));
    let mut client = Client::start(bridge);
    // All messages are written at once, as scripts do.
    client.send(initialize(LEGACY, json!({}))).await;
    client.send(notification("notifications/initialized", json!({}))).await;
    let call =
        r#"{"id" : 1.0, "jsonrpc":"2.0","unknown":[1.00],"method":"tools\/call","params":{"name":"a"}}"#;
    client.write(&format!("\n{call}\r\n")).await;
    let (mut connection, received) = expect(&upstream, "initialize").await;
    assert_eq!(received.line, "POST /mcp?key=a HTTP/1.1");
    assert_eq!(received.headers.get("authorization"), Some("Bearer hush"));
    connection.answer("200 OK", IN_SESSION, &initialized(json!({}))).await;
    assert_eq!(client.receive().await["id"], 0);
    let (mut connection, received) = expect(&upstream, "notifications/initialized").await;
    assert_in_session(&received, "one");
    connection.answer("202 Accepted", "Connection: close\r\n", "").await;
    // The bridge has opened the stream of the server's own messages, and sent the call.
    let (one, other) = (upstream.request().await, upstream.request().await);
    let (mut own, mut called) = if method(&one.1) == "GET" { (one, other) } else { (other, one) };
    assert_eq!(String::from_utf8(called.1.body).unwrap().trim_end(), call);
    own.0.begin_events().await;
    own.0.chunk("data: {\"jsonrpc\":\"2.0\",\"id\":\"s\",\"method\":\"roots/list\"}\n\n").await;
    assert_eq!(client.line().await.unwrap(), r#"{"jsonrpc":"2.0","id":"s","method":"roots/list"}"#);
    client.write("{\"jsonrpc\":\"2.0\",\"id\":\"s\",\"result\":{\"roots\":[]}}\n").await;
    let (mut connection, received) = expect(&upstream, "POST").await;
    assert_in_session(&received, "one");
    connection.answer("202 Accepted", "Connection: close\r\n", "").await;
    called.0.begin_events().await;
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":1.50}}"#;
    called.0.chunk(&format!("event: message\ndata: {progress}\n\n")).await;
    assert_eq!(client.line().await.unwrap(), progress);
    let answer = r#"{"result":{"z":1e2,"a":"\/"},"jsonrpc":"2.0","id":1.0}"#;
    called.0.chunk(&format!("data: {answer}\n\n")).await;
    assert_eq!(client.line().await.unwrap(), answer);
    drop(called.0);
    end_session(client, &upstream, "one").await;
    own.0.closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_whose_stream_breaks_is_resumed() {
    let upstream = Upstream::listen().await;
    let mut client = Client::start(StdioBridge::builder(upstream.uri("/mcp")));
    handshake(&mut client, &upstream).await;
    client.send(request(1, "tools/call", tool("a", json!({})))).await;
    let (mut connection, _) = expect(&upstream, "tools/call").await;
    connection.begin_events().await;
    connection.chunk("id: 7.1\nretry: 10\ndata:\n\n").await;
    drop(connection);
    // The server closes the stream again, and has sent an event.
    for (last, next) in [("7.1", "7.2"), ("7.2", "7.3")] {
        let (mut connection, received) = expect(&upstream, "GET").await;
        assert_in_session(&received, "one");
        assert_eq!(received.headers.get("last-event-id"), Some(last));
        connection.begin_events().await;
        connection.chunk(&format!("id: {next}\ndata: {}\n\n", notification("x", json!({})))).await;
        assert_eq!(client.receive().await["method"], "x");
    }
    let (mut connection, received) = expect(&upstream, "GET").await;
    assert_eq!(received.headers.get("last-event-id"), Some("7.3"));
    connection.begin_events().await;
    connection.chunk(&format!("data: {}\n\n", result(json!(1), json!({})))).await;
    assert_eq!(client.receive().await["id"], 1);
    // A stream without ids cannot be resumed.
    client.send(request(2, "tools/call", tool("a", json!({})))).await;
    let (mut connection, _) = expect(&upstream, "tools/call").await;
    connection.begin_events().await;
    drop(connection);
    let failed = client.receive().await;
    assert_eq!((&failed["id"], &failed["error"]["code"]), (&json!(2), &json!(-32603)), "{failed}");
    end_session(client, &upstream, "one").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_server_has_lost_is_opened_again() {
    let upstream = Upstream::listen().await;
    let mut client = Client::start(StdioBridge::builder(upstream.uri("/mcp")));
    handshake(&mut client, &upstream).await;
    client.send(request(1, "logging/setLevel", json!({ "level": "debug" }))).await;
    let (mut connection, _) = expect(&upstream, "logging/setLevel").await;
    connection.answer("200 OK", JSON, &result(json!(1), json!({}))).await;
    assert_eq!(client.receive().await["id"], 1);
    client.send(request(2, "tools/list", json!({}))).await;
    let (mut connection, received) = expect(&upstream, "tools/list").await;
    assert_in_session(&received, "one");
    connection.answer("404 Not Found", JSON, "{}").await;
    let (mut connection, received) = expect(&upstream, "initialize").await;
    assert_eq!(received.headers.get("mcp-session-id"), None);
    let again = IN_SESSION.replace("one", "two");
    connection.answer("200 OK", &again, &initialized(json!({ "tools": {} }))).await;
    for (method, status, body) in [
        ("notifications/initialized", "202 Accepted", String::new()),
        ("logging/setLevel", "200 OK", result(json!(1), json!({}))),
        ("tools/list", "200 OK", result(json!(2), json!({ "tools": [] }))),
    ] {
        let (mut connection, received) = expect(&upstream, method).await;
        assert_in_session(&received, "two");
        connection.answer(status, JSON, &body).await;
    }
    assert_eq!(client.receive().await["id"], 2);
    end_session(client, &upstream, "two").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_would_be_different_ends_the_bridge() {
    let upstream = Upstream::listen().await;
    let mut client = Client::start(StdioBridge::builder(upstream.uri("/mcp")));
    handshake(&mut client, &upstream).await;
    client.send(request("a", "tools/list", json!({}))).await;
    let (mut connection, _) = expect(&upstream, "tools/list").await;
    connection.answer("404 Not Found", JSON, "{}").await;
    let (mut connection, _) = expect(&upstream, "initialize").await;
    connection.answer("200 OK", JSON, &initialized(json!({ "prompts": {} }))).await;
    let failed = client.receive().await;
    assert_eq!((&failed["id"], &failed["error"]["code"]), (&json!("a"), &json!(-32001)), "{failed}");
    let (mut connection, _) = expect(&upstream, "DELETE").await;
    connection.answer("404 Not Found", "Connection: close\r\n", "").await;
    let error = with_timeout("the bridge to end", client.serving).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Upstream);
    assert!(error.to_string().contains("start the command again"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateless_call_carries_its_headers_and_is_cancelled_by_closing() {
    let upstream = Upstream::listen().await;
    let mut client = Client::start(StdioBridge::builder(upstream.uri("/mcp")));
    let params = Modern::params(tool("grüßen", json!({ "region": "eu" })));
    client.send(request(1, "tools/call", params.clone())).await;
    // The bridge has not seen the schema yet.
    let (mut connection, received) = expect(&upstream, "tools/list").await;
    assert_eq!(received.headers.get("mcp-method"), Some("tools/list"));
    let schema = json!({ "properties": { "region": { "type": "string", "x-mcp-header": "Region" } } });
    let tools = json!({ "tools": [{ "name": "grüßen", "inputSchema": schema }] });
    let asked: Value = serde_json::from_slice(&received.body).unwrap();
    connection.answer("200 OK", JSON, &result(asked["id"].clone(), tools)).await;
    let (mut connection, received) = expect(&upstream, "tools/call").await;
    let header = |name| received.headers.get(name);
    assert_eq!(header("mcp-protocol-version"), Some(MODERN));
    assert_eq!(header("mcp-method"), Some("tools/call"));
    assert_eq!(header("mcp-name"), Some("=?base64?Z3LDvMOfZW4=?="));
    assert_eq!(header("mcp-param-region"), Some("eu"));
    assert_eq!(header("mcp-session-id"), None);
    connection.begin_events().await;
    client.send(notification("notifications/cancelled", json!({ "requestId": 1 }))).await;
    connection.closed().await;
    // The cancelled call gets no response; a rejection without an id gets the id of its request.
    client.send(request("x", "tools/call", params)).await;
    let (mut connection, _) = expect(&upstream, "tools/call").await;
    let rejection =
        json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32021, "message": "no", "data": 1 } });
    connection.answer("400 Bad Request", JSON, &rejection.to_string()).await;
    let rejected = client.receive().await;
    assert_eq!(rejected, json!({ "jsonrpc": "2.0", "id": "x", "error": rejection["error"] }));
    let (last, outcome) = client.finish().await;
    assert!(last.is_empty() && outcome.is_ok(), "{last:?}, {outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_answered() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut client = Client::start(StdioBridge::builder(format!("http://{closed}/mcp")));
    for (text, id, code) in [
        ("{".to_owned(), Value::Null, -32700),
        ("\u{1}".to_owned(), Value::Null, -32700),
        ("[]".to_owned(), Value::Null, -32600),
        (r#"{"jsonrpc":"1.0","id":3,"method":"a"}"#.to_owned(), json!(3), -32600),
        (r#"{"jsonrpc":"2.0","id":4,"method":"a"}"#.to_owned(), json!(4), -32603),
        (r#"[{"jsonrpc":"2.0","id":5,"method":"a"}]"#.to_owned(), json!(5), -32603),
        (format!(r#"{{"jsonrpc":"2.0","id":6,"method":"{}"}}"#, "x".repeat(33 << 20)), json!(6), -32600),
    ] {
        client.write(&format!("{text}\n")).await;
        let answer = client.receive().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{answer}");
    }
    // The last line need not be complete.
    client.write(r#"{"jsonrpc":"2.0","id":7,"method":"a"}"#).await;
    let (last, outcome) = client.finish().await;
    assert!(last.len() == 1 && last[0].contains("refused"), "{last:?}");
    outcome.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_respond_or_responds_otherwise_is_reported() {
    let upstream = Upstream::listen().await;
    let bridge = StdioBridge::builder(upstream.uri("/mcp")).response_timeout(Duration::from_millis(100));
    let mut client = Client::start(bridge);
    client.send(request(1, "ping", json!({}))).await;
    let (_silent, _) = expect(&upstream, "ping").await;
    assert!(client.receive().await["error"]["message"].as_str().unwrap().contains("no response"));
    for (status, headers, body, said) in [
        ("200 OK", JSON, "{}".to_owned(), "is invalid"),
        ("200 OK", JSON, result(json!(7), json!({})), "the id of another request"),
        ("200 OK", "Content-Type: text/html\r\nConnection: close\r\n", "<html>".to_owned(), "is invalid"),
        ("202 Accepted", JSON, String::new(), "did not respond"),
        ("401 Unauthorized", JSON, String::new(), "requires authentication"),
        ("302 Found", JSON, String::new(), "HTTP 302"),
    ] {
        client.send(request(2, "ping", json!({}))).await;
        let (mut connection, _) = expect(&upstream, "ping").await;
        connection.answer(status, headers, &body).await;
        let answer = client.receive().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(2), &json!(-32603)), "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(said), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_in_flight_are_answered_when_the_input_ends() {
    let upstream = Upstream::listen().await;
    let bridge = StdioBridge::builder(upstream.uri("/mcp")).exit_grace(Duration::from_millis(100));
    let mut client = Client::start(bridge);
    client.send(request(1, "ping", json!({}))).await;
    let (mut silent, _) = expect(&upstream, "ping").await;
    let (last, outcome) = client.finish().await;
    assert!(last.len() == 1 && last[0].contains(r#""id":1"#) && last[0].contains("error"), "{last:?}");
    outcome.unwrap();
    silent.closed().await;
    // A response in time is delivered.
    let mut client = Client::start(StdioBridge::builder(upstream.uri("/mcp")));
    client.send(request(1, "ping", json!({}))).await;
    let (mut connection, _) = expect(&upstream, "ping").await;
    let finishing = tokio::spawn(client.finish());
    connection.answer("200 OK", JSON, &result(json!(1), json!({}))).await;
    let (last, outcome) = finishing.await.unwrap();
    assert_eq!(last, [result(json!(1), json!({}))]);
    outcome.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deprecated_transport_is_served() {
    let upstream = Upstream::listen().await;
    let mut client = Client::start(StdioBridge::builder(upstream.uri("/sse")).mode(ProxyMode::Sse));
    client.send(initialize(LEGACY, json!({}))).await;
    let (mut stream, received) = expect(&upstream, "GET").await;
    assert_eq!(received.line, "GET /sse HTTP/1.1");
    stream.begin_events().await;
    stream.chunk("event: endpoint\ndata: messages?s=1\n\n").await;
    let (mut connection, received) = expect(&upstream, "initialize").await;
    assert_eq!(received.line, "POST /messages?s=1 HTTP/1.1");
    connection.answer("202 Accepted", "Connection: close\r\n", "").await;
    stream.chunk(&format!("event: message\ndata: {}\n\n", initialized(json!({})))).await;
    assert_eq!(client.receive().await["id"], 0);
    client.send(request(1, "ping", json!({}))).await;
    let (mut connection, _) = expect(&upstream, "ping").await;
    connection.answer("202 Accepted", "Connection: close\r\n", "").await;
    drop(stream);
    let failed = client.receive().await;
    assert_eq!((&failed["id"], &failed["error"]["code"]), (&json!(1), &json!(-32001)), "{failed}");
    assert!(with_timeout("the bridge to end", client.serving).await.unwrap().is_err());
    // Messages, and the credentials in their headers, are not sent to another server.
    let mut client = Client::start(StdioBridge::builder(upstream.uri("/sse")).mode(ProxyMode::Sse));
    client.send(initialize(LEGACY, json!({}))).await;
    let (mut stream, _) = expect(&upstream, "GET").await;
    stream.begin_events().await;
    stream.chunk("event: endpoint\ndata: http://other.example/messages\n\n").await;
    let failed = client.receive().await;
    assert!(failed["error"]["message"].as_str().unwrap().contains("other.example"), "{failed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_are_answered_through_two_bridges() {
    let bridge = modern().await;
    let mut client = Client::start(StdioBridge::builder(bridge.running.proxy().url()));
    for id in 0..100 {
        let params = Modern::params(tool("echo", json!({ "text": "x".repeat(10_000), "id": id })));
        client.send(request(id, "tools/call", params)).await;
    }
    let mut ids = Vec::new();
    for _ in 0..100 {
        let answer = client.receive().await;
        assert_eq!(answer["result"]["echo"]["id"], answer["id"], "{answer}");
        ids.push(answer["id"].as_u64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, (0..100).collect::<Vec<_>>());
    let (last, outcome) = client.finish().await;
    assert!(last.is_empty() && outcome.is_ok(), "{last:?}, {outcome:?}");
}
