//! Checks that a start succeeds when the server responds, in either era, and otherwise fails with the cause.

use std::{pin::pin, time::Duration};

use mcpm::{
    Environment, ErrorKind,
    auth::incoming::IncomingSpec,
    proxy::{ProxySpec, StdioProxy},
    stdio::LocalProcess,
};
use mcpm_tests::harness::{
    mcp::{Modern, Session},
    with_timeout,
};
use serde_json::json;
use tokio::time::timeout;

use crate::{legacy, modern, script};

const SERVER: &str = env!("CARGO_BIN_EXE_scripted-server");

#[tokio::test(flavor = "multi_thread")]
async fn era_detection_starts_a_session_server_once() {
    let mut bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    session.call(1, "echo", json!({})).await;
    let methods: Vec<_> =
        bridge.process.drain_received().await.into_iter().map(|message| message["method"].clone()).collect();
    assert_eq!(methods, ["server/discover", "initialize", "notifications/initialized", "tools/call"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_detected_era_is_cached() {
    let mut bridge = modern().await;
    let client = Modern(bridge.http);
    for id in 0..3 {
        client.request(id, "tools/list", json!({})).await;
    }
    let asked = bridge
        .process
        .drain_received()
        .await
        .iter()
        .filter(|message| message["method"] == "server/discover")
        .count();
    assert_eq!(asked, 1);
    bridge.crash(0).await;
    client.request(4, "tools/list", json!({})).await;
    let mut life = bridge.script.next_process().await;
    let seen = life.drain_received().await;
    assert!(seen.iter().all(|message| message["method"] == "tools/list"), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_exits_on_discovery_is_restarted_without_it() {
    let bridge = script().await.start(&["--exit-before-initialize"]).await;
    let mut life = bridge.script.next_process().await;
    let session = Session::open(bridge.http).await;
    assert_eq!(session.call(1, "echo", json!({})).await["id"], 1);
    assert_eq!(Modern(bridge.http).request(1, "tools/list", json!({})).await.status, 404);
    // The second process serves the first client: no third process is started.
    let seen: Vec<_> =
        life.drain_received().await.into_iter().map(|message| message["method"].clone()).collect();
    assert_eq!(seen, ["initialize", "notifications/initialized", "tools/call"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ignores_discovery_still_starts() {
    let bridge = script().await.start(&["--ignore-before-initialize"]).await;
    let session = Session::open(bridge.http).await;
    assert_eq!(session.call(1, "echo", json!({})).await["id"], 1);
    assert_eq!(Modern(bridge.http).request(1, "tools/list", json!({})).await.status, 404);
}

/// The test does not wait in real time: the runtime's clock jumps when no task can run.
#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_fails_the_start() {
    let process = LocalProcess::new(SERVER, ["--silent"]);
    let error = StdioProxy::new("silent", process).start(drop).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StartFailed);
    assert!(error.message().contains("did not respond to `initialize` within 60 s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_start_timeout_is_configurable() {
    for patience in [Duration::from_secs(3), Duration::from_secs(600)] {
        let process = LocalProcess::new(SERVER, ["--silent"]);
        let mut start = pin!(StdioProxy::new("silent", process).start_timeout(patience).start(drop));
        // Measured with the clock that jumps.
        let early = timeout(patience - Duration::from_secs(1), &mut start).await;
        assert!(early.is_err(), "it waits for as long as the caller says");
        // Another time limit on this clock would expire before the process has ended.
        let error = start.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StartFailed);
        assert!(error.message().contains(&format!("within {} s", patience.as_secs())), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_at_once_fails_the_start_with_its_exit_code() {
    for (code, flags) in [("3", vec!["exit", "3"]), ("0", vec!["exit", "0"])] {
        let process = LocalProcess::new(SERVER, flags);
        let start = StdioProxy::new("short", process).start(drop);
        let error = with_timeout("the start to fail", start).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StartFailed);
        assert!(error.message().contains(&format!("exited with code {code}")), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_not_there_fails_the_start_with_its_name() {
    let process = LocalProcess::new("/nonexistent/server", [""; 0]);
    let error =
        with_timeout("the start to fail", StdioProxy::new("none", process).start(drop)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StartFailed);
    assert!(error.to_string().contains("/nonexistent/server"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_start_releases_port_and_process() {
    let script = script().await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let failing = LocalProcess::new(SERVER, ["exit", "3"]);
    StdioProxy::new("short", failing).listen("127.0.0.1", port).start(drop).await.unwrap_err();
    let proxy = StdioProxy::new("scripted", script.process(&[])).listen("127.0.0.1", port);
    let bridge = script.serve(proxy).await;
    assert_eq!(bridge.http.0.port(), port);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stdio_proxy_requires_tokens_and_keeps_its_denials() {
    let folder = tempfile::tempdir().unwrap();
    let state_dir = folder.path().join("mcpm");
    let environment = Environment { state_dir, ..Environment::from_lookup(|_| None) };
    let incoming =
        IncomingSpec { jwks_url: Some("https://id.example/keys".to_owned()), ..IncomingSpec::default() };
    let spec = ProxySpec { incoming: Some(incoming), ..ProxySpec::default() };
    let script = script().await;
    let proxy = StdioProxy::new("guarded", script.process(&[])).spec(spec.clone());
    let bridge = script.serve(proxy.environment(environment.clone())).await;
    let response = bridge.http.post("/mcp", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).send().await;
    assert_eq!(response.status, 401);
    let id = response.headers.get("mcpm-refusal").unwrap();
    // As another process does.
    assert_eq!(mcpm::explain(id, &environment).unwrap().reason, "auth.token_missing");

    let unsaid =
        StdioProxy::new("wide", LocalProcess::new(SERVER, ["--silent"])).spec(spec).listen("0.0.0.0", 0);
    let error = with_timeout("the start to fail", unsaid.start(|_| {})).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption, "nothing says whom tokens are meant for: {error}");
}
