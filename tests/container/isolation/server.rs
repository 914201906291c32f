//! Tests isolated servers: incoming connections, variables, limits, and recorded profiles.

use std::{net::TcpListener, time::Duration};

use mcpm::workload::WorkloadEvent;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::fixture::{
    HTTP, IsolationFixture, PYTHON, docker, host_name_and_address, start_and_collect_denials, tools,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_speaks_http_is_reached_without_a_network_and_after_a_restart() {
    Box::pin(http(IsolationFixture::new("http"))).await;
}

pub(crate) async fn http(place: IsolationFixture) {
    let builder = place.workload(HTTP).set("permission-profile", "none").unwrap();
    let workload = builder.build().unwrap();
    let mut events = workload.events();
    let running = workload.start().await.unwrap();
    let mode = docker(&[
        "inspect",
        "-f",
        "{{.HostConfig.NetworkMode}} {{json .NetworkSettings.Ports}}",
        &place.name,
    ]);
    assert_eq!(mode, "none {}");
    assert!(tools(running.url()).await > 0);
    docker(&["kill", &place.name]);
    while !matches!(events.next().await.unwrap(), WorkloadEvent::Recovered {}) {}
    assert!(tools(running.url()).await > 0);
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_of_an_isolated_server_are_not_in_the_engine() {
    Box::pin(variables(IsolationFixture::new("env"))).await;
}

pub(crate) async fn variables(place: IsolationFixture) {
    let check = "test \"$CANARY\" = feathers-0815 && exec mcp-server-time";
    let mut builder = place.workload(PYTHON).isolate_network(true);
    for (option, value) in [("env", "CANARY=feathers-0815"), ("args", "sh"), ("args", "-c"), ("args", check)]
    {
        builder = builder.set(option, value).unwrap();
    }
    let (running, ..) = start_and_collect_denials(builder).await;
    let described = docker(&["inspect", &place.name]);
    // mcpm passes on the command, too.
    assert!(!described.contains("feathers-0815") && !described.contains("CANARY"), "{described}");
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_profile_allows_exactly_what_was_used() {
    Box::pin(recorded_profile(IsolationFixture::new("learn"))).await;
}

pub(crate) async fn recorded_profile(place: IsolationFixture) {
    let (name, address) = host_name_and_address();
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let attempts = json!([["proxied", format!("http://{name}:{port}/")]]);
    let learnt = place.path("learnt.json");
    let builder = place.probe_workload(&attempts).set("learn", learnt.to_str().unwrap()).unwrap();
    let (running, refused, _) = start_and_collect_denials(builder).await;
    // Even then this machine cannot be reached, so the rule was not used.
    assert_eq!(refused.len(), 1, "{refused:?}");
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.remove().await;
    let profile = mcpm::permission::Profile::read(&learnt).unwrap();
    assert!(profile.outbound.is_nothing(), "{profile:?}");
    let targets: Vec<_> = profile.mounts.iter().map(|mount| mount.target.clone().unwrap()).collect();
    assert_eq!(targets, ["/probe", "/out"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_bounds_memory_processes_and_what_can_be_written() {
    let place = IsolationFixture::new("bounds");
    let profile = json!({
        "network": {"outbound": {"insecure_allow_all": true}},
        "resources": {"memory": "256m", "cpus": 0.5, "pids": 77},
        "read_only_root": true,
        "tmpfs": ["/scratch:1m"],
    });
    let script = "! touch /here && touch /scratch/there && exec mcp-server-time";
    let mut builder = place.workload(PYTHON);
    for (option, value) in [
        ("permission-profile", place.profile(&profile).as_str()),
        ("args", "sh"),
        ("args", "-c"),
        ("args", script),
    ] {
        builder = builder.set(option, value).unwrap();
    }
    let (running, ..) = start_and_collect_denials(builder).await;
    let found = docker(&["inspect", "-f", "{{json .HostConfig}}", &place.name]);
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["Memory"], 256 * 1024 * 1024);
    assert_eq!(found["NanoCpus"], 500_000_000);
    assert_eq!((&found["PidsLimit"], &found["ReadonlyRootfs"]), (&json!(77), &json!(true)));
    assert_eq!(found["OomScoreAdj"], 500);
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_that_fails_leaves_no_container() {
    let place = IsolationFixture::new("failing");
    let name = place.name.clone();
    let (started_it, was_started) = tokio::sync::oneshot::channel();
    let failing = tokio::spawn(async move {
        let (_running, ..) =
            Box::pin(start_and_collect_denials(place.workload(PYTHON).isolate_network(true))).await;
        let there = docker(&["ps", "-aq", "--filter", &format!("name={}", place.name)]);
        started_it.send(there).unwrap();
        panic!("this failure is meant");
    });
    assert_ne!(was_started.await.unwrap(), "");
    assert!(failing.await.unwrap_err().is_panic());
    assert_eq!(docker(&["ps", "-aq", "--filter", &format!("name={name}")]), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lookup_without_a_connection_is_recorded_and_reported() {
    Box::pin(recorded_lookup(IsolationFixture::new("lookup"))).await;
}

pub(crate) async fn recorded_lookup(place: IsolationFixture) {
    let learnt = place.path("learnt.json");
    let attempts = json!([["lookup", "a.example"], ["lookup", "b.example"], ["lookup", "a.example"]]);
    let builder = place.probe_workload(&attempts).set("learn", learnt.to_str().unwrap()).unwrap();
    let (running, refused, _) = start_and_collect_denials(builder).await;
    assert!(refused.is_empty(), "{refused:?}");
    let mut events = running.events();
    running.stop(Duration::from_secs(5)).await.unwrap();
    let mut warnings = Vec::new();
    while let Some(event) = events.next().await {
        if let WorkloadEvent::Warning { message } = event {
            warnings.push(message);
        }
    }
    let told =
        |message: &String| message.contains("looked up `a.example`, `b.example` and connected to none");
    assert!(warnings.iter().any(told), "{warnings:?}");
    let profile = mcpm::permission::Profile::read(&learnt).unwrap();
    let rules: Vec<String> = profile.outbound.allow_host.iter().map(ToString::to_string).collect();
    assert_eq!(rules, ["a.example", "b.example"]);
    place.remove().await;
}

/// Responds to MCP requests and to GET, and holds any other POST request until its client is gone.
const CONNECTION_HOLDER: &str = r#"
import asyncio, json, re

async def serve(reader, writer):
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        size = re.search(rb"(?i)content-length: *(\d+)", head)
        body = json.loads(await reader.readexactly(int(size[1]))) if head.startswith(b"POST") else None
        if body is not None and "id" in body:
            result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
            answer = json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": result}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)
            await writer.drain()
        elif body is not None:
            await reader.read(-1)
        else:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
    finally:
        writer.close()

async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 8000, backlog=1000)
    await server.serve_forever()

asyncio.run(main())
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_reachable_again_after_exhausting_connections() {
    Box::pin(all_connections_busy(IsolationFixture::new("many"))).await;
}

pub(crate) async fn all_connections_busy(place: IsolationFixture) {
    let mut builder = place.workload(PYTHON).set("permission-profile", "none").unwrap();
    for (option, value) in [
        ("transport", "streamable-http"),
        ("target-port", "8000"),
        ("args", "python3"),
        ("args", "-c"),
        ("args", CONNECTION_HOLDER),
    ] {
        builder = builder.set(option, value).unwrap();
    }
    let (running, ..) = start_and_collect_denials(builder).await;
    let place_of_proxy =
        running.url().strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().to_owned();
    let held = format!(
        "POST /mcp HTTP/1.1\r\nHost: {place_of_proxy}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: 2\r\n\r\n{{}}"
    );
    // More connections than the container accepts: when one is rejected, all others exist.
    let (answered, mut answers) = tokio::sync::mpsc::channel(1);
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..450 {
        let (place_of_proxy, held, answered) = (place_of_proxy.clone(), held.clone(), answered.clone());
        clients.spawn(async move {
            let mut client = TcpStream::connect(place_of_proxy).await.unwrap();
            client.write_all(held.as_bytes()).await.unwrap();
            let mut answer = [0; 12];
            client.read_exact(&mut answer).await.unwrap();
            let _ = answered.send(answer).await;
        });
    }
    let answer = answers.recv().await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 50"), "{}", String::from_utf8_lossy(&answer));
    clients.shutdown().await;
    let asked = format!(
        "GET /mcp HTTP/1.1\r\nHost: {place_of_proxy}\r\nAccept: text/event-stream\r\nConnection: close\r\n\r\n"
    );
    loop {
        // Waits until the held requests are gone.
        let mut client = TcpStream::connect(&place_of_proxy).await.unwrap();
        client.write_all(asked.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        if answer.starts_with("HTTP/1.1 404") {
            break;
        }
        assert!(answer.starts_with("HTTP/1.1 50"), "{answer}");
    }
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.remove().await;
}
