//! Checks that messages of the server during a call reach the caller in order, before the response.

use mcpm_tests::harness::mcp::{LEGACY, Modern, Session, request, tool};
use serde_json::{Value, json};

use crate::{legacy, modern};

const NOTIFICATIONS: usize = 5_000;

fn with_token(name: &str, arguments: Value, token: &Value) -> Value {
    let mut params = tool(name, arguments);
    params["_meta"] = json!({ "progressToken": token });
    params
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_notifications_come_in_order_and_then_the_answer() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let response = session.request(1, "tools/call", tool("notify", json!({ "count": NOTIFICATIONS }))).await;
    assert!(response.is_events());
    let messages = response.messages().await;
    let (answer, notifications) = messages.split_last().unwrap();
    assert_eq!(answer["id"], 1);
    let data: Vec<_> = notifications.iter().map(|message| message["params"]["data"].as_u64()).collect();
    assert_eq!(data, (0..NOTIFICATIONS as u64).map(Some).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_progress_token_comes_back_with_its_type_and_the_server_sees_another_for_each_caller() {
    let mut bridge = legacy().await;
    let tokens = [json!(1), json!("1"), json!(1), json!("a b"), json!(9_007_199_254_740_993_i64)];
    let mut calls = Vec::new();
    for token in &tokens {
        let session = Session::open(bridge.http).await;
        let params = with_token("progress", json!({ "count": 3, "gate": "end" }), token);
        calls.push(tokio::spawn(
            async move { session.request(1, "tools/call", params).await.messages().await },
        ));
    }
    let mut seen = Vec::new();
    for _ in &tokens {
        seen.push(bridge.process.received("tools/call").await["params"]["_meta"]["progressToken"].clone());
    }
    let all = seen.len();
    seen.sort_by_key(|token| token.to_string());
    seen.dedup();
    assert_eq!(seen.len(), all, "{seen:?}");
    bridge.process.open("end").await;
    for (token, call) in tokens.iter().zip(calls) {
        let messages = call.await.unwrap();
        let (answer, progress) = messages.split_last().unwrap();
        assert_eq!(answer["id"], 1);
        let steps: Vec<_> = progress
            .iter()
            .map(|message| (&message["params"]["progressToken"], &message["params"]["progress"]))
            .collect();
        assert_eq!(steps, [(token, &json!(1)), (token, &json!(2)), (token, &json!(3))]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_progress_token_of_the_stateless_era_is_mapped_too() {
    let mut bridge = modern().await;
    let client = Modern(bridge.http);
    let call = client.request("x", "tools/call", with_token("progress", json!({ "count": 1 }), &json!("x")));
    let messages = call.await.messages().await;
    assert_eq!(messages[0]["params"]["progressToken"], "x");
    assert_eq!(messages[1]["id"], "x");
    assert_ne!(bridge.process.received("tools/call").await["params"]["_meta"]["progressToken"], "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn ambiguous_params_are_rejected() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    for params in [
        r#"{"_meta":{"progressToken":1,"progressToken":2}}"#,
        r#"{"_meta":{"progressToken":1},"_meta":{"progressToken":2}}"#,
        r#"{"_meta":{"progressToken":1},"\u005fmeta":{"progressToken":2}}"#,
    ] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":"a","method":"test/echo","params":{params}}}"#);
        let response = session.post(body).await;
        assert_eq!(response.status, 400, "{params}");
        let answer = response.json().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("a"), &json!(-32602)), "{params}");
    }
    session.ask(1, "test/end", json!({})).await;
    let seen = bridge.process.drain_received().await;
    assert!(seen.iter().all(|message| message["method"] != "test/echo"), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_after_the_answer_is_dropped() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let mut standalone = session.listen().await;
    let params = with_token("progress", json!({ "count": 1 }), &json!("t"));
    session.ask(1, "tools/call", params).await;
    let token = &bridge.process.received("tools/call").await["params"]["_meta"]["progressToken"];
    let late = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
        "params": { "progressToken": token, "progress": 2 } });
    let end = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    let messages =
        session.request(2, "tools/call", tool("say", json!({ "lines": [late, end] }))).await.messages().await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(standalone.message().await.unwrap(), end);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_json_alone_gets_the_answer_alone() {
    let bridge = legacy().await;
    let session = Session::with(bridge.http, LEGACY, json!({})).await;
    let params = with_token("progress", json!({ "count": 3 }), &json!("t"));
    let body = request(1, "tools/call", params).to_string();
    let asked =
        session.with_session_headers(bridge.http.post("/mcp", body)).header("Accept", "application/json");
    let response = asked.send().await;
    assert!(!response.is_events());
    assert_eq!(response.json().await["id"], 1);
}

/// If a token were forwarded unchanged, it could equal another caller's token.
#[tokio::test(flavor = "multi_thread")]
async fn a_progress_token_is_mapped_whatever_stands_beside_it() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    for beside in
        [json!({ "uri": 7 }), json!({ "level": {} }), json!({ "requestId": [] }), json!({ "x": null })]
    {
        let mut params = beside.clone();
        params["_meta"] = json!({ "progressToken": "mine", "io.modelcontextprotocol/logLevel": 3 });
        session.ask(1, "test/echo", params).await;
        let seen = bridge.process.received("test/echo").await;
        assert_ne!(seen["params"]["_meta"]["progressToken"], "mine", "{beside}");
    }
}
