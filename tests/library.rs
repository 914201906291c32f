//! A Rust program that runs a workload in its own process, used by a client that no one here wrote.

use std::{net::TcpStream, process::Command};

use mcpm::{Environment, Workload, workload::WorkloadEvent};
use rmcp::{ServiceExt as _, model::CallToolRequestParams, transport::StreamableHttpClientTransport};

const IMAGE: &str = "mcpm-test/everything:1";

fn environment(state: &tempfile::TempDir) -> Environment {
    Environment { state_dir: state.path().to_owned(), ..Environment::from_process() }
}

fn name(what: &str) -> String {
    format!("lib-{}-{what}", std::process::id())
}

fn container_runs(name: &str) -> bool {
    let asked =
        Command::new("docker").args(["ps", "--quiet", "--filter", &format!("name=^{name}$")]).output();
    asked.is_ok_and(|asked| !asked.stdout.is_empty())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rust_program_runs_an_image_and_the_published_rust_client_uses_it() {
    let state = tempfile::tempdir().unwrap();
    let workload =
        Workload::builder(IMAGE).name(name("rmcp")).environment(environment(&state)).build().unwrap();
    let mut events = workload.events();
    let running = workload.start().await.unwrap();
    let client = ().serve(StreamableHttpClientTransport::from_uri(running.url())).await.unwrap();
    let tools = client.list_all_tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "test_simple_text"), "{tools:?}");
    let result = client.call_tool(CallToolRequestParams::new("test_simple_text")).await.unwrap();
    let text = serde_json::to_string(&result).unwrap();
    assert!(text.contains("This is a simple text response for testing."), "{text}");
    client.cancel().await.unwrap();
    loop {
        match events.next().await.unwrap() {
            WorkloadEvent::Ready { url, .. } => break assert_eq!(url, running.url()),
            WorkloadEvent::Ended { reason, .. } => panic!("{reason}"),
            _ => {}
        }
    }
    running.stop(std::time::Duration::from_secs(5)).await.unwrap();
    mcpm::workload::Workloads::new(environment(&state))
        .remove(&name("rmcp"), std::time::Duration::ZERO)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_handle_ends_the_workload() {
    let state = tempfile::tempdir().unwrap();
    let name = name("drop");
    let workload = Workload::builder(IMAGE).name(&name).environment(environment(&state)).build().unwrap();
    let running = workload.start().await.unwrap();
    let port = running.url().rsplit(':').next().unwrap().trim_end_matches("/mcp").parse::<u16>().unwrap();
    assert!(container_runs(&name));
    drop(running);
    assert!(!container_runs(&name));
    // The listener is a task of its own, which closes it when it sees the stop.
    let closed = async {
        while TcpStream::connect(("127.0.0.1", port)).is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), closed).await.unwrap();
    mcpm::workload::Workloads::new(environment(&state))
        .remove(&name, std::time::Duration::ZERO)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_nobody_waits_for_is_undone() {
    let state = tempfile::tempdir().unwrap();
    let name = name("undone");
    let builder = Workload::builder("mcpm-test/silent:1").name(&name).environment(environment(&state));
    let workload = builder.build().unwrap();
    let mut events = workload.events();
    let starting = tokio::spawn(workload.start());
    while !matches!(events.next().await, Some(WorkloadEvent::Starting { .. }) | None) {}
    while !container_runs(&name) {
        tokio::task::yield_now().await;
    }
    starting.abort();
    assert!(starting.await.unwrap_err().is_cancelled());
    assert!(!container_runs(&name));
    assert_eq!(mcpm::workload::Workloads::new(environment(&state)).list().await.unwrap().len(), 0);
}
