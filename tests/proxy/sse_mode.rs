//! Tests the deprecated HTTP+SSE transport of 2024-11-05.

use mcpm::{options::ProxyMode, proxy::StdioProxy};
use mcpm_tests::harness::{
    http::{Http, Response},
    mcp::{initialize, notification, request, tool},
    scripted_server::ScriptedProxy,
};
use serde_json::{Value, json};

use crate::script;

async fn sse() -> ScriptedProxy {
    let script = script().await;
    let proxy = StdioProxy::new("scripted", script.process(&[])).mode(ProxyMode::Sse);
    script.serve(proxy).await
}

struct Client {
    http: Http,
    stream: Response,
    endpoint: String,
}

impl Client {
    async fn open(http: Http) -> Self {
        let mut stream = http.get("/sse").send().await;
        assert_eq!(stream.status, 200);
        assert!(stream.is_events());
        let first = stream.event().await.unwrap();
        assert_eq!((first.name.as_deref(), first.id), (Some("endpoint"), None));
        let mut client = Self { http, stream, endpoint: first.data };
        assert_eq!(client.post(&initialize("2024-11-05", json!({}))).await, 202);
        assert_eq!(client.next().await["result"]["protocolVersion"], "2024-11-05");
        assert_eq!(client.post(&notification("notifications/initialized", json!({}))).await, 202);
        client
    }

    async fn post(&self, message: &Value) -> u16 {
        let response = self.http.post(&self.endpoint, message.to_string()).send().await;
        let status = response.status;
        if status == 202 {
            assert_eq!(response.text().await, "");
        }
        status
    }

    async fn next(&mut self) -> Value {
        let event = self.stream.event().await.unwrap();
        assert_eq!(event.name.as_deref(), Some("message"));
        event.json()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_its_client_hangs_up_over_the_handshake() {
    let script = script().await;
    let process = script.process(&["--hold-initialize"]);
    let mut bridge = script.serve(StdioProxy::new("scripted", process).mode(ProxyMode::Sse)).await;
    let mut stream = bridge.http.get("/sse").send().await;
    let endpoint = stream.event().await.unwrap().data;
    let posted = bridge.http.post(&endpoint, initialize("2024-11-05", json!({})).to_string());
    let posted = posted.send_only().await;
    bridge.process.received("initialize").await;
    drop(posted);
    assert!(stream.event().await.is_none(), "nothing would ever come on it");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_event_says_where_to_post() {
    let bridge = sse().await;
    assert!(bridge.running.proxy().url().ends_with("/sse"));
    let mut client = Client::open(bridge.http).await;
    assert!(client.endpoint.starts_with("/messages?"), "{}", client.endpoint);
    assert_eq!(client.post(&request(1, "tools/call", tool("notify", json!({ "count": 2 })))).await, 202);
    for data in 0..2 {
        assert_eq!(client.next().await["params"]["data"], data);
    }
    assert_eq!(client.next().await["id"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_with_the_same_ids_each_get_their_own_answers() {
    let mut bridge = sse().await;
    let (mut one, mut other) = (Client::open(bridge.http).await, Client::open(bridge.http).await);
    assert_ne!(one.endpoint, other.endpoint);
    for (client, who) in [(&one, "one"), (&other, "other")] {
        let call = request(1, "tools/call", tool("echo", json!({ "gate": "a", "who": who })));
        assert_eq!(client.post(&call).await, 202);
        bridge.process.received("tools/call").await;
    }
    bridge.process.open("a").await;
    let end = notification("notifications/tools/list_changed", json!({}));
    bridge.process.send(&end).await;
    for (client, who) in [(&mut one, "one"), (&mut other, "other")] {
        let answer = client.next().await;
        assert_eq!((&answer["id"], &answer["result"]["echo"]["who"]), (&json!(1), &json!(who)));
        assert_eq!(client.next().await, end);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_or_missing_session_is_refused() {
    let bridge = sse().await;
    let client = Client::open(bridge.http).await;
    let ping = request(1, "ping", json!({})).to_string();
    let post = |path: &str| bridge.http.post(path, ping.clone()).send();
    assert_eq!(post("/messages").await.status, 400);
    let mut stream = bridge.http.get("/sse").send().await;
    let place = stream.event().await.unwrap().data;
    for name in ["sessionId=", "SESSION_ID=", "session_id[]="] {
        let other = place.replace("session_id=", name);
        assert_eq!(post(&other).await.status, 400, "{other}: nobody was told of that place");
    }
    let response = post("/messages?session_id=0123456789abcdef0123456789abcdef").await;
    assert_eq!(response.status, 404);
    assert_eq!(response.json().await["error"]["code"], -32001);
    assert_eq!(bridge.http.get("/messages").send().await.status, 405);
    assert_eq!(post("/sse").await.status, 405);
    assert_eq!(post("/mcp").await.status, 404);
    drop(client);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_begins_with_one_initialize() {
    let mut bridge = sse().await;
    let mut stream = bridge.http.get("/sse").send().await;
    let endpoint = stream.event().await.unwrap().data;
    let early = bridge.http.post(&endpoint, request(1, "tools/list", json!({})).to_string()).send().await;
    assert_eq!(early.status, 400);
    let mut client = Client::open(bridge.http).await;
    bridge.process.drain_received().await;
    assert_eq!(client.post(&initialize("2024-11-05", json!({}))).await, 400);
    assert_eq!(client.post(&request(1, "tools/call", tool("echo", json!({})))).await, 202);
    assert_eq!(client.next().await["id"], 1);
    let seen = bridge.process.drain_received().await;
    assert!(seen.iter().all(|message| message["method"] != "initialize"), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_stream_is_the_end_of_the_session() {
    let mut bridge = sse().await;
    let client = Client::open(bridge.http).await;
    assert_eq!(client.post(&request(1, "tools/call", tool("silent", json!({})))).await, 202);
    let known = bridge.process.received("tools/call").await["id"].clone();
    let Client { http, stream, endpoint } = client;
    drop(stream);
    assert_eq!(bridge.process.received("notifications/cancelled").await["params"]["requestId"], known);
    assert_eq!(http.post(&endpoint, request(1, "ping", json!({})).to_string()).send().await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_answers_calls_on_the_stream_and_the_session_goes_on() {
    let mut bridge = sse().await;
    let mut client = Client::open(bridge.http).await;
    assert_eq!(client.post(&request("c", "tools/call", tool("silent", json!({})))).await, 202);
    bridge.process.received("tools/call").await;
    bridge.crash(7).await;
    let answer = client.next().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("c"), &json!(-32603)));
    assert_eq!(client.post(&request(2, "tools/call", tool("echo", json!({})))).await, 202);
    assert_eq!(client.next().await["id"], 2);
}
