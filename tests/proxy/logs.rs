//! Checks that a log message is sent to the session that it belongs to, at the level that the session has set.

use mcpm_tests::harness::mcp::{Modern, Session, notification, tool};
use serde_json::{Value, json};

use crate::{legacy, modern};

fn log(level: &str) -> Value {
    notification("notifications/message", json!({ "level": level, "data": level }))
}

fn levels(messages: &[Value]) -> Vec<&str> {
    messages.iter().filter_map(|message| message["params"]["level"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_session_gets_its_own_level_and_the_server_the_least_severe() {
    let mut bridge = legacy().await;
    let (quiet, curious) = (Session::open(bridge.http).await, Session::open(bridge.http).await);
    let level = |level: &str| json!({ "level": level, "x": 1 });
    assert!(quiet.ask(1, "logging/setLevel", level("error")).await["result"].is_object());
    assert_eq!(bridge.process.received("logging/setLevel").await["params"], level("error"));
    assert!(curious.ask(1, "logging/setLevel", level("debug")).await["result"].is_object());
    assert_eq!(bridge.process.received("logging/setLevel").await["params"], level("debug"));
    // A later request for fewer messages does not affect the other session.
    assert!(quiet.ask(1, "logging/setLevel", level("critical")).await["result"].is_object());
    assert_eq!(bridge.process.received("logging/setLevel").await["params"], level("debug"));
    let lines = json!([log("debug"), log("error"), log("critical"), log("emergency")]);
    let say = tool("say", json!({ "lines": lines }));
    let messages = quiet.request(2, "tools/call", say.clone()).await.messages().await;
    assert_eq!(levels(&messages), ["critical", "emergency"]);
    let messages = curious.request(2, "tools/call", say).await.messages().await;
    assert_eq!(levels(&messages), ["debug", "error", "critical", "emergency"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_message_that_could_be_of_two_calls_reaches_nobody() {
    let mut bridge = legacy().await;
    let (one, other) = (Session::open(bridge.http).await, Session::open(bridge.http).await);
    let mut streams = (one.listen().await, other.listen().await);
    let calls = [one.clone(), other.clone()].map(|session| {
        tokio::spawn(async move {
            let call = tool("echo", json!({ "gate": "a" }));
            session.request(1, "tools/call", call).await.messages().await
        })
    });
    for _ in &calls {
        bridge.process.received("tools/call").await;
    }
    bridge.process.send(&log("info")).await;
    let end = notification("notifications/tools/list_changed", json!({}));
    bridge.process.send(&end).await;
    bridge.process.open("a").await;
    for call in calls {
        assert_eq!(call.await.unwrap().len(), 1);
    }
    assert_eq!(streams.0.message().await.unwrap(), end);
    assert_eq!(streams.1.message().await.unwrap(), end);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_message_goes_to_the_only_call_on_its_stream() {
    let bridge = legacy().await;
    let (one, other) = (Session::open(bridge.http).await, Session::open(bridge.http).await);
    let mut others = other.listen().await;
    let say = tool("say", json!({ "lines": [log("info")] }));
    let messages = one.request(1, "tools/call", say).await.messages().await;
    assert_eq!(levels(&messages), ["info"]);
    let end = notification("notifications/tools/list_changed", json!({}));
    one.call(2, "say", json!({ "lines": [end] })).await;
    assert_eq!(others.message().await.unwrap(), end);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateless_call_gets_log_messages_only_if_it_asked() {
    let bridge = modern().await;
    let client = Modern(bridge.http);
    let mut say = tool("say", json!({ "lines": [log("info")] }));
    let messages = client.request(1, "tools/call", say.clone()).await.messages().await;
    assert_eq!(messages.len(), 1);
    say["_meta"] = json!({ "io.modelcontextprotocol/logLevel": "debug" });
    let messages = client.request(1, "tools/call", say).await.messages().await;
    assert_eq!(levels(&messages), ["info"]);
}
