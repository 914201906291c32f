//! Checks that the listener and the sessions continue if a server exits.

use mcpm::stdio::ServerEvent;
use mcpm_tests::harness::{
    mcp::{LEGACY, Modern, Session, initialize, request, tool},
    scripted_server::ScriptedProxy,
    with_timeout,
};
use serde_json::{Value, json};

use crate::{legacy, modern, script};

async fn start_waiting_call(
    bridge: &mut ScriptedProxy,
    session: &Session,
    id: Value,
) -> tokio::task::JoinHandle<(u16, Value)> {
    let session = session.clone();
    let call = tokio::spawn(async move {
        let response = session.request(id, "tools/call", tool("silent", json!({}))).await;
        (response.status, response.answer().await)
    });
    bridge.process.received("tools/call").await;
    call
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_in_flight_are_answered_at_once_with_an_error() {
    let mut bridge = legacy().await;
    let (one, other) = (Session::open(bridge.http).await, Session::open(bridge.http).await);
    let mut calls = Vec::new();
    for (session, id) in [(&one, json!(1)), (&one, json!("1")), (&other, json!(1))] {
        calls.push((id.clone(), start_waiting_call(&mut bridge, session, id).await));
    }
    bridge.crash(7).await;
    for (id, call) in calls {
        let (status, answer) = with_timeout("an error", call).await.unwrap();
        assert_eq!((status, &answer["id"], &answer["error"]["code"]), (502, &id, &json!(-32603)));
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains("exited with code 7"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_started_stream_ends_with_an_error_even_when_resumed() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let mut params = tool("progress", json!({ "count": 1, "gate": "never" }));
    params["_meta"] = json!({ "progressToken": "t" });
    let mut left = session.request("gone", "tools/call", params.clone()).await;
    left.event().await.unwrap();
    let last = left.event().await.unwrap().id.unwrap();
    drop(left);
    let mut stays = session.request("stays", "tools/call", params).await;
    stays.message().await.unwrap();
    let mut resumed = session.resume(&last).await;
    bridge.crash(7).await;
    for (stream, id) in [(&mut stays, "stays"), (&mut resumed, "gone")] {
        let end = stream.message().await.unwrap();
        assert_eq!((&end["id"], &end["error"]["code"]), (&json!(id), &json!(-32603)));
        assert!(stream.message().await.is_none());
    }
    // A client that reconnects after the crash gets the same response.
    let mut late = session.resume(&last).await;
    assert_eq!(late.message().await.unwrap()["id"], "gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_calls_in_one_array_each_get_their_error() {
    let mut bridge = legacy().await;
    let session = Session::with(bridge.http, "2025-03-26", json!({})).await;
    let batch = json!([
        request(1, "tools/call", tool("silent", json!({}))),
        request("1", "tools/call", tool("silent", json!({}))),
    ]);
    let answer = tokio::spawn(async move { session.post(batch.to_string()).await.json().await });
    bridge.process.received("tools/call").await;
    bridge.process.received("tools/call").await;
    bridge.crash(7).await;
    let answers = with_timeout("the answers", answer).await.unwrap();
    let ids: Vec<_> =
        answers.as_array().unwrap().iter().map(|answer| (&answer["id"], &answer["error"]["code"])).collect();
    assert_eq!(ids, [(&json!(1), &json!(-32603)), (&json!("1"), &json!(-32603))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_outlive_the_process_with_their_subscriptions_and_log_level() {
    let mut bridge = legacy().await;
    let (one, other) = (Session::open(bridge.http).await, Session::open(bridge.http).await);
    one.ask(1, "resources/subscribe", json!({ "uri": "test://a" })).await;
    other.ask(1, "resources/subscribe", json!({ "uri": "test://b" })).await;
    one.ask(2, "logging/setLevel", json!({ "level": "warning" })).await;
    other.ask(2, "logging/setLevel", json!({ "level": "error" })).await;
    let mut streams = (one.listen().await, other.listen().await);
    let handshake = bridge.process.received("initialize").await;
    bridge.crash(7).await;

    let mut life = bridge.script.next_process().await;
    assert_eq!(life.received("initialize").await["params"], handshake["params"]);
    life.received("notifications/initialized").await;
    let mut uris = [(); 2].map(|()| String::new());
    for uri in &mut uris {
        life.received("resources/subscribe").await["params"]["uri"].as_str().unwrap().clone_into(uri);
    }
    assert_eq!(uris, ["test://a", "test://b"]);
    assert_eq!(life.received("logging/setLevel").await["params"]["level"], "warning");

    assert_eq!(one.call(3, "echo", json!({ "a": 1 })).await["result"]["echo"], json!({ "a": 1 }));
    assert_eq!(other.call(3, "echo", json!({ "b": 1 })).await["result"]["echo"], json!({ "b": 1 }));
    for uri in ["test://a", "test://b"] {
        let updated = json!({ "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": { "uri": uri } });
        life.send(&updated).await;
    }
    assert_eq!(streams.0.message().await.unwrap()["params"]["uri"], "test://a");
    assert_eq!(streams.1.message().await.unwrap()["params"]["uri"], "test://b");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_during_the_restart_waits_for_the_new_process() {
    let script = script().await;
    let mut bridge = script.start(&["--hold-initialize"]).await;
    let opening = tokio::spawn(Session::open(bridge.http));
    bridge.process.received("initialize").await;
    bridge.process.open("initialize").await;
    let session = with_timeout("a session", opening).await.unwrap();
    bridge.crash(7).await;
    let mut life = bridge.script.next_process().await;
    let handshake = life.received("initialize").await;
    let calling = session.clone();
    let call = tokio::spawn(async move { calling.call(1, "echo", json!({})).await });
    let opening = tokio::spawn(Session::open(bridge.http));
    let other_shape = tokio::spawn(Session::with(bridge.http, LEGACY, json!({ "roots": {} })));
    // A client with other parameters gets a separate process, after the earlier clients were handled.
    let mut third = bridge.script.next_process().await;
    third.received("initialize").await;
    let seen = life.drain_received().await;
    assert!(seen.is_empty(), "a second handshake beside {handshake}: {seen:?}");
    life.open("initialize").await;
    third.open("initialize").await;
    assert_eq!(with_timeout("the call", call).await.unwrap()["id"], 1);
    let second = with_timeout("the second session", opening).await.unwrap();
    assert_eq!(second.call(2, "echo", json!({})).await["id"], 2);
    with_timeout("the third session", other_shape).await.unwrap();
    let handshakes =
        life.drain_received().await.iter().filter(|message| message["method"] == "initialize").count();
    assert_eq!(handshakes, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_crash_of_one_process_leaves_the_others_alone() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let apart = Session::with(bridge.http, LEGACY, json!({ "roots": {} })).await;
    let mut apart_life = bridge.script.next_process().await;
    let call = {
        let apart = apart.clone();
        tokio::spawn(async move { apart.call(1, "echo", json!({ "gate": "a" })).await })
    };
    apart_life.received("tools/call").await;
    bridge.crash(7).await;
    assert_eq!(session.call(1, "echo", json!({})).await["id"], 1);
    apart_life.open("a").await;
    assert_eq!(with_timeout("the call", call).await.unwrap()["id"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn stateless_calls_are_answered_and_the_next_process_serves_on() {
    let mut bridge = modern().await;
    let client = Modern(bridge.http);
    let call =
        tokio::spawn(async move { client.request("s", "tools/call", tool("silent", json!({}))).await });
    bridge.process.received("tools/call").await;
    bridge.crash(7).await;
    let response = with_timeout("the call", call).await.unwrap();
    assert_eq!(response.status, 502);
    assert_eq!(response.json().await["id"], "s");
    assert_eq!(client.call(1, "echo", json!({})).await["id"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_tell_of_the_end_and_of_the_new_start() {
    let mut bridge = legacy().await;
    assert_eq!(with_timeout("an event", bridge.events.recv()).await, Some(ServerEvent::Ready));
    bridge.process.exit(7).await;
    let Some(ServerEvent::Restarting { ended, attempt, .. }) =
        with_timeout("an event", bridge.events.recv()).await
    else {
        panic!("no restart");
    };
    assert_eq!((ended.exit.unwrap().code, attempt), (7, 1));
    assert_eq!(with_timeout("an event", bridge.events.recv()).await, Some(ServerEvent::Ready));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_restarted_leaves_a_listener_that_says_why() {
    use mcpm::{proxy::StdioProxy, stdio::RestartPolicy};
    use mcpm_tests::harness::http::Http;

    let script = script().await;
    let (sender, mut events) = tokio::sync::mpsc::unbounded_channel();
    let proxy = StdioProxy::new("scripted", script.process(&[])).restarts(RestartPolicy::NEVER);
    let start = proxy.start(move |event| drop(sender.send(event)));
    let running = with_timeout("the proxy to start", start).await.unwrap();
    let mut life = script.next_process().await;
    let http = Http(running.proxy().address().unwrap());
    let session = Session::open(http).await;
    life.exit(7).await;
    while !matches!(with_timeout("the end", events.recv()).await, Some(ServerEvent::Ended(_))) {}
    let response = session.request("e", "tools/list", json!({})).await;
    assert_eq!((response.status, response.headers.get("retry-after")), (503, Some("1")));
    let answer = response.json().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("e"), &json!(-32603)));
    assert!(answer["error"]["message"].as_str().unwrap().contains("exited with code 7"), "{answer}");
    assert_eq!(http.post("/mcp", initialize(LEGACY, json!({})).to_string()).send().await.status, 503);
    let response = http.get("/health").send().await;
    assert_eq!(response.status, 503);
    assert!(response.text().await.contains("exited with code 7"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_reading_costs_no_more_than_its_own_calls() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let _hung = start_hanging_call(&mut bridge, &session).await;
    // The listener, `/health` and denials still work.
    assert_eq!(bridge.http.get("/health").send().await.status, 200);
    assert_eq!(session.notify("notifications/roots/list_changed", json!({})).await, 202);
    assert_eq!(bridge.http.get("/mcp").send().await.status, 400);
    with_timeout("the proxy to stop", bridge.running.stop(std::time::Duration::from_millis(200))).await;
    bridge.process.ended().await;
}

async fn start_hanging_call(bridge: &mut ScriptedProxy, session: &Session) -> tokio::net::TcpStream {
    let body = request(1, "tools/call", tool("hang", json!({}))).to_string();
    let call = session.with_session_headers(bridge.http.post("/mcp", body)).send_only().await;
    bridge.process.received("tools/call").await;
    call
}
