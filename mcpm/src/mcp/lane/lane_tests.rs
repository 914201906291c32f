//! What no test with a real server can wait for: limits of time.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::{Lane, Limits};
use crate::{
    mcp::{
        handshake::Initialize,
        message::Message,
        outlet::Item,
        session::{Session, SessionId},
    },
    memory::Account,
    testing::within,
};

fn message(text: &'static str) -> Message {
    Message::parse(Bytes::from_static(text.as_bytes())).expect("a message")
}

#[tokio::test]
async fn a_call_that_times_out_is_answered_also_on_a_stream_that_others_use() {
    let lane = Lane::new(Limits { idle: Duration::ZERO, ..Limits::default() });
    let (lines, mut pipe) = mpsc::unbounded_channel();
    lane.connect(lines, Account::new());
    let id = SessionId::presented("s");
    let session = Session::new(None, true, Account::new(), Instant::now());
    let mut reader = session.standalone.read(None);
    let asked = message(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{}}}"#,
    );
    let asked = Initialize::read(asked).expect("an initialize");
    let server = async {
        within(pipe.recv()).await.expect("the handshake");
        lane.take_line(Bytes::from_static(
            br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05"}}"#,
        ));
    };
    let handshake = lane.greet(&asked, None);
    let both = async { tokio::join!(lane.let_in(handshake, &asked, &id, session), server) };
    let (opened, ()) = within(both).await;
    opened.expect("a session");
    let call = message(r#"{"jsonrpc":"2.0","id":"c","method":"x"}"#);
    within(lane.call_in_session(&call, &id, true)).await.expect("a call");
    lane.sweep(Instant::now() + Duration::from_secs(1));
    let Item::Message { bytes, .. } = within(reader.next()).await else { panic!("no message") };
    let expected =
        r#"{"jsonrpc":"2.0","id":"c","error":{"code":-32603,"message":"the server did not answer in time"}}"#;
    assert_eq!(bytes, expected);
}

#[tokio::test]
async fn messages_stand_in_one_array_and_in_none_within() {
    let lane = Lane::new(Limits { idle: Duration::ZERO, ..Limits::default() });
    let (lines, mut pipe) = mpsc::unbounded_channel();
    lane.connect(lines, Account::new());
    let line = |text: &str| lane.take_line(Bytes::copy_from_slice(text.as_bytes()));
    line(&format!("{}{}", "[".repeat(200_000), "]".repeat(200_000)));
    line(r#"[[{"jsonrpc":"2.0","id":1,"method":"ping"}],7,{"jsonrpc":"2.0","id":2,"method":"ping"}]"#);
    let answer = within(pipe.recv()).await.expect("an answer");
    assert!(format!("{answer:?}").contains(r#"\"id\":2"#), "{answer:?}");
    assert!(pipe.try_recv().is_err());
}
