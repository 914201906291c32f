//! Tests of the limits of listeners, and of the effect of one rejected listener on the others.

use serde_json::{Value, json};

use super::{
    PendingResponse, RpcError,
    owner_tests::{Server, next_message, owner, request},
};
use crate::{explain::Reason, mcp::era::Era, testing::with_timeout};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

async fn listen(
    server: &Server,
    name: Option<&str>,
    uris: &[String],
    meta: Value,
) -> Result<PendingResponse, RpcError> {
    let wanted = json!({ "_meta": meta, "notifications": { "resourceSubscriptions": uris } });
    let call = request("subscriptions/listen", &wanted);
    with_timeout(server.mux.call_stateless(&call, name.map(owner).as_ref(), true)).await
}

fn uris(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{name}://{number}")).collect()
}

/// Receives a listen request; returns its filter and its id.
async fn hears_listen(server: &mut Server) -> (Value, Vec<String>, Value) {
    let heard = server.recv().await;
    assert_eq!(heard["method"], "subscriptions/listen", "{heard}");
    let uris = &heard["params"]["notifications"]["resourceSubscriptions"];
    let uris = serde_json::from_value(uris.clone()).expect("URIs");
    (heard["id"].clone(), uris, heard["params"]["_meta"].clone())
}

fn acknowledge(server: &Server, id: &Value, uris: &[String]) {
    server.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": { "_meta": { SUBSCRIPTION: id }, "notifications": { "resourceSubscriptions": uris } },
    }));
}

#[tokio::test]
async fn a_listener_whom_the_server_refuses_ends_no_other_stream() {
    let mut server = Server::start(Era::Modern).await;
    let first = listen(&server, None, &uris("a", 1), json!({ "v": "good" })).await.expect("a stream");
    let (mut first, _guard) = first.into_reader();
    let (id, asked, meta) = hears_listen(&mut server).await;
    assert_eq!((&asked[..], meta), (&["a://0".to_owned()][..], json!({ "v": "good" })));
    acknowledge(&server, &id, &asked);
    next_message(&mut first).await;

    let bad = listen(&server, None, &uris("bad", 1), json!({ "v": "bad" })).await.expect("a stream");
    let late = listen(&server, None, &uris("late", 1), json!({})).await.expect("a stream");
    let ((mut bad, _bad_guard), (mut late, _late_guard)) = (bad.into_reader(), late.into_reader());
    assert_eq!(server.recv().await["params"]["requestId"], id);
    let (id, asked, meta) = hears_listen(&mut server).await;
    assert_eq!(asked, ["a://0", "bad://0"], "one request to the server for each listener at a time");
    assert_eq!(meta, json!({ "v": "good" }), "what the server has acknowledged before");
    server.send(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32602, "message": "no" } }));
    assert_eq!(next_message(&mut bad).await["error"]["message"], "no");

    // The other listeners continue, and the request is extended for the next one.
    let (id, asked, _) = hears_listen(&mut server).await;
    assert_eq!(asked, ["a://0"]);
    acknowledge(&server, &id, &asked);
    assert_eq!(next_message(&mut first).await["method"], "notifications/resources/updated");
    assert_eq!(server.recv().await["params"]["requestId"], id);
    let (id, asked, _) = hears_listen(&mut server).await;
    assert_eq!(asked, ["a://0", "late://0"]);
    acknowledge(&server, &id, &asked);
    assert_eq!(next_message(&mut late).await["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(next_message(&mut first).await["method"], "notifications/resources/updated");

    // An error after the acknowledgement concerns all listeners.
    server.send(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32603, "message": "over" } }));
    for stream in [&mut first, &mut late] {
        assert_eq!(next_message(stream).await["error"]["message"], "over");
    }
    assert_eq!(server.mux.session_and_call_count().1, 0);
}

#[tokio::test]
async fn listeners_who_are_not_told_apart_are_bounded_together() {
    let server = Server::start(Era::Modern).await;
    let _some = listen(&server, None, &uris("a", 600), json!({})).await.expect("room");
    let refused = listen(&server, None, &uris("b", 600), json!({})).await.expect_err("no room");
    assert_eq!((refused.status.as_u16(), refused.reason), (429, Some(Reason::TooManySubscriptions)));
    let _same = listen(&server, None, &uris("a", 600), json!({})).await.expect("the same again");
    let _known = listen(&server, Some("a"), &uris("b", 600), json!({})).await.expect("a caller's own room");
}

#[tokio::test]
async fn all_listeners_together_are_bounded_and_leave_room_for_others() {
    let server = Server::start(Era::Modern).await;
    let mut held = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        match listen(&server, Some(name), &uris(name, 1000), json!({})).await {
            Ok(exchange) => held.push(exchange),
            Err(refused) => assert_eq!(refused.reason, Some(Reason::TooManySubscriptions)),
        }
    }
    assert_eq!(held.len(), 3);
    held.push(listen(&server, Some("f"), &uris("f", 100), json!({})).await.expect("room for a few"));
    held.pop();
    held.pop();
    held.push(listen(&server, Some("g"), &uris("g", 1000), json!({})).await.expect("room again"));
}

#[tokio::test]
async fn the_subscriptions_of_listeners_are_bounded_in_bytes() {
    let server = Server::start(Era::Modern).await;
    let long = [format!("a://{}", "x".repeat(300 << 10))];
    assert_eq!(listen(&server, None, &long, json!({})).await.expect_err("too long").status, 429);
    let meta = json!({ "x": "x".repeat(600 << 10) });
    let refused = listen(&server, None, &[], meta).await.expect_err("too large");
    assert_eq!((refused.status.as_u16(), refused.reason), (413, Some(Reason::TooManySubscriptions)));
    assert_eq!(server.mux.session_and_call_count().1, 0);
}
