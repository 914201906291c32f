//! Tests how sessions start and end, and which clients have a session.

use std::collections::BTreeSet;

use mcpm_tests::harness::mcp::{LEGACY, Session, initialize, notification, request, tool};
use serde_json::{Value, json};

use crate::{legacy, script};

#[tokio::test(flavor = "multi_thread")]
async fn sessions_have_ids_that_nobody_guesses() {
    let bridge = legacy().await;
    let mut ids = BTreeSet::new();
    for _ in 0..20 {
        let session = Session::open(bridge.http).await;
        assert!(session.id.len() >= 32 && session.id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)));
        ids.insert(session.id);
    }
    assert_eq!(ids.len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_session_is_404_with_its_own_code() {
    let bridge = legacy().await;
    let mut session = Session::open(bridge.http).await;
    session.id = "0123456789abcdef0123456789abcdef".to_owned();
    let response = session.request("r", "tools/list", json!({})).await;
    assert_eq!(response.status, 404);
    let answer = response.json().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("r"), &json!(-32001)));
    assert_eq!(session.notify("notifications/initialized", json!({})).await, 404);
    assert_eq!(session.listen().await.status, 404);
    assert_eq!(session.close().await, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_session_is_400() {
    let mut bridge = legacy().await;
    Session::open(bridge.http).await;
    bridge.process.received("notifications/initialized").await;
    let messages = [
        request(1, "tools/list", json!({})),
        notification("notifications/cancelled", json!({ "requestId": 1 })),
        json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
    ];
    for message in messages {
        let response = bridge.http.post("/mcp", message.to_string()).send().await;
        assert_eq!(response.status, 400, "{message}");
        assert_eq!(response.json().await["error"]["code"], -32600, "{message}");
    }
    assert_eq!(bridge.http.get("/mcp").send().await.status, 400);
    assert_eq!(bridge.http.request("DELETE", "/mcp").send().await.status, 400);
    assert!(bridge.process.drain_received().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_session_is_404_and_its_streams_end() {
    let bridge = legacy().await;
    let (session, other) = (Session::open(bridge.http).await, Session::open(bridge.http).await);
    let mut standalone = session.listen().await;
    assert_eq!(session.close().await, 204);
    assert!(standalone.event().await.is_none());
    assert_eq!(session.request(1, "tools/list", json!({})).await.status, 404);
    assert_eq!(session.listen().await.status, 404);
    assert_eq!(session.close().await, 404);
    assert_eq!(other.call(1, "echo", json!({})).await["id"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_and_answers_get_202_without_a_body() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    for message in [
        notification("notifications/roots/list_changed", json!({})),
        notification("notifications/unheard_of", json!({ "x": 1 })),
        json!({ "jsonrpc": "2.0", "id": 1, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": "x", "error": { "code": 1, "message": "no" } }),
    ] {
        let response = session.post(message.to_string()).await;
        assert_eq!((response.status, response.text().await), (202, String::new()), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_one_shape_share_a_handshake_and_each_gets_its_own_id_back() {
    let mut bridge = legacy().await;
    for id in [json!(0), json!("0"), json!(5)] {
        let mut message = initialize(LEGACY, json!({}));
        message["id"] = id.clone();
        let response = bridge.http.post("/mcp", message.to_string()).send().await;
        let answer = response.json().await;
        assert_eq!(answer["id"], id);
        assert_eq!(answer["result"]["serverInfo"]["name"], "scripted-server");
    }
    let seen = bridge.process.drain_received().await;
    let handshakes = seen.iter().filter(|message| message["method"] == "initialize").count();
    assert_eq!(handshakes, 1, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_is_told_once_that_its_clients_are_initialized() {
    let mut bridge = legacy().await;
    for _ in 0..3 {
        Session::open(bridge.http).await.call(1, "echo", json!({})).await;
    }
    let methods: Vec<Value> =
        bridge.process.drain_received().await.into_iter().map(|message| message["method"].clone()).collect();
    let told = methods.iter().filter(|method| *method == "notifications/initialized").count();
    assert_eq!(told, 1, "{methods:?}");
    let first_call = methods.iter().position(|method| method == "tools/call").unwrap();
    assert!(methods[..first_call].contains(&json!("notifications/initialized")), "{methods:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_initialize_that_says_too_little_is_refused() {
    let bridge = legacy().await;
    for params in
        [json!({}), json!({ "protocolVersion": 1, "capabilities": {} }), json!({ "protocolVersion": LEGACY })]
    {
        let response =
            bridge.http.post("/mcp", request("i", "initialize", params.clone()).to_string()).send().await;
        assert_eq!(response.status, 400, "{params}");
        let answer = response.json().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("i"), &json!(-32602)), "{params}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_is_not_known_is_400_and_a_missing_one_is_assumed() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    bridge.process.drain_received().await;
    for version in ["1999-01-01", "2099-01-01", "latest", "2026-07-28", ""] {
        let body = request("v", "tools/list", json!({})).to_string();
        let asked = session
            .with_session_headers(bridge.http.post("/mcp", body))
            .header("MCP-Protocol-Version", version);
        let response = asked.send().await;
        assert_eq!(response.status, 400, "{version}");
        assert_eq!(response.json().await["id"], "v", "{version}");
    }
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let body = request(1, "tools/call", tool("echo", json!({}))).to_string();
        let asked = session
            .with_session_headers(bridge.http.post("/mcp", body))
            .header("MCP-Protocol-Version", version);
        assert_eq!(asked.send().await.status, 200, "{version}");
    }
    let body = request(1, "tools/call", tool("echo", json!({}))).to_string();
    let asked =
        session.with_session_headers(bridge.http.post("/mcp", body)).remove_header("MCP-Protocol-Version");
    assert_eq!(asked.send().await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_messages_in_one_array_are_refused_where_the_version_has_no_such_thing() {
    let mut bridge = legacy().await;
    let batch = json!([request(1, "tools/list", json!({})), request(2, "tools/list", json!({}))]).to_string();
    assert_eq!(bridge.http.post("/mcp", batch.clone()).send().await.status, 400);
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let session = Session::with(bridge.http, version, json!({})).await;
        let response = session.post(batch.clone()).await;
        assert_eq!(response.status, 400, "{version}");
        assert_eq!(response.json().await["error"]["code"], -32600, "{version}");
    }
    assert!(bridge.process.drain_received().await.iter().all(|message| message["method"] != "tools/list"));
}

#[tokio::test(flavor = "multi_thread")]
async fn several_messages_in_one_array_are_answered_in_one_where_the_version_allows_it() {
    let bridge = legacy().await;
    let session = Session::with(bridge.http, "2025-03-26", json!({})).await;
    let batch = json!([
        request(1, "tools/call", tool("echo", json!({ "a": 1 }))),
        notification("notifications/roots/list_changed", json!({})),
        request("1", "tools/call", tool("error", json!({ "code": -5 }))),
    ]);
    let response = session.post(batch.to_string()).await;
    assert_eq!(response.status, 200);
    let answers = response.json().await;
    let by_id =
        |id: Value| answers.as_array().unwrap().iter().find(|answer| answer["id"] == id).unwrap().clone();
    assert_eq!(answers.as_array().unwrap().len(), 2);
    assert_eq!(by_id(json!(1))["result"]["echo"], json!({ "a": 1 }));
    assert_eq!(by_id(json!("1"))["error"]["code"], -5);
    let only_told = json!([notification("notifications/roots/list_changed", json!({}))]).to_string();
    assert_eq!(session.post(only_told).await.status, 202);
    for bad in ["[]", "[1]", "[{}]"] {
        assert_eq!(session.post(bad).await.status, 400, "{bad}");
    }
    let again = json!([initialize("2025-03-26", json!({}))]).to_string();
    assert_eq!(session.post(again).await.status, 400, "initialize is no part of a batch");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_stream_of_a_session_is_read_by_one_connection() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let mut first = session.listen().await;
    let mut second = session.listen().await;
    assert!(first.event().await.is_none());
    let line = notification("notifications/tools/list_changed", json!({}));
    session.call(1, "say", json!({ "lines": [line] })).await;
    assert_eq!(second.message().await.unwrap(), line);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_process_start_does_not_block_other_clients() {
    let mut bridge = script().await.start(&["--hold-initialize"]).await;
    let first = tokio::spawn(Session::open(bridge.http));
    bridge.process.received("initialize").await;
    bridge.process.open("initialize").await;
    first.await.unwrap();
    let slow = tokio::spawn(Session::with(bridge.http, LEGACY, json!({ "roots": {} })));
    let mut second = bridge.script.next_process().await;
    second.received("initialize").await;
    let session = Session::open(bridge.http).await;
    assert_eq!(session.call(1, "echo", json!({})).await["id"], 1);
    assert!(!slow.is_finished());
    second.open("initialize").await;
    assert_eq!(slow.await.unwrap().call(1, "echo", json!({})).await["id"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_handshake_leaves_the_process_usable() {
    let mut bridge = script().await.start(&["--hold-initialize"]).await;
    let message = initialize(LEGACY, json!({})).to_string();
    let left = bridge.http.post("/mcp", message).send_only().await;
    bridge.process.received("initialize").await;
    drop(left);
    let next = tokio::spawn(Session::open(bridge.http));
    // A client with the same parameters shares the handshake in progress.
    bridge.process.open("initialize").await;
    assert_eq!(next.await.unwrap().call(1, "echo", json!({})).await["id"], 1);
    // A client with other parameters gets a separate process.
    let other = tokio::spawn(Session::with(bridge.http, LEGACY, json!({ "roots": {} })));
    let mut second = bridge.script.next_process().await;
    second.received("initialize").await;
    second.open("initialize").await;
    assert_eq!(other.await.unwrap().call(1, "echo", json!({})).await["id"], 1);
    let handshakes = bridge.process.drain_received().await;
    assert!(handshakes.iter().all(|message| message["method"] != "initialize"), "{handshakes:?}");
}
