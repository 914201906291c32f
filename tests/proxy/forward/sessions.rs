//! Checks that the proxy opens a session again which the server has lost, and that the client's session id stays the
//! same. Such a session ends only if it cannot be opened again; a session that the client has deleted stays deleted.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard},
};

use mcpm::proxy::{Proxy, RunningProxy};
use mcpm_tests::harness::{
    http::Http,
    mcp::{LEGACY, Session, request, tool},
    upstream::{ReceivedRequest, Upstream, UpstreamResponse},
    with_timeout,
};
use serde_json::{Value, json};

/// A server with sessions, which it can lose.
#[derive(Debug, Clone, Default)]
struct Server(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    opened: usize,
    live: BTreeSet<String>,
    /// The requests: MCP method or HTTP method, session, and credentials.
    seen: Vec<(String, String, String)>,
    initialize: Vec<String>,
    /// A response to `initialize` that replaces the normal one.
    refuses: bool,
    version: Option<&'static str>,
    in_events: bool,
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn forget(&self) {
        let mut state = self.state();
        state.live.clear();
        state.seen.clear();
    }

    fn seen(&self) -> Vec<(String, String)> {
        self.state().seen.iter().map(|(method, session, _)| (method.clone(), session.clone())).collect()
    }

    fn answer(&self, received: &ReceivedRequest) -> UpstreamResponse {
        let mut state = self.state();
        let header = |name| received.headers.get(name).unwrap_or_default().to_owned();
        let (session, json) = (header("mcp-session-id"), "Content-Type: application/json\r\n");
        let message: Value = serde_json::from_slice(&received.body).unwrap_or_default();
        let verb = received.line.split(' ').next().unwrap_or_default();
        let method = message["method"].as_str().unwrap_or(verb).to_owned();
        state.seen.push((method.clone(), session.clone(), header("authorization")));
        let said = |status: &str, headers: String, body: String| UpstreamResponse {
            status: status.to_owned(),
            headers,
            body,
        };
        let result =
            |result: Value| json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string();
        let failure = |code: i64| {
            json!({ "jsonrpc": "2.0", "id": message["id"], "error": { "code": code, "message": "no" } })
                .to_string()
        };
        if method == "initialize" {
            state.initialize.push(String::from_utf8(received.body.clone()).unwrap());
            if state.refuses || !header("accept-encoding").is_empty() {
                return said("400 Bad Request", json.to_owned(), failure(-32600));
            }
            state.opened += 1;
            let id = format!("session-{}", state.opened);
            state.live.insert(id.clone());
            let version = state.version.unwrap_or(LEGACY);
            let result = result(json!({ "protocolVersion": version, "capabilities": {}, "serverInfo": {} }));
            return if state.in_events {
                let headers = format!("Content-Type: text/event-stream\r\nMcp-Session-Id: {id}\r\n");
                said("200 OK", headers, format!(": first\n\nevent: message\r\ndata: {result}\r\n\r\n"))
            } else {
                said("200 OK", format!("{json}Mcp-Session-Id: {id}\r\n"), result)
            };
        }
        if !state.live.contains(&session) {
            return said(
                "404 Not Found",
                "Content-Type: text/plain\r\n".to_owned(),
                "session not found".to_owned(),
            );
        }
        let named = format!("{json}Mcp-Session-Id: {session}\r\n");
        match method.as_str() {
            "DELETE" => {
                state.live.remove(&session);
                said("204 No Content", String::new(), String::new())
            }
            "notifications/initialized" => said("202 Accepted", String::new(), String::new()),
            "no/such" => said("404 Not Found", named, failure(-32601)),
            "GET" => {
                let headers = format!("Content-Type: text/event-stream\r\nMcp-Session-Id: {session}\r\n");
                said(
                    "200 OK",
                    headers,
                    format!("id: 9\ndata: {{\"last\":\"{}\"}}\n\n", header("last-event-id")),
                )
            }
            _ => said("200 OK", named, result(json!({ "session": session }))),
        }
    }

    async fn start(&self) -> (RunningProxy, Http) {
        let upstream = Upstream::listen().await;
        let proxy = Proxy::builder("up", upstream.uri("/v1/mcp")).build().unwrap();
        let server = self.clone();
        upstream.serve(move |received| server.answer(received));
        let running = with_timeout("the proxy to start", proxy.start()).await.unwrap();
        let http = Http(running.address().unwrap());
        (running, http)
    }
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(method, session)| ((*method).to_owned(), (*session).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_session_is_opened_again_and_the_call_repeated() {
    for in_events in [false, true] {
        let server = Server::default();
        server.state().in_events = in_events;
        let (_running, http) = server.start().await;
        let session = Session::open(http).await;
        assert_eq!(session.id, "session-1");
        assert_eq!(session.call("a", "x", json!({})).await["result"]["session"], "session-1");
        for life in 2..4 {
            server.forget();
            let (old, new) = (format!("session-{}", life - 1), format!("session-{life}"));
            let response = session.request("b", "tools/call", tool("x", json!({}))).await;
            assert_eq!((response.status, response.headers.get("mcp-session-id")), (200, Some("session-1")));
            let answer = response.json().await;
            assert_eq!((&answer["id"], &answer["result"]["session"]), (&json!("b"), &json!(new)));
            let expected = [
                ("tools/call", old.as_str()),
                ("initialize", ""),
                ("notifications/initialized", &new),
                ("tools/call", &new),
            ];
            assert_eq!(server.seen(), pairs(&expected));
            // From then on, no request is repeated.
            let response = session.request(1, "tools/call", tool("x", json!({}))).await;
            assert_eq!(response.headers.get("mcp-session-id"), Some("session-1"));
            assert_eq!(server.seen()[4..], pairs(&[("tools/call", &new)]));
        }
        let said = server.state().initialize.clone();
        assert!(said.iter().all(|one| *one == said[0]), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_at_once_open_a_lost_session_once() {
    let server = Server::default();
    let (_running, http) = server.start().await;
    let (one, other) = (Session::open(http).await, Session::open(http).await);
    server.forget();
    let calls = (0..100).map(|id| {
        let session = if id % 2 == 0 { one.clone() } else { other.clone() };
        async move { session.call(id, "x", json!({})).await }
    });
    let answers = futures_util::future::join_all(calls).await;
    assert!(
        answers.iter().enumerate().all(|(id, answer)| answer["id"] == id && answer["result"].is_object())
    );
    assert_eq!(server.state().opened, 4);
    assert_ne!(answers[0]["result"]["session"], answers[1]["result"]["session"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_session_reopens_for_a_stream_and_a_deleted_one_stays_deleted() {
    let server = Server::default();
    let (_running, http) = server.start().await;
    let session = Session::open(http).await;
    server.forget();
    let mut stream = session.resume("1.7").await;
    assert_eq!((stream.status, stream.headers.get("mcp-session-id")), (200, Some("session-1")));
    assert_eq!(
        stream.message().await.unwrap(),
        json!({ "last": "" }),
        "the new session has said nothing yet"
    );
    assert_eq!(session.close().await, 204);
    assert_eq!(server.seen().last().unwrap(), &pairs(&[("DELETE", "session-2")])[0]);
    let response = session.request(1, "tools/call", tool("x", json!({}))).await;
    assert_eq!((response.status, response.text().await.as_str()), (404, "session not found"));
    assert_eq!(server.state().opened, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_those_of_the_request_at_hand() {
    let server = Server::default();
    let (_running, http) = server.start().await;
    let session = Session::open(http).await;
    server.forget();
    let call = request(1, "tools/call", tool("x", json!({}))).to_string();
    let call = session.with_session_headers(http.post("/mcp", call)).header("Authorization", "Bearer new");
    // The proxy must be able to read the response to its own request.
    let call = call.header("Accept-Encoding", "gzip");
    assert_eq!(call.send().await.status, 200);
    assert!(server.state().seen.iter().all(|(_, _, credentials)| credentials == "Bearer new"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_cannot_be_opened_again_is_404_with_the_id_of_the_request() {
    for version in [None, Some("2025-06-18")] {
        let server = Server::default();
        let (_running, http) = server.start().await;
        let session = Session::open(http).await;
        server.forget();
        server.state().refuses = version.is_none();
        server.state().version = version;
        let response = session.request("b", "tools/call", tool("x", json!({}))).await;
        assert_eq!(response.status, 404);
        let answer = response.json().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("b"), &json!(-32001)));
        // The proxy repeats the request only once; the next response of the server is forwarded.
        let opened = server.state().initialize.len();
        assert_eq!(session.request("b", "tools/call", tool("x", json!({}))).await.status, 404);
        assert_eq!(server.state().initialize.len(), opened);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_errors_do_not_reopen_a_session() {
    let server = Server::default();
    let (_running, http) = server.start().await;
    let session = Session::open(http).await;
    let response = session.request(1, "no/such", json!({})).await;
    assert_eq!(response.status, 404);
    assert_eq!(response.json().await["error"]["code"], -32601);
    server.forget();
    // Another path, a session that was not opened through this proxy, and a body that was not stored.
    let call = request(1, "tools/call", tool("x", json!({}))).to_string();
    let elsewhere = session.with_session_headers(http.post("/other", call.clone())).send().await;
    let strange = session
        .with_session_headers(http.post("/mcp", call))
        .header("Mcp-Session-Id", "strange")
        .send()
        .await;
    let large = session.call_large().await;
    for response in [elsewhere, strange, large] {
        assert_eq!((response.status, response.text().await.as_str()), (404, "session not found"));
    }
    assert_eq!(server.state().opened, 1);
}

trait LargeCall {
    async fn call_large(&self) -> mcpm_tests::harness::http::Response;
}

impl LargeCall for Session {
    async fn call_large(&self) -> mcpm_tests::harness::http::Response {
        self.request(1, "tools/call", tool("x", json!({ "large": "x".repeat(70 << 10) }))).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reused_server_session_ids_do_not_mix_clients() {
    let server = Server::default();
    let (_running, http) = server.start().await;
    let (first, second) = (Session::open(http).await, Session::open(http).await);
    assert_eq!((first.id.as_str(), second.id.as_str()), ("session-1", "session-2"));
    server.forget();
    server.state().opened = 0;
    assert_eq!(second.call("a", "x", json!({})).await["result"]["session"], "session-1");
    // To the server, this is now the id of the other session.
    assert_eq!(first.call("b", "x", json!({})).await["result"]["session"], "session-2");
    assert_eq!(second.call("c", "x", json!({})).await["result"]["session"], "session-1");
    let stranger = http.post("/mcp", request(1, "tools/call", tool("x", json!({}))).to_string());
    first.close().await;
    let stranger = stranger.header("Mcp-Session-Id", "session-1").send().await;
    assert_eq!(stranger.status, 404, "it is known by another id to its client");
}
