//! Checks that a proxy which stops ends each server process in the steps that the specification requires.

use std::time::Duration;

use mcpm_tests::harness::{
    mcp::{LEGACY, Session},
    with_timeout,
};
use serde_json::json;

use crate::{legacy, script};

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_closes_the_input_first_and_the_server_ends_by_itself() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let apart = Session::with(bridge.http, LEGACY, json!({ "roots": {} })).await;
    let mut second = bridge.script.next_process().await;
    session.call(1, "echo", json!({})).await;
    apart.call(1, "echo", json!({})).await;
    with_timeout("the stop", bridge.running.stop(Duration::from_secs(20))).await;
    for life in [&mut bridge.process, &mut second] {
        assert_eq!(life.ended().await.last().map(String::as_str), Some("! end of input"));
    }
    assert!(!bridge.running.proxy().is_running());
    assert!(tokio::net::TcpStream::connect(bridge.http.0).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_outlives_its_input_is_told_to_end() {
    let mut bridge = script().await.start(&["--outlive-input"]).await;
    with_timeout("the stop", bridge.running.stop(Duration::from_secs(1))).await;
    bridge.process.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_in_flight_is_answered_when_the_proxy_stops() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let calling = session.clone();
    let call = tokio::spawn(async move {
        let response = calling.request(1, "tools/call", json!({ "name": "silent" })).await;
        (response.status, response.answer().await)
    });
    bridge.process.received("tools/call").await;
    with_timeout("the stop", bridge.running.stop(Duration::ZERO)).await;
    let (status, answer) = with_timeout("an answer", call).await.unwrap();
    assert_eq!((status, &answer["id"], &answer["error"]["code"]), (502, &json!(1), &json!(-32603)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_proxy_leaves_no_process() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let stream = session.listen().await;
    drop(bridge.running);
    bridge.process.ended().await;
    drop(stream);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_idle_streams() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let mut stream = session.listen().await;
    with_timeout("the stop", bridge.running.stop(Duration::from_secs(20))).await;
    // The stream ended properly; a stream that outlasts the stop is aborted.
    assert!(stream.bytes().await.is_ok());
}
