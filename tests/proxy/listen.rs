//! Checks that `subscriptions/listen` requests of several clients share one request to the server.

use mcpm_tests::harness::{http::Response, mcp::Modern};
use serde_json::{Value, json};

use crate::modern;

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

async fn listen(client: Modern, id: Value, wanted: Value) -> Response {
    let response =
        client.request(id.clone(), "subscriptions/listen", json!({ "notifications": wanted })).await;
    assert_eq!(response.status, 200);
    assert!(response.is_events());
    response
}

/// Reads the acknowledgement, which comes first, and returns the granted subscriptions.
async fn acknowledged(stream: &mut Response, id: &Value) -> Value {
    let first = stream.event().await.unwrap();
    assert_eq!((first.id.as_ref(), first.retry.as_ref()), (None, None), "no resumption in the stateless era");
    let message = first.json();
    assert_eq!(message["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(message["params"]["_meta"][SUBSCRIPTION], *id);
    message["params"]["notifications"].clone()
}

async fn changed(client: Modern, method: &str, params: Value) {
    client.call("c", "changed", json!({ "method": method, "params": params })).await;
}

fn notification_parts(message: &Value) -> (&Value, &Value, &Value) {
    (&message["method"], &message["params"]["uri"], &message["params"]["_meta"][SUBSCRIPTION])
}

#[tokio::test(flavor = "multi_thread")]
async fn each_listener_gets_what_it_asked_for_under_its_own_id() {
    let bridge = modern().await;
    let client = Modern(bridge.http);
    let wants = (
        json!({ "toolsListChanged": true, "resourceSubscriptions": ["test://a"] }),
        json!({ "promptsListChanged": true, "resourceSubscriptions": ["test://ab", "test://c"] }),
    );
    let (one, other) = (json!(1), json!("1"));
    let mut ones = listen(client, one.clone(), wants.0.clone()).await;
    assert_eq!(acknowledged(&mut ones, &one).await, wants.0);
    let mut others = listen(client, other.clone(), wants.1.clone()).await;
    assert_eq!(acknowledged(&mut others, &other).await, wants.1);

    let update = "notifications/resources/updated";
    changed(client, "notifications/tools/list_changed", json!({})).await;
    changed(client, "notifications/prompts/list_changed", json!({})).await;
    changed(client, "notifications/resources/list_changed", json!({})).await;
    for uri in ["test://a", "test://ab", "test://c", "test://d"] {
        changed(client, update, json!({ "uri": uri })).await;
    }
    changed(client, "notifications/tools/list_changed", json!({})).await;
    changed(client, "notifications/prompts/list_changed", json!({})).await;

    let tools = json!("notifications/tools/list_changed");
    let prompts = json!("notifications/prompts/list_changed");
    for expected in [
        // No subscription was active while the proxy requested a wider one, so the client is notified once in any case.
        (&tools, &Value::Null, &one),
        (&json!(update), &json!("test://a"), &one),
        (&tools, &Value::Null, &one),
        (&json!(update), &json!("test://a"), &one),
        (&tools, &Value::Null, &one),
    ] {
        assert_eq!(notification_parts(&ones.message().await.unwrap()), expected);
    }
    for expected in [
        (&prompts, &Value::Null, &other),
        (&json!(update), &json!("test://ab"), &other),
        (&json!(update), &json!("test://c"), &other),
        (&prompts, &Value::Null, &other),
    ] {
        assert_eq!(notification_parts(&others.message().await.unwrap()), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_while_the_server_is_asked_for_more_is_not_lost() {
    let mut bridge = modern().await;
    let client = Modern(bridge.http);
    let mut ones = listen(client, json!(1), json!({ "toolsListChanged": true })).await;
    acknowledged(&mut ones, &json!(1)).await;
    let former = bridge.process.received("subscriptions/listen").await["id"].clone();
    let wanted = json!({ "resourceSubscriptions": ["test://a"] });
    let mut others = listen(client, json!(2), wanted).await;
    bridge.process.received("subscriptions/listen").await;
    // A notification without a listener, and one that was sent under the previous id.
    let tools = json!("notifications/tools/list_changed");
    assert_eq!(notification_parts(&ones.message().await.unwrap()), (&tools, &Value::Null, &json!(1)));
    let params = json!({ "_meta": { SUBSCRIPTION: former } });
    bridge.process.send(&json!({ "jsonrpc": "2.0", "method": tools, "params": params })).await;
    assert_eq!(notification_parts(&ones.message().await.unwrap()), (&tools, &Value::Null, &json!(1)));
    // The last client has missed nothing.
    acknowledged(&mut others, &json!(2)).await;
    changed(client, "notifications/resources/updated", json!({ "uri": "test://a" })).await;
    assert_eq!(others.message().await.unwrap()["method"], "notifications/resources/updated");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_sees_one_listener_and_its_end_when_the_last_client_leaves() {
    let mut bridge = modern().await;
    let client = Modern(bridge.http);
    let wanted = json!({ "toolsListChanged": true });
    let mut ones = listen(client, json!(1), wanted.clone()).await;
    acknowledged(&mut ones, &json!(1)).await;
    let known = bridge.process.received("subscriptions/listen").await["id"].clone();
    let mut others = listen(client, json!(1), wanted.clone()).await;
    acknowledged(&mut others, &json!(1)).await;
    drop(ones);
    changed(client, "notifications/tools/list_changed", json!({})).await;
    assert_eq!(others.message().await.unwrap()["method"], "notifications/tools/list_changed");
    drop(others);
    let cancelled = bridge.process.received("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], known);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_end_of_listening_ends_every_stream_with_a_result() {
    let mut bridge = modern().await;
    let client = Modern(bridge.http);
    let wanted = json!({ "toolsListChanged": true });
    let open = async |id: Value| {
        let mut stream = listen(client, id.clone(), wanted.clone()).await;
        acknowledged(&mut stream, &id).await;
        stream
    };
    let ended = async |mut stream: Response, id: Value| {
        let end = stream.message().await.unwrap();
        assert_eq!((&end["id"], &end["result"]["_meta"][SUBSCRIPTION]), (&id, &id));
        assert!(stream.message().await.is_none());
    };
    // By a response.
    let streams = (open(json!(1)).await, open(json!("b")).await);
    client.call("c", "unlisten", json!({})).await;
    ended(streams.0, json!(1)).await;
    ended(streams.1, json!("b")).await;
    // By a cancellation, as the specification requires for stdio.
    bridge.process.drain_received().await;
    let stream = open(json!("again")).await;
    let known = bridge.process.received("subscriptions/listen").await["id"].clone();
    let cancelled =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": known } });
    bridge.process.send(&cancelled).await;
    ended(stream, json!("again")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_ends_every_listener_with_an_error() {
    let mut bridge = modern().await;
    let client = Modern(bridge.http);
    let mut stream = listen(client, json!("l"), json!({ "toolsListChanged": true })).await;
    acknowledged(&mut stream, &json!("l")).await;
    bridge.crash(3).await;
    let end = stream.message().await.unwrap();
    assert_eq!((&end["id"], &end["error"]["code"]), (&json!("l"), &json!(-32603)));
    assert!(stream.message().await.is_none());
    // The next process serves new subscriptions.
    let mut again = listen(client, json!("m"), json!({ "toolsListChanged": true })).await;
    acknowledged(&mut again, &json!("m")).await;
}
