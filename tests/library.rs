//! Tests a Rust program that runs a workload in its own process, with a published client of that workload.

use std::{
    env,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use futures_util::StreamExt as _;
use mcpm::{
    Environment, Workload, WorkloadBuilder,
    options::Transport,
    runtime::LogStream,
    state::{Phase, WorkloadState},
    stdio::RestartPolicy,
    workload::{Launch, WorkloadEvent, Workloads},
};
use mcpm_tests::harness::{poll, terminal::PseudoTerminal};
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
    running.stop(Duration::from_secs(5)).await.unwrap();
    Workloads::new(environment(&state)).remove(&name("rmcp"), Duration::ZERO).await.unwrap();
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
    // The listener is a separate task, which closes when it sees the stop signal.
    poll::wait_for_async("the listener to close", async || TcpStream::connect(("127.0.0.1", port)).err())
        .await;
    Workloads::new(environment(&state)).remove(&name, Duration::ZERO).await.unwrap();
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
    poll::wait_for_async("the container to run", async || container_runs(&name).then_some(())).await;
    starting.abort();
    assert!(starting.await.unwrap_err().is_cancelled());
    assert!(!container_runs(&name));
    assert_eq!(Workloads::new(environment(&state)).list().await.unwrap().len(), 0);
}

/// A server that writes a log line first.
fn chatty_workload(name: &str, state: &tempfile::TempDir) -> WorkloadBuilder {
    let script = format!("echo one; echo two >&2; exec python3 -c '{}'", mcpm_tests::PYTHON_HTTP_SERVER);
    let builder = Workload::builder("mcpm-test/python:1").name(name).environment(environment(state));
    let builder = builder.transport(Transport::StreamableHttp).target_port(3000_u16);
    builder.args("sh").args("-c").args(script)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_tells_its_status_its_logs_and_how_its_server_ended() {
    let state = tempfile::tempdir().unwrap();
    let name = name("told");
    let spec = chatty_workload(&name, &state).build().unwrap().resolve().await.unwrap();
    let running = Box::pin(Launch::new(spec, environment(&state)).restarts(RestartPolicy::NEVER).start())
        .await
        .unwrap();
    let status = running.status();
    assert_eq!((status.phase, status.url.as_deref()), (Phase::Running, Some(running.url())));
    // The lines come from a process of the engine, and may be late.
    let mut logs = running.logs(true, None).await.unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    while (&out[..], err.starts_with(b"two\n")) != (b"one\n", true) {
        let chunk = logs.next().await.unwrap().unwrap();
        let said = if chunk.stream == LogStream::Stdout { &mut out } else { &mut err };
        said.extend_from_slice(&chunk.bytes);
    }
    let killed = Command::new("docker").args(["kill", "--signal", "KILL", &name]).output().unwrap();
    assert!(killed.status.success());
    let exit = tokio::time::timeout(Duration::from_secs(60), running.wait()).await.unwrap();
    assert_eq!(exit.map(|exit| exit.code), Some(137));
    assert_eq!(running.status().phase, Phase::Failed);
    drop(running);
    Workloads::new(environment(&state)).remove(&name, Duration::ZERO).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_detached_workload_lives_on_without_its_handle() {
    let state = tempfile::tempdir().unwrap();
    let name = name("detached");
    let running = chatty_workload(&name, &state).build().unwrap().start().await.unwrap();
    let address = running.url().trim_start_matches("http://").split('/').next().unwrap().to_owned();
    running.detach();
    assert!(container_runs(&name));
    assert!(TcpStream::connect(&address).is_ok());
    let workloads = Workloads::new(environment(&state));
    let listed = workloads.list().await.unwrap();
    assert_eq!(listed.len(), 1);
    // The proxy is in this process, so no other process can end it.
    let removed = Command::new("docker").args(["rm", "--force", &name]).output().unwrap();
    assert!(removed.status.success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workload_without_a_port_is_used_by_its_program_alone() {
    let state = tempfile::tempdir().unwrap();
    let name = name("portless");
    let builder = Workload::builder(IMAGE).name(&name).environment(environment(&state)).in_process_only();
    let running = builder.build().unwrap().start().await.unwrap();
    assert_eq!(running.url(), "");
    let workloads = Workloads::new(environment(&state));
    let listed = workloads.info(&name).await.unwrap();
    assert_eq!((listed.status, listed.url), (WorkloadState::Running, None));
    let error = workloads.stdio_bridge(&name).await.unwrap_err();
    assert!(error.message().contains("only the program that started it can use it"), "{error}");

    let client = ().serve(running.connect().unwrap()).await.unwrap();
    let result = client.call_tool(CallToolRequestParams::new("test_simple_text")).await.unwrap();
    let text = serde_json::to_string(&result).unwrap();
    assert!(text.contains("This is a simple text response for testing."), "{text}");
    client.cancel().await.unwrap();
    running.stop(Duration::from_secs(5)).await.unwrap();

    // A start from the record opens a port, because clients in other processes use the workload then.
    let again = workloads.start(&name).await.unwrap();
    assert!(again.url().starts_with("http://127.0.0.1:"), "{}", again.url());
    again.stop(Duration::from_secs(5)).await.unwrap();
    workloads.remove(&name, Duration::ZERO).await.unwrap();
}

/// The program of the example; examples are built beside the folder of the tests.
fn dashboard() -> PathBuf {
    let tests = env::current_exe().unwrap_or_default();
    tests.parent().map(|folder| folder.with_file_name("examples/dashboard")).unwrap_or_default()
}

#[test]
fn the_example_shows_servers_and_calls_their_tools() {
    let state = tempfile::tempdir().unwrap();
    let mut example = Command::new(dashboard());
    let example = example.args([IMAGE, IMAGE]).env("XDG_STATE_HOME", state.path());
    let mut example = example.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(example.stdout.take().unwrap()).lines().map(Result::unwrap);
    let ready =
        lines.by_ref().filter_map(|line| line.split_once(": ")?.1.ends_with(" tools").then_some(line));
    let names: Vec<String> = ready.map(|line| line.split(':').next().unwrap().to_owned()).take(2).collect();
    let mut input = example.stdin.take().unwrap();
    writeln!(input, "{} test_simple_text {{}}\nnobody echo\n{}", names[1], names[0]).unwrap();
    // The first call may take longer than other requests, which call no tool.
    let mut expected = vec![
        "simple text response",
        "error: there is no server `nobody`",
        "error: expected NAME TOOL [JSON]",
    ];
    while !expected.is_empty() {
        let line = lines.next().expect("more lines");
        expected.retain(|expected| !line.contains(expected));
    }
    drop(input);
    assert!(example.wait().unwrap().success());
    for name in names {
        let listed = Command::new("docker").args(["rm", &name]).output().unwrap();
        // The workload has been stopped; otherwise this would be rejected.
        assert!(listed.status.success(), "{listed:?}");
    }
}

#[test]
fn the_example_draws_the_state_of_servers_on_a_terminal() {
    /// Clears the screen and moves to its top; a green mark for a running server.
    const DRAWN: &str = "\x1b[2J\x1b[H\x1b[32m●\x1b[0m ";

    let state = tempfile::tempdir().unwrap();
    let mut script = Command::new("script");
    script.env("XDG_STATE_HOME", state.path());
    // Names are generated from images, and another test uses those of the other image. A shell that stays would be
    // interrupted, too, and its exit code would replace the example's.
    let line = format!("exec {} mcpm-test/everything-http:1", dashboard().display());
    let mut terminal = PseudoTerminal::spawn(script, &line);
    let shown = terminal.expect(" tools\r\n> ").to_owned();
    let (before, drawn) = shown.split_once(DRAWN).unwrap();
    let name = drawn.split(' ').next().unwrap().to_owned();
    let (server, below) = drawn.split_once("\r\n\r\n").unwrap();
    let tools = below.strip_prefix(&format!("{name}: ")).unwrap().trim_end_matches("\r\n> ");
    assert_eq!((before, server), ("", format!("{name:24} Running, {tools}, 0 restarts").as_str()));

    terminal.expect_then_type("> ", &format!("{name} test_simple_text\n"));
    let shown = terminal.expect("simple text response");
    // The state is drawn again above the result.
    let (_, drawn) = shown.rsplit_once(DRAWN).unwrap();
    assert!(drawn.contains(&format!(" Running, {tools}, 0 restarts\r\n\r\n[{{")), "{drawn:?}");
    terminal.expect_then_type("> ", "\x03");
    assert_eq!(terminal.wait().0, Some(0));
    let removed = Command::new("docker").args(["rm", &name]).output().unwrap();
    // The workload has been stopped; otherwise this would be rejected.
    assert!(removed.status.success(), "{removed:?}");
}
