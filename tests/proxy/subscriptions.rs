//! Checks that resource updates are sent to subscribed clients, and list changes to every client once.

use mcpm_tests::harness::mcp::{Session, notification};
use serde_json::{Value, json};

use crate::legacy;

fn updated(uri: &str) -> Value {
    notification("notifications/resources/updated", json!({ "uri": uri }))
}

fn end() -> Value {
    notification("notifications/prompts/list_changed", json!({}))
}

async fn subscribe(session: &Session, uri: &str) {
    let answer = session.ask(1, "resources/subscribe", json!({ "uri": uri })).await;
    assert!(answer["result"].is_object(), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_reaches_its_subscribers_alone() {
    let mut bridge = legacy().await;
    let (one, other) = (Session::open(bridge.http).await, Session::open(bridge.http).await);
    let mut streams = (one.listen().await, other.listen().await);
    subscribe(&one, "test://a").await;
    subscribe(&other, "test://b").await;
    for message in [updated("test://a"), updated("test://b"), updated("test://c"), end()] {
        bridge.process.send(&message).await;
    }
    assert_eq!(streams.0.message().await.unwrap(), updated("test://a"));
    assert_eq!(streams.0.message().await.unwrap(), end());
    assert_eq!(streams.1.message().await.unwrap(), updated("test://b"));
    assert_eq!(streams.1.message().await.unwrap(), end());
}

/// "This might be a sub-resource of the one that the client actually subscribed to" (schema, 2025-11-25).
#[tokio::test(flavor = "multi_thread")]
async fn an_update_below_a_subscribed_resource_reaches_the_subscriber() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let mut stream = session.listen().await;
    subscribe(&session, "file:///a").await;
    for message in [updated("file:///ab"), updated("file:///a/b"), updated("file:///a#c"), end()] {
        bridge.process.send(&message).await;
    }
    assert_eq!(stream.message().await.unwrap(), updated("file:///a/b"));
    assert_eq!(stream.message().await.unwrap(), updated("file:///a#c"));
    assert_eq!(stream.message().await.unwrap(), end());
}

#[tokio::test(flavor = "multi_thread")]
async fn unsubscribing_does_not_affect_other_sessions() {
    let mut bridge = legacy().await;
    let (one, other) = (Session::open(bridge.http).await, Session::open(bridge.http).await);
    let mut streams = (one.listen().await, other.listen().await);
    subscribe(&one, "test://a").await;
    subscribe(&other, "test://a").await;
    let answer = one.ask("u", "resources/unsubscribe", json!({ "uri": "test://a" })).await;
    assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": "u", "result": {} }));
    bridge.process.send(&updated("test://a")).await;
    bridge.process.send(&end()).await;
    assert_eq!(streams.0.message().await.unwrap(), end());
    assert_eq!(streams.1.message().await.unwrap(), updated("test://a"));
    assert!(
        bridge
            .process
            .drain_received()
            .await
            .iter()
            .all(|message| message["method"] != "resources/unsubscribe")
    );
    // Only the last one reaches the server.
    other.ask("u", "resources/unsubscribe", json!({ "uri": "test://a" })).await;
    bridge.process.received("resources/unsubscribe").await;
    bridge.process.send(&updated("test://a")).await;
    bridge.process.send(&end()).await;
    assert_eq!(streams.1.message().await.unwrap(), end());
    assert_eq!(streams.1.message().await.unwrap(), end());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_list_is_told_once_to_every_session() {
    let mut bridge = legacy().await;
    let mut streams = Vec::new();
    let mut later = Vec::new();
    for _ in 0..3 {
        streams.push(Session::open(bridge.http).await.listen().await);
        later.push(Session::open(bridge.http).await);
    }
    let lists = ["tools", "prompts", "resources"]
        .map(|list| notification(&format!("notifications/{list}/list_changed"), json!({ "x": list })));
    for list in &lists {
        bridge.process.send(list).await;
    }
    later[0].call(1, "echo", json!({})).await;
    // A client without a stream gets it later.
    for session in later {
        streams.push(session.listen().await);
    }
    let end = notification("notifications/tools/list_changed", json!({ "x": "end" }));
    bridge.process.send(&end).await;
    for stream in &mut streams {
        for expected in lists.iter().chain([&end]) {
            assert_eq!(stream.message().await.as_ref(), Some(expected));
        }
    }
}
