//! Runs tests of isolation with an engine that is reached over TCP. mcpm cannot share a socket with such an engine,
//! so all connections go over streams of the engine's API.

use std::{
    io,
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    sync::OnceLock,
    time::Duration,
};

use mcpm::workload::WorkloadEvent;
use rmcp::{ServiceExt as _, transport::StreamableHttpClientTransport};

use super::{
    egress,
    fixture::{HTTP, IsolationFixture, PYTHON, docker, start_and_collect_denials, tools},
    server,
};

/// Forwards a TCP address of this machine to the socket of the default engine, and returns the address.
pub(crate) fn engine() -> String {
    static ENGINE: OnceLock<String> = OnceLock::new();
    let begun = ENGINE.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("tcp://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || listener.incoming().flatten().for_each(forward));
        address
    });
    begun.clone()
}

fn forward(client: TcpStream) {
    let engine = UnixStream::connect("/var/run/docker.sock").unwrap();
    client.set_nodelay(true).unwrap();
    let (mut from, mut to) = (client.try_clone().unwrap(), engine.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let (mut from, mut to) = (engine, client);
    std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_enforced_over_the_api() {
    Box::pin(egress::profile_limits(IsolationFixture::with_remote_engine("far-limits"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_none_profile_has_no_network_over_the_api() {
    Box::pin(egress::none(IsolationFixture::with_remote_engine("far-none"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_unaware_program_is_relayed() {
    Box::pin(egress::proxy_unaware_program(IsolationFixture::with_remote_engine("far-node"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_speaks_http_is_reached_over_the_api() {
    Box::pin(server::http(IsolationFixture::with_remote_engine("far-http"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_are_handed_over_by_the_api_and_not_shown_by_it() {
    Box::pin(server::variables(IsolationFixture::with_remote_engine("far-env"))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_mounted_and_nothing_stays() {
    let place = IsolationFixture::with_remote_engine("far-volume");
    let (running, ..) = start_and_collect_denials(place.workload(PYTHON).isolate_network(true)).await;
    let mounts = docker(&[
        "inspect",
        "-f",
        "{{range .Mounts}}{{.Type}} {{.Name}} {{.Destination}}{{end}}",
        &place.name,
    ]);
    let volume = mounts.strip_prefix("volume ").unwrap().strip_suffix(" /.mcpm").unwrap().to_owned();
    assert!(!place.path("state/workloads").join(&place.name).join("link").exists());
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.remove().await;
    assert_eq!(docker(&["volume", "ls", "-q", "--filter", &format!("name={volume}")]), "");
}

/// Sends requests until one gets a response: requests in flight are lost when a stream breaks.
async fn wait_until_reachable(url: &str) {
    while ().serve(StreamableHttpClientTransport::from_uri(url)).await.is_err() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_is_replaced() {
    let place = IsolationFixture::with_remote_engine("far-again");
    let builder = place.workload(HTTP).set("permission-profile", "none").unwrap();
    let (running, ..) = start_and_collect_denials(builder).await;
    let mut events = running.events();
    let carries = |line: &&str| line.ends_with("/.mcpm/shim carry");
    for _ in 0..3 {
        wait_until_reachable(running.url()).await;
        let processes = docker(&["top", &place.name, "-o", "pid,args"]);
        let carrier = processes.lines().find(carries).unwrap_or_else(|| panic!("{processes}"));
        let pid = carrier.split_whitespace().next().unwrap().parse().unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    wait_until_reachable(running.url()).await;
    assert!(tools(running.url()).await > 0);
    running.stop(Duration::from_secs(5)).await.unwrap();
    // The server itself was never restarted.
    while let Some(event) = events.next().await {
        assert!(!matches!(event, WorkloadEvent::Recovered {}), "{event:?}");
    }
    place.remove().await;
}
