//! Tests of the recipients of server messages, with authenticated callers.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Multiplexer, MuxLimits, PendingResponse};
use crate::{
    mcp::{era::Era, message::Message},
    memory::Account,
    stdio::{
        handshake::Initialize,
        owner::Owner,
        replay_stream::{MessageReader, StreamItem},
        session::{Session, SessionId},
    },
    testing::{TEST_TIMEOUT, with_timeout},
};

/// A simulated server process, whose messages the test sends.
pub(super) struct Server {
    pub(super) mux: Arc<Multiplexer>,
    pub(super) pipe: mpsc::UnboundedReceiver<Bytes>,
}

impl Server {
    pub(super) async fn start(era: Era) -> Self {
        Self::start_with_limits(era, MuxLimits::default()).await
    }

    pub(super) async fn start_with_limits(era: Era, limits: MuxLimits) -> Self {
        let mux = Multiplexer::new(limits);
        mux.reset_for_era(era);
        let (lines, pipe) = mpsc::unbounded_channel();
        mux.connect(lines, Account::new());
        mux.resume(TEST_TIMEOUT).await.expect("a process");
        Self { mux, pipe }
    }

    /// Returns the next message to the server.
    pub(super) async fn recv(&mut self) -> Value {
        serde_json::from_slice(&with_timeout(self.pipe.recv()).await.expect("a line")).expect("JSON")
    }

    pub(super) fn send(&self, message: &Value) {
        self.mux.handle_line(message.to_string().into());
    }

    /// Opens a session of an owner.
    pub(super) async fn open(&mut self, name: &str, owner: &Owner) -> SessionId {
        let id = SessionId::from_client(name);
        let asked = message(&json!({
            "jsonrpc": "2.0", "id": 0, "method": "initialize",
            "params": { "protocolVersion": "2025-11-25", "capabilities": { "sampling": {} } },
        }));
        let asked = Initialize::read(asked).expect("an initialize");
        let session = Session::new(Some(owner.clone()), false, Account::new(), Instant::now());
        let mux = Arc::clone(&self.mux);
        let told = mux.lock().handshake.is_some();
        let answers = async {
            if !told {
                let id = self.recv().await["id"].clone();
                self.send(
                    &json!({ "jsonrpc": "2.0", "id": id, "result": { "protocolVersion": "2025-11-25" } }),
                );
            }
        };
        let handshake = if told { mux.lease_completed() } else { mux.start_handshake(&asked, Some(owner)) };
        let both = async { tokio::join!(mux.finish_handshake(handshake, &asked, &id, session), answers) };
        let (opened, ()) = with_timeout(both).await;
        opened.expect("a session").session.expect("a session")
    }

    /// Calls in a session; returns the call, and its id at the server.
    pub(super) async fn call(
        &mut self,
        session: &SessionId,
        method: &str,
        params: &Value,
    ) -> (MessageReader, Value) {
        let call = request(method, params);
        let exchange = with_timeout(self.mux.call_in_session(&call, session, true)).await.expect("a call");
        self.recv_request(exchange).await
    }

    /// Calls without a session.
    pub(super) async fn call_stateless(
        &mut self,
        owner: &Owner,
        method: &str,
        params: &Value,
    ) -> (MessageReader, Value) {
        let mux = Arc::clone(&self.mux);
        let call = request(method, params);
        let mut exchange = with_timeout(mux.call_stateless(&call, Some(owner), true)).await.expect("a call");
        // The test's client stays connected.
        std::mem::forget(exchange.guard.take());
        self.recv_request(exchange).await
    }

    async fn recv_request(&mut self, exchange: PendingResponse) -> (MessageReader, Value) {
        let (reader, _) = exchange.into_reader();
        loop {
            let heard = self.recv().await;
            if heard["method"] != "notifications/initialized" {
                return (reader, heard["id"].clone());
            }
        }
    }
}

pub(super) fn message(text: &Value) -> Message {
    Message::parse(text.to_string().into()).expect("a message")
}

pub(super) fn request(method: &str, params: &Value) -> Message {
    message(&json!({ "jsonrpc": "2.0", "id": "c", "method": method, "params": params }))
}

pub(super) fn result(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

pub(super) fn owner(name: &str) -> Owner {
    Owner::new("https://id.example", name, "client")
}

pub(super) async fn next_message(reader: &mut MessageReader) -> Value {
    let StreamItem::Message { bytes, .. } = with_timeout(reader.next()).await else { panic!("no message") };
    serde_json::from_slice(&bytes).expect("JSON")
}

#[tokio::test]
async fn unsolicited_messages_are_dropped_once_two_owners_used_the_process() {
    let mut server = Server::start(Era::Legacy).await;
    let session = server.open("a", &owner("a")).await;
    let (mut stream, call) = server.call(&session, "tools/call", &json!({})).await;
    let log = |data: &str| json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": data } });
    let ask = json!({ "jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage", "params": {} });
    server.send(&log("of a"));
    assert_eq!(next_message(&mut stream).await, log("of a"));
    server.send(&ask);
    assert_eq!(next_message(&mut stream).await["method"], "sampling/createMessage");
    // Another client opens a session, calls and closes it; a later message may be about that call.
    let other = server.open("b", &owner("b")).await;
    let (_, others) = server.call(&other, "tools/call", &json!({})).await;
    server.send(&result(&others, &json!({})));
    server.mux.close_session(&other).expect("a session");
    server.send(&log("of b"));
    server.send(&ask);
    let refused = server.recv().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(7), &json!(-32601)));
    server.send(&result(&call, &json!({ "of": "a" })));
    assert_eq!(next_message(&mut stream).await, result(&json!("c"), &json!({ "of": "a" })));
}

#[tokio::test]
async fn stateless_logs_are_dropped_once_two_owners_used_the_process() {
    let mut server = Server::start(Era::Modern).await;
    let wants = json!({ "_meta": { "io.modelcontextprotocol/logLevel": "debug" } });
    let (mut stream, call) = server.call_stateless(&owner("a"), "tools/call", &wants).await;
    let log = |data: &str| json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "level": "info", "data": data } });
    server.send(&log("of a"));
    assert_eq!(next_message(&mut stream).await, log("of a"));
    let (mut others, other) = server.call_stateless(&owner("b"), "tools/call", &json!({})).await;
    server.send(&log("of b, under way"));
    server.send(&result(&other, &json!({})));
    assert_eq!(next_message(&mut others).await["id"], "c");
    server.send(&log("of b, over"));
    server.send(&result(&call, &json!({ "of": "a" })));
    assert_eq!(next_message(&mut stream).await, result(&json!("c"), &json!({ "of": "a" })));
}

/// Turns a call into a task.
async fn start_task(server: &mut Server, owner: &Owner, id: &str) {
    let (mut stream, call) = server.call_stateless(owner, "tools/call", &json!({})).await;
    server.send(&result(&call, &json!({ "resultType": "task", "taskId": id })));
    next_message(&mut stream).await;
}

#[tokio::test]
async fn a_task_of_another_owner_is_not_found() {
    let mut server = Server::start(Era::Modern).await;
    let (own, other) = (owner("a"), owner("b"));
    start_task(&mut server, &own, "of-a").await;
    start_task(&mut server, &other, "of-b").await;
    for method in ["tasks/get", "tasks/result", "tasks/update", "tasks/cancel", "tasks/other"] {
        let (mut stream, call) = server.call_stateless(&own, method, &json!({ "taskId": "of-a" })).await;
        server.send(&result(&call, &json!({ "taskId": "of-a" })));
        assert_eq!(next_message(&mut stream).await["result"]["taskId"], "of-a", "{method}");
        let mux = Arc::clone(&server.mux);
        let mut answers = Vec::new();
        for params in [
            r#"{"taskId":"of-b"}"#,
            r#"{"taskId":"never"}"#,
            r#"{"taskId":"of-a","taskId":"of-b"}"#,
            r#"{"taskId":"of-a","taskid":"of-b"}"#,
            r#"{}"#,
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":"c","method":"{method}","params":{params}}}"#);
            let asked = Message::parse(text.into()).expect("a message");
            let exchange = with_timeout(mux.call_stateless(&asked, Some(&own), true)).await.expect("a call");
            answers.push(next_message(&mut exchange.into_reader().0).await);
        }
        assert_eq!(answers[0]["error"]["code"], -32602, "{method}");
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        assert!(server.pipe.is_empty(), "nothing of it reached the server");
    }
    // Without authentication, tasks have no owners.
    let asked = request("tasks/get", &json!({ "taskId": "of-b" }));
    let mux = Arc::clone(&server.mux);
    let exchange = with_timeout(mux.call_stateless(&asked, None, true)).await.expect("a call");
    assert_eq!(server.recv().await["method"], "tasks/get");
    drop(exchange);
}

#[tokio::test]
async fn a_task_list_is_filtered_by_owner() {
    let mut server = Server::start(Era::Legacy).await;
    let (own, other) = (owner("a"), owner("b"));
    let (mine, others) = (server.open("a", &own).await, server.open("b", &other).await);
    for (session, id) in [(&mine, "1"), (&others, "2"), (&mine, "3")] {
        let (mut stream, call) = server.call(session, "tools/call", &json!({ "task": {} })).await;
        server.send(&result(&call, &json!({ "task": { "taskId": id, "status": "working" } })));
        next_message(&mut stream).await;
    }
    let asked = async |server: &mut Server, session: &SessionId, list: &str| {
        let (mut stream, call) = server.call(session, "tasks/list", &json!({})).await;
        let line = format!(r#"{{"jsonrpc":"2.0","id":{call},"result":{list}}}"#);
        server.mux.handle_line(line.into());
        let StreamItem::Message { bytes, .. } = with_timeout(stream.next()).await else {
            panic!("no message")
        };
        String::from_utf8(bytes.to_vec()).expect("text")
    };
    let list = r#"{ "nextCursor": "x", "tasks": [{"taskId":"1", "n": 1.0}, {"taskId":"2"},{"taskId":"3"}, {"taskId":"4"}, 7], "y":1}"#;
    let answer = asked(&mut server, &mine, list).await;
    let expected = r#"{ "nextCursor": "x", "tasks": [{"taskId":"1", "n": 1.0},{"taskId":"3"}], "y":1}"#;
    assert_eq!(answer, format!(r#"{{"jsonrpc":"2.0","id":"c","result":{expected}}}"#));
    let answer = asked(&mut server, &others, list).await;
    assert!(answer.contains(r#""tasks": [{"taskId":"2"}]"#), "{answer}");
    for unread in [r#"{"tasks":[],"tasks":[{"taskId":"2"}]}"#, r#"{"tasks":{"taskId":"2"}}"#] {
        let answer = asked(&mut server, &mine, unread).await;
        assert!(answer.contains("-32603"), "{answer}");
    }
}

#[tokio::test]
async fn subscriptions_of_one_client_are_bounded() {
    let mut server = Server::start(Era::Legacy).await;
    let session = server.open("a", &owner("a")).await;
    let mux = Arc::clone(&server.mux);
    let subscribe = async |uri: String| {
        let call = request("resources/subscribe", &json!({ "uri": uri }));
        with_timeout(mux.call_in_session(&call, &session, true)).await
    };
    for number in 0..1000 {
        subscribe(format!("a://{number}")).await.expect("room");
    }
    // The same limit applies before the server has responded.
    assert_eq!(subscribe("a://1000".to_owned()).await.expect_err("no room").status, 429);
    let mut calls = Vec::new();
    while calls.len() < 1000 {
        let heard = server.recv().await;
        if heard["method"] == "resources/subscribe" {
            calls.push(heard["id"].clone());
        }
    }
    calls.iter().for_each(|call| server.send(&result(call, &json!({}))));
    assert_eq!(subscribe("a://1000".to_owned()).await.expect_err("no room").status, 429);
    subscribe("a://0".to_owned()).await.expect("it is there already");
    let other = server.open("b", &owner("a")).await;
    let long = format!("a://{}", "b".repeat(300 << 10));
    let long = request("resources/subscribe", &json!({ "uri": long }));
    let call = with_timeout(server.mux.call_in_session(&long, &other, true)).await;
    assert_eq!(call.expect_err("too long").status, 429);
}

#[tokio::test]
async fn listen_resources_of_one_caller_are_bounded() {
    let server = Server::start(Era::Modern).await;
    let listen = async |name: &str, from: usize| {
        let uris: Vec<String> = (from..from + 600).map(|number| format!("a://{number}")).collect();
        let wanted = json!({ "notifications": { "resourceSubscriptions": uris } });
        let call = request("subscriptions/listen", &wanted);
        with_timeout(server.mux.call_stateless(&call, Some(&owner(name)), true)).await
    };
    let first = listen("a", 0).await.expect("room");
    assert_eq!(listen("a", 600).await.expect_err("no room").status, 429);
    let _other = listen("b", 600).await.expect("room");
    drop(first);
    let _again = listen("a", 600).await.expect("room again");
}

#[tokio::test]
async fn one_caller_does_not_keep_others_from_calling() {
    let server =
        Server::start_with_limits(Era::Modern, MuxLimits { max_calls: 16, ..MuxLimits::default() }).await;
    let mut calls = Vec::new();
    let mut fill = async |name: &str| {
        let before = calls.len();
        let call = request("tools/call", &json!({}));
        while let Ok(exchange) =
            with_timeout(server.mux.call_stateless(&call, Some(&owner(name)), true)).await
        {
            calls.push(exchange);
            assert!(calls.len() <= 16, "there is no limit");
        }
        calls.len() - before
    };
    assert_eq!(fill("a").await, 9);
    assert!(fill("b").await > 0 && fill("c").await > 0);
    assert!(calls.len() < 16);
}
