//! Tests the check whether a target is an MCP server, and its effect on `/health`.

use mcpm::{
    ErrorKind,
    proxy::{Proxy, RunningProxy},
};
use mcpm_tests::harness::{
    http::Http,
    upstream::{ReceivedRequest, Upstream, UpstreamResponse},
    with_timeout,
};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// A proxy in front of a server that responds with the result of `answer`, and the received requests.
async fn front(
    path: &str,
    answer: impl Fn(&ReceivedRequest) -> UpstreamResponse + Send + Sync + 'static,
) -> (RunningProxy, Arc<Mutex<Vec<String>>>) {
    let upstream = Upstream::listen().await;
    let proxy = Proxy::builder("up", upstream.uri(path)).build().unwrap();
    let came = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&came);
    upstream.serve(move |received| {
        let body: Value = serde_json::from_slice(&received.body).unwrap_or_default();
        let said = [
            received.line.split(" HTTP").next().unwrap_or_default(),
            body["method"].as_str().unwrap_or_default(),
            received.headers.get("mcp-session-id").unwrap_or_default(),
            received.headers.get("mcp-protocol-version").unwrap_or_default(),
        ];
        log.lock().unwrap().push(said.join(" ").trim_end().to_owned());
        answer(received)
    });
    (with_timeout("the proxy to start", proxy.start()).await.unwrap(), came)
}

fn answer(status: &str, headers: &str, body: &str) -> UpstreamResponse {
    UpstreamResponse { status: status.to_owned(), headers: headers.to_owned(), body: body.to_owned() }
}

fn method(received: &ReceivedRequest) -> String {
    let body: Value = serde_json::from_slice(&received.body).unwrap_or_default();
    body["method"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_the_check_opened_is_ended_again() {
    let (proxy, came) = front("/v1", |received| match method(received).as_str() {
        "initialize" => answer(
            "200 OK",
            "Content-Type: text/event-stream\r\nMcp-Session-Id: s1\r\n",
            ": hello\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\
             \ndata: \"result\":{\"protocolVersion\":\"2025-06-18\"}}\n\n",
        ),
        // As servers do that respond to nothing outside of a session.
        "server/discover" => answer("400 Bad Request", "Mcp-Session-Id: s0\r\n", "no session"),
        _ => answer("204 No Content", "", ""),
    })
    .await;
    assert_eq!(with_timeout("the check", proxy.check()).await.unwrap(), None);
    assert_eq!(
        *came.lock().unwrap(),
        [
            "POST /v1 server/discover  2026-07-28",
            "DELETE /v1  s0",
            "POST /v1 initialize",
            "DELETE /v1  s1 2025-06-18",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_answers_decides_whether_it_passes() {
    const JSON: &str = "Content-Type: application/json\r\n";
    const HTML: &str = "Content-Type: text/html\r\n";
    let error =
        |code: i64| format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":{code},"message":"m"}}}}"#);
    let endpoint = "event: endpoint\ndata: /messages\n\n";
    for (status, headers, body, passes) in [
        ("200 OK", JSON, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned(), true),
        ("400 Bad Request", JSON, error(-32600), true),
        ("500 Internal Server Error", JSON, error(-32603), true),
        ("500 Internal Server Error", JSON, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned(), false),
        ("302 Found", JSON, error(-32600), false),
        ("404 Not Found", JSON, error(-32601), true),
        ("404 Not Found", JSON, error(-32600), false),
        ("405 Method Not Allowed", JSON, error(-32600), false),
        ("503 Service Unavailable", JSON, error(-32603), false),
        ("401 Unauthorized", JSON, r#"{"error":"invalid_token"}"#.to_owned(), true),
        ("403 Forbidden", HTML, String::new(), true),
        ("200 OK", JSON, r#"{"error":"no"}"#.to_owned(), false),
        ("200 OK", HTML, String::new(), false),
        ("200 OK", "", String::new(), false),
        ("200 OK", JSON, format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{}"}}"#, "x".repeat(2 << 20)), false),
        ("200 OK", "Content-Type: text/event-stream\r\n", endpoint.to_owned(), true),
        ("200 OK", "Content-Type: text/event-stream\r\n", ": nothing\n\n".repeat(200_000), false),
        ("308 Permanent Redirect", "Location: /other\r\n", String::new(), false),
        ("308 Permanent Redirect", "Location: //example.com/mcp\r\n", String::new(), false),
    ] {
        let shown = format!("{status} {headers} {body:.60}");
        let (proxy, _) = front("/mcp", move |_| answer(status, headers, &body)).await;
        match with_timeout("the check", proxy.check()).await {
            Ok(_) => assert!(passes, "{shown}"),
            Err(error) => {
                assert!(!passes && error.kind() == ErrorKind::StartFailed, "{shown}: {error}");
                assert!(!error.to_string().contains("--"), "the library names no flags: {error}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_says_what_was_last_seen_and_checks_no_more_than_needed() {
    let (proxy, came) = front("/mcp", |received| match method(received).as_str() {
        "tools/list" => answer("429 Too Many Requests", "", ""),
        _ => answer("404 Not Found", "", ""),
    })
    .await;
    let http = Http(proxy.address().unwrap());
    let health = async || http.get("/health").send().await.json().await;
    let first = health().await;
    assert_eq!(first["mcp"]["available"], false, "{first}");
    assert_eq!(first["mcp"]["error"], "`/mcp` was not found (404)", "{first}");
    assert_eq!(first["mcp"]["last_exchange"], json!({"status": 404, "reason": "Not Found"}));
    let checked = came.lock().unwrap().len();
    for _ in 0..100 {
        assert_eq!(health().await, first);
    }
    assert_eq!(came.lock().unwrap().len(), checked, "asking more often has nothing checked");
    http.post("/mcp", json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string()).send().await;
    let last = health().await;
    assert_eq!(last["mcp"]["last_exchange"], json!({"status": 429, "reason": "Too Many Requests"}), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_passed_is_not_checked_again_by_health() {
    let body = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let (proxy, came) =
        front("/mcp", move |_| answer("200 OK", "Content-Type: application/json\r\n", body)).await;
    with_timeout("the check", proxy.check()).await.unwrap();
    let health = Http(proxy.address().unwrap()).get("/health").send().await.json().await;
    assert_eq!(health["status"], "healthy");
    assert_eq!(health["mcp"]["last_exchange"], json!({"status": 200, "reason": null}));
    assert_eq!(*came.lock().unwrap(), ["POST /mcp server/discover  2026-07-28"]);
}
