//! Checks that invalid or oversized messages are rejected with the correct status. Also tests `/health`, and the format
//! of responses.

use mcpm_tests::harness::{
    http::{Http, Request},
    mcp::{Modern, Session, request, tool},
};
use serde_json::json;

use crate::legacy;

/// Maximum size of an accepted body.
const LIMIT: usize = 16 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_message_is_refused_and_never_reaches_the_server() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    session.call(0, "echo", json!({})).await;
    bridge.process.drain_received().await;
    let unknown_field = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"x\":\"\xff\"}".to_vec();
    for (body, code, id) in [
        (Vec::new(), -32700, None),
        (b"{".to_vec(), -32700, None),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"} x".to_vec(), -32700, Some(1)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}{}".to_vec(), -32700, Some(1)),
        (b"\xff\xfe".to_vec(), -32700, None),
        (unknown_field, -32700, Some(1)),
        (b"7".to_vec(), -32600, None),
        (b"null".to_vec(), -32600, None),
        (b"{}".to_vec(), -32600, None),
        (b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"tools/list\"}".to_vec(), -32600, Some(1)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"tools/list\"}".to_vec(), -32600, None),
        (b"{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"tools/list\"}".to_vec(), -32600, None),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}".to_vec(), -32600, Some(1)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"tools/list\"}".to_vec(), -32600, None),
    ] {
        let text = String::from_utf8_lossy(&body).into_owned();
        let response = session.post(body).await;
        assert_eq!(response.status, 400, "{text}");
        let answer = response.json().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(code)), "{text}");
    }
    session.call(1, "echo", json!({})).await;
    assert_eq!(bridge.process.drain_received().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_another_type_is_415() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let body = request(1, "tools/call", tool("echo", json!({}))).to_string();
    let post = || session.with_session_headers(bridge.http.post("/mcp", body.clone()));
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""] {
        assert_eq!(post().header("Content-Type", kind).send().await.status, 415, "{kind}");
    }
    assert_eq!(post().remove_header("Content-Type").send().await.status, 415);
    for kind in ["application/json; charset=utf-8", "Application/JSON"] {
        assert_eq!(post().header("Content-Type", kind).send().await.status, 200, "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_beyond_the_limit_is_413_however_it_says_its_size() {
    let bridge = legacy().await;
    let mut session = Session::open(bridge.http).await;
    // A body within the limit is rejected for its session, and does not reach the server.
    session.id = "unknown".to_owned();
    let body = |size: usize| format!("{}{}", request(1, "tools/list", json!({})), " ".repeat(size));
    let spaces = LIMIT - body(0).len();
    let post = |body: String| session.with_session_headers(bridge.http.post("/mcp", body));
    assert_eq!(post(body(spaces)).send().await.status, 404);
    assert_eq!(post(body(spaces)).chunked().send().await.status, 404);
    for response in [post(body(spaces + 1)).send().await, post(body(spaces + 1)).chunked().send().await] {
        assert_eq!(response.status, 413);
        let answer = response.json().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32600)));
    }
    assert_eq!(bridge.http.get("/health").send().await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_beyond_the_limits_is_refused_without_a_body() {
    let bridge = legacy().await;
    let refused = async |request: Request, status: u16| {
        let response = request.send().await;
        assert_eq!(response.status, status);
        assert_eq!(response.text().await, "");
    };
    let headers = |count: usize| {
        let bare = bridge.http.get("/health");
        let (line, end) = (1, 1);
        let own = bare.bytes().iter().filter(|byte| **byte == b'\n').count() - line - end;
        (own..count).fold(bare, |request, _| request.add_header("X-Many", "x"))
    };
    assert_eq!(headers(100).send().await.status, 200);
    refused(headers(101), 431).await;
    refused(bridge.http.get("/health").header("X-Long", &"x".repeat(1 << 20)), 431).await;
    let target = |length: usize| bridge.http.get(&format!("/{}", "x".repeat(length - 1)));
    assert_eq!(target(65_534).send().await.status, 404);
    refused(target(65_535), 414).await;
    refused(bridge.http.request("G(T", "/health"), 400).await;
    assert_eq!(bridge.http.get("/health").send().await.status, 200);
}

async fn accept(http: Http, session: &Session, accept: Option<&str>, name: &str) -> (u16, bool) {
    let body = request(1, "tools/call", tool(name, json!({ "count": 1 }))).to_string();
    let request = session.with_session_headers(http.post("/mcp", body)).remove_header("Accept");
    let request = match accept {
        Some(accept) => request.header("Accept", accept),
        None => request,
    };
    let response = request.send().await;
    let (status, events) = (response.status, response.is_events());
    if status == 200 {
        assert_eq!(response.answer().await["id"], 1);
    }
    (status, events)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_has_the_form_that_the_client_accepts() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let both = "application/json, text/event-stream";
    for (accepted, name, expected) in [
        (Some(both), "echo", (200, false)),
        (Some(both), "notify", (200, true)),
        (Some("text/event-stream, application/json"), "echo", (200, true)),
        (Some("application/json"), "echo", (200, false)),
        (Some("application/json"), "notify", (200, false)),
        (Some("application/json;q=0.9"), "notify", (200, false)),
        (Some("text/event-stream"), "echo", (200, true)),
        (Some("text/event-stream"), "notify", (200, true)),
        (Some("*/*"), "echo", (200, false)),
        (None, "notify", (200, false)),
        (Some("text/html"), "echo", (406, false)),
        (Some("application/json;q=0, text/event-stream;q=0"), "echo", (406, false)),
        (Some("TEXT/EVENT-STREAM"), "echo", (200, true)),
    ] {
        assert_eq!(accept(bridge.http, &session, accepted, name).await, expected, "{accepted:?} {name}");
    }
    let get = session.with_session_headers(bridge.http.request("GET", "/mcp"));
    assert_eq!(get.clone().header("Accept", "application/json").send().await.status, 406);
    assert_eq!(get.header("Accept", "*/*").send().await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn other_methods_and_paths_are_refused() {
    let bridge = legacy().await;
    for method in ["PUT", "PATCH", "OPTIONS", "HEAD"] {
        let response = bridge.http.request(method, "/mcp").send().await;
        assert_eq!(response.status, 405, "{method}");
        assert_eq!(response.headers.get("allow"), Some("GET, POST, DELETE"), "{method}");
        assert_eq!(response.headers.get("access-control-allow-origin"), None, "{method}");
    }
    for path in ["/", "/mcp/", "/mcp/x", "/sse", "/messages", "/authorize"] {
        let response = bridge.http.post(path, request(1, "ping", json!({})).to_string()).send().await;
        assert_eq!(response.status, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_tells_whether_the_server_can_be_used() {
    let bridge = legacy().await;
    let response = bridge.http.get("/health").send().await;
    assert_eq!(response.status, 200);
    let health = response.json().await;
    assert_eq!((&health["status"], &health["transport"]), (&json!("healthy"), &json!("stdio")));
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_disable_intermediary_buffering() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let call = session.request(1, "tools/call", tool("notify", json!({ "count": 1 }))).await;
    for stream in [call, session.listen().await] {
        assert_eq!(stream.headers.get("content-type"), Some("text/event-stream"));
        assert_eq!(stream.headers.get("x-accel-buffering"), Some("no"));
        assert!(stream.headers.get("cache-control").unwrap().contains("no-cache"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_costs_no_other_its_answer() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let waiting = session.with_session_headers(
        bridge.http.post("/mcp", request(1, "tools/call", tool("silent", json!({}))).to_string()),
    );
    let _waiting = waiting.send_only().await;
    assert_eq!(session.call(2, "echo", json!({})).await["id"], 2);
    let refused = Modern(bridge.http).request(3, "tools/list", json!({})).await;
    assert_eq!(refused.status, 404);
}

/// The test does not wait in real time: the runtime's clock jumps when no task can run.
#[tokio::test(start_paused = true)]
async fn a_client_that_stops_in_the_middle_of_a_request_is_cut_off() {
    let proxy = mcpm::proxy::Proxy::builder("up", "http://127.0.0.1:1/mcp").build().unwrap();
    let running = proxy.start().await.unwrap();
    let body = r#"{"jsonrpc":"2.0","id":"slow","method":"tools/call","params":{"#;
    for length in [100, 70 << 10] {
        let head = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}");
        let response = Http(running.address().unwrap()).raw(head.as_bytes()).await;
        assert_eq!(response.status, 408);
        let answer = response.json().await;
        assert_eq!(answer["error"]["code"], -32600);
        assert_eq!(answer["id"], "slow");
    }
    let mut stream = tokio::net::TcpStream::connect(running.address().unwrap()).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut stream, b"POST /mcp HTTP/1.1\r\nHo").await.unwrap();
    let mut rest = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest).await.unwrap();
    running.stop().await;
}
