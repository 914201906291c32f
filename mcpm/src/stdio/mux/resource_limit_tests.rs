//! Tests of how much memory clients and a server can use in a multiplexer, and for how long.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{
    MAX_PENDING_SERVER_REQUESTS_PER_SESSION, MuxLimits,
    owner_tests::{Server, message, next_message, owner, request, result},
};
use crate::{
    explain::Reason,
    mcp::{era::Era, message::MAX_ID_BYTES},
    memory::{Account, MEMORY_BUDGET_BYTES},
    stdio::{
        handshake::{Initialize, MAX_RESULT_BYTES},
        replay_stream::{MessageReader, StreamEnd, StreamItem},
        session::{Session, SessionId},
    },
};

const LONG: Duration = Duration::from_secs(3600);

/// Returns the next message to the server, which is available already.
fn try_recv(server: &mut Server) -> Option<Value> {
    let line = server.pipe.try_recv().ok()?;
    Some(serde_json::from_slice(&line).expect("JSON"))
}

/// Returns the next message to the server, after the end of the handshake.
fn try_recv_after_handshake(server: &mut Server) -> Option<Value> {
    std::iter::from_fn(|| try_recv(server)).find(|heard| heard["method"] != "notifications/initialized")
}

/// Returns the next item of a stream, which is available already.
fn step(reader: &mut MessageReader) -> Option<StreamItem> {
    reader.next().now_or_never()
}

fn notification(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

fn sampling(id: impl Into<Value>) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": "sampling/createMessage", "params": {} })
}

async fn session() -> (Server, SessionId) {
    let mut server = Server::start(Era::Legacy).await;
    let id = server.open("a", &owner("a")).await;
    (server, id)
}

#[tokio::test]
async fn the_queue_of_a_server_that_does_not_read_is_bounded() {
    let (server, id) = session().await;
    let large = "x".repeat(8 << 20);
    let note = message(&notification("notifications/x", &json!({ "x": large })));
    let call = request("tools/call", &json!({ "x": large }));
    let mut taken = 0;
    let refused = loop {
        match server.mux.notify(&note, Some(&id)).await {
            Ok(()) => taken += 1,
            Err(refusal) => break refusal,
        }
        assert!(taken * large.len() <= MEMORY_BUDGET_BYTES, "there is no limit");
    };
    assert_eq!((refused.status.as_u16(), refused.reason), (503, Some(Reason::QueueFull)));
    let refused = server.mux.call_in_session(&call, &id, true).await.expect_err("no room");
    assert_eq!(refused.reason, Some(Reason::QueueFull));
    // The queue has no room for responses to server requests either.
    server.send(&sampling(1));
    let answer = json!({ "jsonrpc": "2.0", "id": 2, "result": { "x": large } });
    let asked = *server.mux.lock().server_requests.first_key_value().expect("a request").0;
    let mut answer = answer;
    answer["id"] = asked.into();
    assert_eq!(
        server.mux.respond(&message(&answer), &id).expect_err("no room").reason,
        Some(Reason::QueueFull)
    );
}

#[tokio::test]
async fn lines_buffered_during_a_restart_are_bounded() {
    let (server, id) = session().await;
    let (lines, _pipe) = mpsc::unbounded_channel();
    server.mux.connect(lines, Account::new());
    let note = message(&notification("notifications/x", &json!({ "x": "x".repeat(8 << 20) })));
    let mut taken = 0;
    while taken < 10 && server.mux.notify(&note, Some(&id)).await.is_ok() {
        taken += 1;
    }
    assert!((1..=6).contains(&taken), "{taken}");
}

#[tokio::test]
async fn pings_of_a_server_that_reads_nothing_are_not_answered_without_bound() {
    let (server, _) = session().await;
    let id = "x".repeat(MAX_ID_BYTES - 2);
    for _ in 0..2 * MEMORY_BUDGET_BYTES / MAX_ID_BYTES {
        server.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }));
    }
    let waiting = server.pipe.len() * MAX_ID_BYTES;
    assert!(waiting > 1 << 20 && waiting <= MEMORY_BUDGET_BYTES, "{waiting}");
}

#[tokio::test]
async fn requests_of_a_server_are_bounded_in_number_and_size() {
    let (mut server, id) = session().await;
    while try_recv(&mut server).is_some() {}
    for number in 0..MAX_PENDING_SERVER_REQUESTS_PER_SESSION {
        server.send(&sampling(number));
    }
    assert!(try_recv(&mut server).is_none());
    server.send(&sampling("one too many"));
    let refused = try_recv(&mut server).expect("an answer");
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("one too many"), &json!(-32603)));
    assert_eq!(refused["error"]["data"]["reason"], "limit.calls");
    // A request whose id would be kept in full is rejected.
    server.send(&sampling("x".repeat(MAX_ID_BYTES)));
    let refused = try_recv(&mut server).expect("an answer");
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(-32600)));
    assert_eq!(server.mux.lock().server_requests.len(), MAX_PENDING_SERVER_REQUESTS_PER_SESSION);
    // The requests time out without a response, and free room for others.
    server.mux.sweep(Instant::now() + MuxLimits::default().call_timeout + Duration::from_secs(1));
    assert_eq!(server.mux.lock().server_requests.len(), 0);
    let answered = std::iter::from_fn(|| try_recv(&mut server)).filter(|heard| heard.get("error").is_some());
    assert_eq!(answered.count(), MAX_PENDING_SERVER_REQUESTS_PER_SESSION);
    assert!(!server.mux.lock().sessions.contains_key(&id), "nobody used it for as long");
}

#[tokio::test]
async fn a_server_request_that_no_stream_accepts_is_rejected_and_the_session_recovers() {
    let (mut server, id) = session().await;
    while try_recv(&mut server).is_some() {}
    let mut stream = server.mux.read_stream(&id, None).expect("a stream");
    let large = "x".repeat(20 << 20);
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/x", "params": { "x": large } });
    server.send(&note);
    server.send(&note);
    server.send(&sampling(1));
    let mut steps = std::iter::from_fn(|| step(&mut stream));
    assert!(matches!(steps.next(), Some(StreamItem::Message { .. })));
    assert!(matches!(steps.next(), Some(StreamItem::End(StreamEnd::Overflow))));
    // The next stream gets the messages after that.
    let mut stream = server.mux.read_stream(&id, None).expect("a stream");
    assert_eq!(next_message(&mut stream).await["method"], "sampling/createMessage");
    server.send(&sampling(2));
    assert_eq!(next_message(&mut stream).await["method"], "sampling/createMessage");
}

#[tokio::test]
async fn a_call_ends_after_its_total_time_whatever_it_reports() {
    let (mut server, id) = session().await;
    let params = json!({ "_meta": { "progressToken": "t" } });
    let (mut stream, number) = server.call(&id, "tools/call", &params).await;
    let total = MuxLimits::default().call_timeout;
    let report = notification("notifications/progress", &json!({ "progressToken": number, "progress": 1 }));
    server.send(&report);
    next_message(&mut stream).await;
    {
        // The call has reported progress all the time.
        let mut state = server.mux.lock();
        let call = state.calls.values_mut().next().expect("the call");
        call.last_activity = Instant::now() + total;
    }
    server.mux.sweep(Instant::now() + total - Duration::from_secs(1));
    assert_eq!(step(&mut stream), None);
    server.mux.sweep(Instant::now() + total + Duration::from_secs(1));
    assert_eq!(step(&mut stream), Some(StreamItem::End(StreamEnd::TimedOut)));
}

#[tokio::test]
async fn a_call_does_not_time_out_while_its_user_is_prompted() {
    let (mut server, id) = session().await;
    let (mut stream, _) = server.call(&id, "tools/call", &json!({})).await;
    let mux = Arc::clone(&server.mux);
    let heard = || mux.lock().calls.first_key_value().expect("the call").1.last_activity;
    let too_late = |heard: Instant| heard + MuxLimits::default().call_idle_timeout + Duration::from_nanos(1);
    let called = heard();
    server.send(&sampling("s"));
    let asked = next_message(&mut stream).await["id"].clone();
    assert!(heard() > called, "to ask is a sign of life");
    let before = heard();
    mux.sweep(too_late(before) + Duration::from_secs(60));
    assert_eq!(step(&mut stream), None, "it waits for the answer");
    mux.respond(&message(&result(&asked, &json!({}))), &id).expect("room");
    let answered = heard();
    assert!(answered > before);
    mux.sweep(too_late(before));
    assert_eq!(step(&mut stream), None, "the server has as long after the answer");
    // The same applies to a request that is cancelled.
    server.send(&sampling("t"));
    next_message(&mut stream).await;
    let asked_again = heard();
    server.send(&notification("notifications/cancelled", &json!({ "requestId": "t" })));
    next_message(&mut stream).await;
    assert!(heard() > asked_again);
    mux.sweep(too_late(heard()));
    assert_eq!(step(&mut stream), Some(StreamItem::End(StreamEnd::TimedOut)));
}

#[tokio::test]
async fn a_kept_notification_does_not_keep_the_buffer_that_it_came_in() {
    let (server, id) = session().await;
    for method in ["notifications/tools/list_changed", "notifications/message", "notifications/x"] {
        let large = "x".repeat(1 << 20);
        let note = notification(method, &json!({ "level": "info" })).to_string();
        let buffer = Bytes::from(format!("{large}{note}"));
        server.mux.handle_line(buffer.slice(large.len()..));
        assert!(buffer.is_unique(), "{method}");
    }
    let mut stream = server.mux.read_stream(&id, None).expect("a stream");
    assert_eq!(next_message(&mut stream).await["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_subscription_is_booked_until_it_is_over() {
    let mut server = Server::start(Era::Legacy).await;
    let (one, other) = (server.open("a", &owner("a")).await, server.open("b", &owner("a")).await);
    let uri = format!("a://{}", "x".repeat(100 << 10));
    let (_, subscribed) = server.call(&one, "resources/subscribe", &json!({ "uri": uri })).await;
    // Other sessions can use only the room that is left, even before the server responds.
    let session = Session::new(None, false, Account::new(), Instant::now());
    let mut booked = Vec::new();
    while let Some(subscription) = session.book("x".repeat(200 << 10)) {
        booked.push(subscription);
        assert!(booked.len() * (200 << 10) <= MEMORY_BUDGET_BYTES, "there is no limit");
    }
    let book = || server.mux.lock().book(&other, "x".repeat(200 << 10));
    let mut others = Vec::new();
    let refused = loop {
        let session = Session::new(None, false, Account::new(), Instant::now());
        match session.book("x".repeat(200 << 10)) {
            Some(subscription) => others.push(subscription),
            None => break book().expect_err("no room"),
        }
        assert!(others.len() * (200 << 10) <= MEMORY_BUDGET_BYTES, "there is no limit");
    };
    assert_eq!((refused.status.as_u16(), refused.reason), (503, Some(Reason::TooManySubscriptions)));
    drop((booked, others));
    book().expect("room again");
    server.send(&result(&subscribed, &json!({})));
    assert!(server.mux.lock().sessions[&one].subscriptions.contains(&*uri));
}

#[tokio::test]
async fn an_answer_to_initialize_that_is_too_large_fails_the_handshake() {
    let mut server = Server::start(Era::Legacy).await;
    let asked = message(&json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {} },
    }));
    let asked = Initialize::read(asked).expect("an initialize");
    let handshake = server.mux.start_handshake(&asked, None);
    let number = server.recv().await["id"].clone();
    let text = "x".repeat(MAX_RESULT_BYTES);
    server.send(&result(&number, &json!({ "protocolVersion": "2025-11-25", "instructions": text })));
    let session = Session::new(None, false, Account::new(), Instant::now());
    let id = SessionId::from_client("a");
    let refused = server.mux.finish_handshake(handshake, &asked, &id, session).await.expect_err("too large");
    assert_eq!(refused.status, 502);
    assert!(refused.message.contains("1 MiB"), "{}", refused.message);
    assert!(server.mux.lock().handshake.is_none());
}

#[tokio::test]
async fn an_oversized_message_gets_an_error_response() {
    let (mut server, id) = session().await;
    let (mut stream, number) = server.call(&id, "tools/call", &json!({})).await;
    server.mux.take_skipped(Some(&number.to_string()), false, "larger than 32 MiB", None);
    let answer = next_message(&mut stream).await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("c"), &json!(-32603)));
    assert!(answer["error"]["message"].as_str().expect("text").contains("32 MiB"), "{answer}");
    server.mux.take_skipped(Some("\"s\""), true, "no room", Some(Reason::NoMemory));
    let answer = try_recv(&mut server).expect("an answer");
    assert_eq!((&answer["id"], &answer["error"]["data"]["reason"]), (&json!("s"), &json!("limit.memory")));
    server.mux.take_skipped(None, true, "larger than 32 MiB", None);
    assert_eq!(try_recv(&mut server), None);
}

#[tokio::test]
async fn progress_goes_on_after_a_call_became_a_task() {
    let (mut server, id) = session().await;
    let params = json!({ "task": {}, "_meta": { "progressToken": "mine" } });
    let (mut stream, number) = server.call(&id, "tools/call", &params).await;
    server.send(&result(&number, &json!({ "task": { "taskId": "1", "status": "working" } })));
    next_message(&mut stream).await;
    let mut standalone = server.mux.read_stream(&id, None).expect("a stream");
    let progress = |token: &Value| {
        notification("notifications/progress", &json!({ "progressToken": token, "progress": 1 }))
    };
    server.send(&progress(&number));
    assert_eq!(next_message(&mut standalone).await, progress(&json!("mine")));
    // A call that did not become a task gets nothing after its response.
    let params = json!({ "_meta": { "progressToken": "other" } });
    let (mut stream, number) = server.call(&id, "tools/call", &params).await;
    server.send(&result(&number, &json!({ "content": [] })));
    next_message(&mut stream).await;
    server.send(&progress(&number));
    assert_eq!(step(&mut standalone), None);
    server.mux.close_session(&id).expect("a session");
    assert!(server.mux.lock().tasks.progress(number.as_u64().expect("a number")).is_none());
}

#[tokio::test]
async fn an_ended_session_removes_its_own_subscriptions() {
    let mut server = Server::start(Era::Legacy).await;
    let (one, other) = (server.open("a", &owner("a")).await, server.open("b", &owner("a")).await);
    for (session, uri) in [(&one, "x://shared"), (&one, "x://own"), (&other, "x://shared")] {
        let (_, number) = server.call(session, "resources/subscribe", &json!({ "uri": uri })).await;
        server.send(&result(&number, &json!({})));
    }
    // The server has not responded to this one yet.
    server.call(&one, "resources/subscribe", &json!({ "uri": "x://pending" })).await;
    for (session, level) in [(&other, "error"), (&one, "debug")] {
        let (_, number) = server.call(session, "logging/setLevel", &json!({ "level": level })).await;
        server.send(&result(&number, &json!({})));
    }
    server.mux.close_session(&one).expect("a session");
    let told: Vec<_> = std::iter::from_fn(|| try_recv(&mut server))
        .map(|told| (told["method"].clone(), told["params"]["uri"].clone(), told["params"]["level"].clone()))
        .filter(|(method, ..)| method != "notifications/cancelled")
        .collect();
    let unsubscribed = |uri: &str| (json!("resources/unsubscribe"), json!(uri), Value::Null);
    let level = (json!("logging/setLevel"), Value::Null, json!("error"));
    assert_eq!(told, [unsubscribed("x://own"), unsubscribed("x://pending"), level]);
}

#[tokio::test]
async fn unsubscribing_keeps_pending_subscriptions_of_other_sessions() {
    let mut server = Server::start(Era::Legacy).await;
    let (one, other) = (server.open("a", &owner("a")).await, server.open("b", &owner("a")).await);
    let (_, number) = server.call(&one, "resources/subscribe", &json!({ "uri": "x://a" })).await;
    server.send(&result(&number, &json!({})));
    let (_, pending) = server.call(&other, "resources/subscribe", &json!({ "uri": "x://a" })).await;
    let unsubscribe = request("resources/unsubscribe", &json!({ "uri": "x://a" }));
    let exchange = server.mux.call_in_session(&unsubscribe, &one, true).await.expect("a call");
    assert_eq!(next_message(&mut exchange.into_reader().0).await["result"], json!({}));
    assert_eq!(try_recv(&mut server), None, "the server is not told to unsubscribe");
    server.send(&result(&pending, &json!({})));
    let mut stream = server.mux.read_stream(&other, None).expect("a stream");
    server.send(&notification("notifications/resources/updated", &json!({ "uri": "x://a" })));
    assert_eq!(next_message(&mut stream).await["method"], "notifications/resources/updated");
}

#[tokio::test]
async fn progress_of_a_call_never_goes_to_a_listener_with_the_same_token() {
    let mut server = Server::start(Era::Modern).await;
    let listen = json!({ "notifications": { "toolsListChanged": true }, "_meta": { "progressToken": 2 } });
    let (_listener, _) = server.call_stateless(&owner("a"), "subscriptions/listen", &listen).await;
    let params = json!({ "_meta": { "progressToken": "mine" } });
    let (mut call, number) = server.call_stateless(&owner("b"), "tools/call", &params).await;
    server.send(&notification("notifications/progress", &json!({ "progressToken": number, "progress": 1 })));
    assert_eq!(next_message(&mut call).await["params"]["progressToken"], "mine");
}

#[tokio::test]
async fn the_progress_token_of_a_subscriber_is_not_sent_upstream() {
    let server = Server::start(Era::Modern).await;
    let mut server = server;
    let listen = json!({ "notifications": {}, "_meta": { "progressToken": 7, "other": 1 } });
    let exchange = server
        .mux
        .call_stateless(&request("subscriptions/listen", &listen), None, true)
        .await
        .expect("a stream");
    let heard = try_recv(&mut server).expect("a request");
    assert_eq!(heard["params"]["_meta"], json!({ "other": 1 }));
    drop(exchange);
}

#[tokio::test]
async fn after_a_restart_a_request_of_a_server_with_two_owners_is_refused() {
    let mut server = Server::start(Era::Legacy).await;
    let (one, _) = (server.open("a", &owner("a")).await, server.open("b", &owner("b")).await);
    server.mux.disconnect("the server ended");
    let (lines, pipe) = mpsc::unbounded_channel();
    server.pipe = pipe;
    server.mux.connect(lines, Account::new());
    let mux = Arc::clone(&server.mux);
    let resumed = tokio::spawn(async move { mux.resume(LONG).await });
    let handshake = server.recv().await["id"].clone();
    server.send(&result(&handshake, &json!({ "protocolVersion": "2025-11-25" })));
    resumed.await.expect("no panic").expect("a process");
    // Only one of the sessions has a call in flight.
    let (mut stream, _) = server.call(&one, "tools/call", &json!({})).await;
    server.send(&sampling(7));
    let refused = try_recv_after_handshake(&mut server).expect("an answer");
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(7), &json!(-32601)));
    assert_eq!(step(&mut stream), None);
}

#[tokio::test]
async fn oversized_ids_and_tokens_are_rejected() {
    let (server, id) = session().await;
    let long = "x".repeat(MAX_ID_BYTES);
    let text = json!({ "jsonrpc": "2.0", "id": long, "method": "tools/call" }).to_string();
    assert!(crate::mcp::message::Message::parse(Bytes::from(text)).is_err());
    let call = request("tools/call", &json!({ "_meta": { "progressToken": long } }));
    let refused = server.mux.call_in_session(&call, &id, true).await.expect_err("too long");
    assert_eq!(refused.status, 400);
}
