//! Tests which events cancel a call, and which do not.

use mcpm_tests::harness::mcp::{Modern, Session, request, tool};
use serde_json::{Value, json};

use crate::{legacy, modern};

fn gated(gate: &str) -> Value {
    tool("echo", json!({ "gate": gate }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_the_server_with_the_id_it_knows() {
    for id in [json!(5), json!("5"), json!("five")] {
        let mut bridge = legacy().await;
        let (one, other) = (Session::open(bridge.http).await, Session::open(bridge.http).await);
        let call = one.with_session_headers(
            bridge.http.post("/mcp", request(id.clone(), "tools/call", gated("a")).to_string()),
        );
        let _call = call.send_only().await;
        let known = bridge.process.received("tools/call").await["id"].clone();
        let call = other.with_session_headers(
            bridge.http.post("/mcp", request(id.clone(), "tools/call", gated("b")).to_string()),
        );
        let _call = call.send_only().await;
        bridge.process.received("tools/call").await;
        let cancel = json!({ "requestId": id, "reason": "enough", "x": 1.0 });
        assert_eq!(one.notify("notifications/cancelled", cancel).await, 202);
        let seen = bridge.process.received("notifications/cancelled").await;
        assert_eq!(seen["params"], json!({ "requestId": known, "reason": "enough", "x": 1.0 }));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_may_be_written_in_another_way_to_cancel_its_call() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let call = session
        .with_session_headers(bridge.http.post("/mcp", request("a/b", "tools/call", gated("a")).to_string()));
    let _call = call.send_only().await;
    let known = bridge.process.received("tools/call").await["id"].clone();
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"\u0061\/b"}}"#;
    assert_eq!(session.post(cancel).await.status, 202);
    assert_eq!(bridge.process.received("notifications/cancelled").await["params"]["requestId"], known);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_call_leaves_another_with_the_same_id() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let twin = session.clone();
    let twin = tokio::spawn(async move { twin.ask("5", "tools/call", gated("a")).await });
    bridge.process.received("tools/call").await;
    assert_eq!(session.notify("notifications/cancelled", json!({ "requestId": 5 })).await, 202);
    session.call(6, "open", json!({ "gate": "a" })).await;
    assert_eq!(twin.await.unwrap()["id"], "5");
    assert!(
        bridge
            .process
            .drain_received()
            .await
            .iter()
            .all(|message| message["method"] != "notifications/cancelled")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_cancels_a_call_of_another_session_or_one_that_is_over() {
    let mut bridge = legacy().await;
    let (one, other) = (Session::open(bridge.http).await, Session::open(bridge.http).await);
    let calling = one.clone();
    let call = tokio::spawn(async move { calling.ask(5, "tools/call", gated("a")).await });
    let known = bridge.process.received("tools/call").await["id"].clone();
    for wanted in [json!(5), known, json!(99), json!({}), Value::Null] {
        assert_eq!(other.notify("notifications/cancelled", json!({ "requestId": wanted })).await, 202);
    }
    one.call(1, "echo", json!({})).await;
    assert_eq!(one.notify("notifications/cancelled", json!({ "requestId": 1 })).await, 202);
    one.call(2, "open", json!({ "gate": "a" })).await;
    assert_eq!(call.await.unwrap()["id"], 5);
    assert!(
        bridge
            .process
            .drain_received()
            .await
            .iter()
            .all(|message| message["method"] != "notifications/cancelled")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_is_no_cancel_with_a_session() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let body = request(1, "tools/call", gated("a")).to_string();
    let call = session.with_session_headers(bridge.http.post("/mcp", body)).send_only().await;
    bridge.process.received("tools/call").await;
    drop(call);
    let mut events = session.request(2, "tools/call", tool("notify", json!({ "count": 1 }))).await;
    events.event().await.unwrap();
    drop(events);
    session.call(3, "open", json!({ "gate": "a" })).await;
    session.call(4, "echo", json!({})).await;
    let seen = bridge.process.drain_received().await;
    assert!(seen.iter().all(|message| message["method"] != "notifications/cancelled"), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_is_a_cancel_in_the_stateless_era() {
    let mut bridge = modern().await;
    let client = Modern(bridge.http);
    client.call(0, "echo", json!({})).await;
    bridge.process.received("tools/call").await;
    // A connected client gets its first bytes, a comment, when the proxy's timers start to write. Such writes would
    // detect a broken connection, too.
    let stays = tokio::spawn(async move { client.request(2, "tools/call", gated("never")).await.status });
    bridge.process.received("tools/call").await;
    // Before the first bytes of the response.
    let call = client.prepare(1, "tools/call", gated("a")).send_only().await;
    let known = bridge.process.received("tools/call").await["id"].clone();
    drop(call);
    assert_eq!(bridge.process.received("notifications/cancelled").await["params"]["requestId"], known);
    // After a stream has started.
    let mut params = tool("progress", json!({ "count": 1, "gate": "a" }));
    params["_meta"] = json!({ "progressToken": 1 });
    let mut call = client.request(1, "tools/call", params).await;
    let known = bridge.process.received("tools/call").await["id"].clone();
    call.event().await.unwrap();
    drop(call);
    assert_eq!(bridge.process.received("notifications/cancelled").await["params"]["requestId"], known);
    assert!(!stays.is_finished(), "the connections were found broken by a timer");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answered_call_of_the_stateless_era_is_not_cancelled() {
    let mut bridge = modern().await;
    let client = Modern(bridge.http);
    for id in 0..3 {
        client.call(id, "echo", json!({})).await;
    }
    let mut params = tool("progress", json!({ "count": 2 }));
    params["_meta"] = json!({ "progressToken": 1 });
    client.request(4, "tools/call", params).await.answer().await;
    client.call(5, "echo", json!({})).await;
    assert!(
        bridge
            .process
            .drain_received()
            .await
            .iter()
            .all(|message| message["method"] != "notifications/cancelled")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_session_cancels_its_calls_and_no_others() {
    let mut bridge = legacy().await;
    let (one, other) = (Session::open(bridge.http).await, Session::open(bridge.http).await);
    let (ending, staying) = (one.clone(), other.clone());
    let _ended = tokio::spawn(async move { ending.request(1, "tools/call", gated("a")).await.status });
    let known = bridge.process.received("tools/call").await["id"].clone();
    let stays = tokio::spawn(async move { staying.ask(1, "tools/call", gated("a")).await });
    bridge.process.received("tools/call").await;
    assert_eq!(one.close().await, 204);
    assert_eq!(bridge.process.received("notifications/cancelled").await["params"]["requestId"], known);
    bridge.process.open("a").await;
    assert_eq!(stays.await.unwrap()["id"], 1);
}
