//! The end of a proxy is the end of its processes, in the order the protocol asks for (requirement B15).

use std::time::Duration;

use mcpm_tests::harness::{mcp::Session, within};

use crate::{legacy, script};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_outlives_its_input_is_told_to_end() {
    let mut bridge = script().await.start(&["--outlive-input"]).await;
    within("the stop", bridge.running.stop(Duration::from_secs(1))).await;
    bridge.life.ended().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_proxy_leaves_no_process() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let stream = session.listen().await;
    drop(bridge.running);
    bridge.life.ended().await;
    drop(stream);
}
