//! Checks that a request of the server reaches the only client that it can belong to.

use mcpm_tests::harness::{
    http::Http,
    mcp::{LEGACY, Session, tool},
};
use serde_json::{Value, json};

use crate::legacy;

const KINDS: [(&str, &str); 3] =
    [("sampling/createMessage", "sampling"), ("elicitation/create", "elicitation"), ("roots/list", "roots")];

async fn capable_session(http: Http) -> Session {
    Session::with(http, LEGACY, json!({ "sampling": {}, "elicitation": {}, "roots": {} })).await
}

fn server_request(method: &str, id: Value) -> Value {
    tool("ask", json!({ "method": method, "id": id, "params": { "x": 1, "y": "z" } }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_goes_to_the_caller_and_its_answer_back_with_the_servers_id() {
    let bridge = legacy().await;
    let (one, other) = (capable_session(bridge.http).await, capable_session(bridge.http).await);
    let mut others = other.listen().await;
    let mut own = one.listen().await;
    for ((method, _), id) in KINDS.iter().zip([json!(1), json!("1"), json!("x y")]) {
        let mut stream = one.request(7, "tools/call", server_request(method, id.clone())).await;
        let asked = stream.message().await.unwrap();
        assert_eq!((&asked["method"], &asked["params"]), (&json!(method), &json!({ "x": 1, "y": "z" })));
        // A response of another client, and a response with the server's own id, are dropped.
        assert_eq!(other.respond(&asked["id"], json!({ "from": "other" })).await, 202);
        assert_eq!(one.respond(&asked["id"], json!({ "from": "one" })).await, 202);
        let answer = stream.message().await.unwrap();
        let expected = json!({ "jsonrpc": "2.0", "id": id, "result": { "from": "one" } });
        assert_eq!((&answer["id"], &answer["result"]["answer"]), (&json!(7), &expected));
        assert!(stream.message().await.is_none());
    }
    // No other stream received it.
    let end = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    one.call(8, "say", json!({ "lines": [end] })).await;
    assert_eq!(others.message().await.unwrap(), end);
    assert_eq!(own.message().await.unwrap(), end);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_client_reaches_the_server() {
    let bridge = legacy().await;
    let session = capable_session(bridge.http).await;
    let mut stream =
        session.request(7, "tools/call", server_request("sampling/createMessage", json!("s"))).await;
    let asked = stream.message().await.unwrap();
    let refusal = json!({ "jsonrpc": "2.0", "id": asked["id"], "error": { "code": -1, "message": "no" } });
    assert_eq!(session.post(refusal.to_string()).await.status, 202);
    let answer = stream.message().await.unwrap();
    assert_eq!(answer["result"]["answer"]["error"], json!({ "code": -1, "message": "no" }));
    assert_eq!(answer["result"]["answer"]["id"], "s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_outside_of_any_call_goes_to_the_only_session() {
    let mut bridge = legacy().await;
    let session = capable_session(bridge.http).await;
    let mut stream = session.listen().await;
    bridge.process.send(&json!({ "jsonrpc": "2.0", "id": "r", "method": "roots/list" })).await;
    let asked = stream.message().await.unwrap();
    assert_eq!(asked["method"], "roots/list");
    assert_eq!(session.respond(&asked["id"], json!({ "roots": [] })).await, 202);
    let answer = answer_to(&mut bridge, "r").await;
    assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": "r", "result": { "roots": [] } }));
}

/// Reads the response that the server received under an id of its own.
async fn answer_to(bridge: &mut mcpm_tests::harness::scripted_server::ScriptedProxy, id: &str) -> Value {
    loop {
        let report = bridge.process.next_report().await.unwrap();
        let Some(line) = report.strip_prefix(b"< ") else { continue };
        let message: Value = serde_json::from_slice(line).unwrap();
        if message["method"].is_null() && message["id"] == id {
            return message;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_could_concern_two_clients_is_refused() {
    let mut bridge = legacy().await;
    let (one, other) = (capable_session(bridge.http).await, capable_session(bridge.http).await);
    let ask = |id: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {} });
    // No client has a call in flight.
    bridge.process.send(&ask("none")).await;
    assert!(answer_to(&mut bridge, "none").await["error"]["code"].is_i64());
    // Both clients have a call in flight.
    let mut calls = Vec::new();
    for session in [&one, &other] {
        let session = session.clone();
        calls.push(tokio::spawn(async move { session.call(1, "echo", json!({ "gate": "a" })).await }));
        bridge.process.received("tools/call").await;
    }
    bridge.process.send(&ask("both")).await;
    let refusal = answer_to(&mut bridge, "both").await;
    assert!(refusal["error"]["message"].as_str().unwrap().contains("cannot be routed"), "{refusal}");
    bridge.process.open("a").await;
    for call in calls {
        assert_eq!(call.await.unwrap()["id"], 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_the_client_cannot_do_is_refused() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    for (method, _) in KINDS {
        let answer = session.ask(1, "tools/call", server_request(method, json!(1))).await;
        assert_eq!(answer["result"]["answer"]["error"]["code"], -32601, "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_can_do_different_things_do_not_share_a_process() {
    let bridge = legacy().await;
    let mut lives = Vec::new();
    let plain = Session::open(bridge.http).await;
    for (_, capability) in KINDS {
        let session = Session::with(bridge.http, LEGACY, json!({ capability: {} })).await;
        let mut life = bridge.script.next_process().await;
        assert!(life.received("initialize").await["params"]["capabilities"][capability].is_object());
        session.call(1, "echo", json!({})).await;
        lives.push(life);
    }
    assert_eq!(plain.call(1, "echo", json!({})).await["id"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ping_of_the_server_is_answered_at_once_by_the_proxy() {
    let mut bridge = legacy().await;
    for id in [json!("p"), json!(17)] {
        bridge.process.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" })).await;
        loop {
            let report = bridge.process.next_report().await.unwrap();
            if report == format!(r#"< {{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#).as_bytes() {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_the_server_takes_back_is_taken_back_from_the_client() {
    let mut bridge = legacy().await;
    let session = capable_session(bridge.http).await;
    let mut stream = session.request(7, "tools/call", server_request("elicitation/create", json!("e"))).await;
    let asked = stream.message().await.unwrap();
    let cancelled = json!({ "requestId": "e", "reason": "late" });
    bridge
        .process
        .send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled }))
        .await;
    let taken_back = stream.message().await.unwrap();
    assert_eq!(taken_back["params"], json!({ "requestId": asked["id"], "reason": "late" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_a_session_rejects_its_pending_server_requests() {
    let mut bridge = legacy().await;
    let session = capable_session(bridge.http).await;
    let mut stream = session.request(7, "tools/call", server_request("elicitation/create", json!("e"))).await;
    stream.message().await.unwrap();
    assert_eq!(session.close().await, 204);
    assert!(answer_to(&mut bridge, "e").await["error"].is_object());
}
