//! Tests of timeouts that are too long for a test with a real server, and of nested batches.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;

use super::{Multiplexer, MuxLimits};
use crate::{
    mcp::message::Message,
    memory::Account,
    stdio::{
        handshake::Initialize,
        replay_stream::StreamItem,
        session::{Session, SessionId},
    },
    testing::with_timeout,
};

fn message(text: &'static str) -> Message {
    Message::parse(Bytes::from_static(text.as_bytes())).expect("a message")
}

#[tokio::test]
async fn a_call_that_times_out_is_answered_also_on_a_stream_that_others_use() {
    let mux = Multiplexer::new(MuxLimits { call_idle_timeout: Duration::ZERO, ..MuxLimits::default() });
    let (lines, mut pipe) = mpsc::unbounded_channel();
    mux.connect(lines, Account::new());
    let id = SessionId::from_client("s");
    let session = Session::new(None, true, Account::new(), Instant::now());
    let mut reader = session.standalone.attach_reader(None);
    let asked = message(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{}}}"#,
    );
    let asked = Initialize::read(asked).expect("an initialize");
    let server = async {
        with_timeout(pipe.recv()).await.expect("the handshake");
        mux.handle_line(Bytes::from_static(
            br#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05"}}"#,
        ));
    };
    let handshake = mux.start_handshake(&asked, None);
    let both = async { tokio::join!(mux.finish_handshake(handshake, &asked, &id, session), server) };
    let (opened, ()) = with_timeout(both).await;
    opened.expect("a session");
    let call = message(r#"{"jsonrpc":"2.0","id":"c","method":"x"}"#);
    with_timeout(mux.call_in_session(&call, &id, true)).await.expect("a call");
    mux.sweep(Instant::now() + Duration::from_secs(1));
    let StreamItem::Message { bytes, .. } = with_timeout(reader.next()).await else { panic!("no message") };
    let error = r#"{"code":-32603,"message":"the server did not respond in time"}"#;
    assert_eq!(bytes, format!(r#"{{"jsonrpc":"2.0","id":"c","error":{error}}}"#));
}

#[tokio::test]
async fn batches_are_read_but_not_nested_ones() {
    let mux = Multiplexer::new(MuxLimits { call_idle_timeout: Duration::ZERO, ..MuxLimits::default() });
    let (lines, mut pipe) = mpsc::unbounded_channel();
    mux.connect(lines, Account::new());
    let line = |text: &str| mux.handle_line(Bytes::copy_from_slice(text.as_bytes()));
    line(&format!("{}{}", "[".repeat(200_000), "]".repeat(200_000)));
    line(r#"[[{"jsonrpc":"2.0","id":1,"method":"ping"}],7,{"jsonrpc":"2.0","id":2,"method":"ping"}]"#);
    let answer = with_timeout(pipe.recv()).await.expect("an answer");
    assert!(format!("{answer:?}").contains(r#"\"id\":2"#), "{answer:?}");
    assert!(pipe.try_recv().is_err());
}
