//! Tests published clients and the conformance suite with published servers that `mcpm run` starts.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::Command,
};

use rmcp::{ServiceExt as _, model::CallToolRequestParams, transport::StreamableHttpClientTransport};
use serde_json::{Value, json};
use support::{Home, Program, testbed_variable, wait_until};

mod local;
mod packages;
mod registry_entries;
#[expect(dead_code, unused_imports, reason = "shared with the tests of the command line")]
#[path = "../cli/support/mod.rs"]
mod support;

/// A tool and its arguments.
#[derive(Clone, Copy)]
struct Tool<'a> {
    name: &'a str,
    arguments: &'a str,
    /// A text that the result contains.
    answer: &'a str,
}

const SIMPLE: Tool<'_> = Tool { name: "test_simple_text", arguments: "{}", answer: "simple text response" };
const ECHO: Tool<'_> = Tool { name: "echo", arguments: r#"{"message": "hello"}"#, answer: "Echo: hello" };
const TIME: Tool<'_> =
    Tool { name: "get_current_time", arguments: r#"{"timezone": "UTC"}"#, answer: "\\\"UTC\\\"" };

/// The published clients.
#[derive(Debug, Clone, Copy)]
enum Client {
    Python(&'static str),
    FastMcp(&'static str),
    TypeScript(&'static str),
    /// SDK 1, over streamable HTTP or SSE.
    TypeScript1(&'static str),
    Inspector(&'static str),
    Rust,
}

impl Client {
    /// Lists the tools and calls one, and returns the negotiated protocol version, if the client prints it.
    #[track_caller]
    fn call(self, url: &str, tool: Tool<'_>) -> Option<String> {
        let node = || Command::new(testbed_variable("MCPM_TEST_NODE"));
        let script = |name: &str| mcpm_tests::root().join("tests/clients").join(name);
        let common = [url, tool.name, tool.arguments];
        let mut command = match self {
            Self::Python(mode) => with(
                Command::new(testbed_variable("MCPM_TEST_PYTHON")),
                script("python_client.py"),
                &common,
                mode,
            ),
            Self::FastMcp(mode) => with(
                Command::new(testbed_variable("MCPM_TEST_FASTMCP_PYTHON")),
                script("fastmcp_client.py"),
                &common,
                mode,
            ),
            Self::TypeScript(mode) => with(node(), script("ts_client.mjs"), &common, mode),
            Self::TypeScript1(mode) => with(node(), script("ts_sdk1_client.mjs"), &common, mode),
            Self::Inspector(era) => return inspect(url, tool, era),
            Self::Rust => return call_from_rust(url, tool),
        };
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{self:?} at {url}: {stderr}");
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        let tools = said["tools"].as_array().unwrap();
        assert!(tools.contains(&json!(tool.name)), "{self:?}: {tools:?}");
        assert!(said["result"].to_string().contains(tool.answer), "{self:?}: {said}");
        said["protocol"].as_str().map(str::to_owned)
    }
}

fn with(mut command: Command, script: PathBuf, common: &[&str], mode: &str) -> Command {
    command.arg(script).args(common).arg(mode).env("NO_PROXY", "*");
    command
}

/// Calls a tool with the Inspector's command line.
#[track_caller]
fn inspect(url: &str, tool: Tool<'_>, era: &str) -> Option<String> {
    let run = |more: &[&str]| {
        let mut command = Command::new(testbed_variable("MCPM_TEST_NODE"));
        command.arg(PathBuf::from(testbed_variable("MCPM_TEST_NODE_MODULES")).join(".bin/mcp-inspector"));
        command.args(["--cli", "--transport", "http", "--server-url", url, "--protocol-era", era]);
        let output = command.args(more).env("NO_PROXY", "*").output().unwrap();
        let (stdout, stderr) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
        assert!(output.status.success(), "Inspector at {url}: {stderr}");
        String::from_utf8(stdout).unwrap()
    };
    assert!(run(&["--method", "tools/list"]).contains(tool.name));
    let arguments: Value = serde_json::from_str(tool.arguments).unwrap();
    let arguments: Vec<String> = arguments
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(name, value)| ["--tool-arg".to_owned(), format!("{name}={}", value.as_str().unwrap())])
        .collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let answer = run(&[&["--method", "tools/call", "--tool-name", tool.name], &arguments[..]].concat());
    assert!(answer.contains(tool.answer), "{answer}");
    None
}

/// Calls a tool with rmcp.
#[tokio::main(flavor = "current_thread")]
async fn call_from_rust(url: &str, tool: Tool<'_>) -> Option<String> {
    let client = ().serve(StreamableHttpClientTransport::from_uri(url)).await.unwrap();
    let tools = client.list_all_tools().await.unwrap();
    assert!(tools.iter().any(|listed| listed.name == tool.name), "{tools:?}");
    let asked = CallToolRequestParams::new(tool.name.to_owned())
        .with_arguments(serde_json::from_str(tool.arguments).unwrap());
    let answer = serde_json::to_string(&client.call_tool(asked).await.unwrap()).unwrap();
    assert!(answer.contains(tool.answer), "{answer}");
    let version = client.peer_info().unwrap().protocol_version.to_string();
    client.cancel().await.unwrap();
    Some(version)
}

/// Starts a server and returns its URL.
#[track_caller]
fn run_workload(home: &Home, image: &str, more: &[&str]) -> String {
    let name = home.name("server");
    home.run(&[&["run", image, "--name", &name], more].concat()).succeeded().url()
}

#[test]
fn clients_of_every_era_use_a_stdio_server_at_the_same_time() {
    let home = Home::new();
    let url = run_workload(&home, "mcpm-test/everything:1", &[]);
    let (legacy, modern) = (Some("2025-11-25".to_owned()), Some("2026-07-28".to_owned()));
    let clients = [
        (Client::Python("auto"), &modern),
        (Client::Python("legacy"), &legacy),
        (Client::Python("2026-07-28"), &modern),
        (Client::FastMcp("auto"), &modern),
        (Client::TypeScript("auto"), &modern),
        (Client::TypeScript("legacy"), &legacy),
        (Client::TypeScript("2026-07-28"), &modern),
        (Client::TypeScript1("streamable"), &legacy),
        (Client::Inspector("legacy"), &None),
        (Client::Inspector("modern"), &None),
        (Client::Rust, &legacy),
    ];
    std::thread::scope(|scope| {
        for (client, version) in clients {
            let url = &url;
            scope.spawn(move || assert_eq!(client.call(url, SIMPLE), *version, "{client:?}"));
        }
    });
}

#[test]
fn a_client_of_the_old_sse_transport_uses_a_stdio_server() {
    let home = Home::new();
    let url = run_workload(&home, "mcpm-test/everything:1", &["--proxy-mode", "sse"]);
    assert_eq!(Client::TypeScript1("sse").call(&url, SIMPLE).as_deref(), Some("2025-11-25"));
}

#[test]
fn clients_use_a_server_of_the_python_sdk() {
    let home = Home::new();
    let url = run_workload(&home, "mcpm-test/python:1", &["--", "mcp-server-time"]);
    assert_eq!(Client::Python("auto").call(&url, TIME).as_deref(), Some("2026-07-28"));
    assert_eq!(Client::TypeScript1("streamable").call(&url, TIME).as_deref(), Some("2025-11-25"));
}

#[test]
#[ignore = "nightly: it tries more clients"]
fn more_clients_use_a_server_of_the_python_sdk() {
    let home = Home::new();
    let url = run_workload(&home, "mcpm-test/python:1", &["--", "mcp-server-time"]);
    assert_eq!(Client::Python("legacy").call(&url, TIME).as_deref(), Some("2025-11-25"));
    assert_eq!(Client::Python("2026-07-28").call(&url, TIME).as_deref(), Some("2026-07-28"));
    assert_eq!(Client::FastMcp("auto").call(&url, TIME).as_deref(), Some("2026-07-28"));
    assert_eq!(Client::TypeScript("auto").call(&url, TIME).as_deref(), Some("2026-07-28"));
    Client::Inspector("auto").call(&url, TIME);
}

#[test]
fn a_client_fetches_a_page_with_a_server_in_the_network_of_the_machine() {
    let home = Home::new();
    let pages = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = pages.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in pages.incoming() {
            let mut connection = connection.unwrap();
            let mut head = BufReader::new(connection.try_clone().unwrap()).lines();
            let is_page = head.next().unwrap().unwrap().starts_with("GET /page ");
            // The whole head is read, because closing a connection with unread data could cut off the response.
            while head.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let (status, body) =
                if is_page { ("200 OK", "a page of this test") } else { ("404 Not Found", "") };
            let length = body.len();
            write!(connection, "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}").unwrap();
        }
    });
    let url = run_workload(
        &home,
        "mcpm-test/python:1",
        &["--network", "host", "--", "mcp-server-fetch", "--allow-private-ips"],
    );
    let arguments = format!(r#"{{"url": "http://{address}/page"}}"#);
    let fetch = Tool { name: "fetch", arguments: &arguments, answer: "a page of this test" };
    assert!(Client::Python("auto").call(&url, fetch).is_some());
    assert!(Client::TypeScript("auto").call(&url, fetch).is_some());
}

/// The transports of `mcpm-test/node:1` that clients use over streamable HTTP, with the server's names for them.
const TRANSPORTS: [(&str, &str); 2] = [("stdio", "stdio"), ("streamable-http", "streamableHttp")];

#[test]
fn clients_use_a_server_of_the_typescript_sdk_over_every_transport() {
    let legacy = Some("2025-11-25");
    for (transport, mode) in TRANSPORTS {
        let home = Home::new();
        let url = run_workload(
            &home,
            "mcpm-test/node:1",
            &["--transport", transport, "--", "mcp-server-everything", mode],
        );
        assert_eq!(Client::TypeScript("auto").call(&url, ECHO).as_deref(), legacy, "{transport}");
        assert_eq!(Client::TypeScript1("streamable").call(&url, ECHO).as_deref(), legacy, "{transport}");
    }
    let home = Home::new();
    let url = run_workload(
        &home,
        "mcpm-test/node:1",
        &["--transport", "sse", "--", "mcp-server-everything", "sse"],
    );
    assert_eq!(Client::TypeScript1("sse").call(&url, ECHO).as_deref(), legacy);
}

#[test]
#[ignore = "nightly: it tries more clients"]
fn more_clients_use_a_server_of_the_typescript_sdk() {
    let legacy = Some("2025-11-25");
    for (transport, mode) in TRANSPORTS {
        let home = Home::new();
        let url = run_workload(
            &home,
            "mcpm-test/node:1",
            &["--transport", transport, "--", "mcp-server-everything", mode],
        );
        assert_eq!(Client::Python("auto").call(&url, ECHO).as_deref(), legacy, "{transport}");
        assert_eq!(Client::Python("legacy").call(&url, ECHO).as_deref(), legacy, "{transport}");
        assert_eq!(Client::FastMcp("auto").call(&url, ECHO).as_deref(), legacy, "{transport}");
        Client::Inspector("auto").call(&url, ECHO);
    }
}

/// The conformance suite's results for a server.
#[derive(Debug, PartialEq, Eq)]
struct Conformance {
    exit: Option<i32>,
    /// Scenarios with a failed check, including those that do not count.
    failing: BTreeSet<String>,
    /// The total numbers of failed and passed checks.
    failed: u32,
    passed: u32,
}

fn conformance(home: &Home, url: &str, revision: &str) -> Conformance {
    let output = Command::new(testbed_variable("MCPM_TEST_NODE"))
        .arg(PathBuf::from(testbed_variable("MCPM_TEST_NODE_MODULES")).join(".bin/conformance"))
        .args(["server", "--url", url, "--requirements", revision, "-o", &home.text("results")])
        .env("NO_PROXY", "*")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // Lines such as `✓ prompts-get-simple: 2 passed, 0 failed`, and a line with the total.
    let counts = |line: &str| {
        let (name, rest) = line.split_once(": ")?;
        let (passed, rest) = rest.split_once(" passed, ")?;
        let failed = rest.split_whitespace().next()?;
        let name = name.trim_start_matches(['✓', '✗', ' ']).to_owned();
        Some((name, passed.parse::<u32>().ok()?, failed.parse::<u32>().ok()?))
    };
    let lines: Vec<_> = text.lines().filter_map(counts).collect();
    let total =
        lines.iter().find(|(name, ..)| name == "Total").unwrap_or_else(|| panic!("no total:\n{text}"));
    let failing = lines.iter().filter(|(name, _, failed)| name != "Total" && *failed > 0);
    Conformance {
        exit: output.status.code(),
        failing: failing.map(|(name, ..)| name.clone()).collect(),
        failed: total.2,
        passed: total.1,
    }
}

#[test]
fn the_suite_of_2025_11_25_passes_through_run() {
    // One more check runs through the bridge, which lets a client resume a stream.
    for (image, passed) in [("mcpm-test/everything:1", 83), ("mcpm-test/everything-http:1", 82)] {
        let home = Home::new();
        let found = conformance(&home, &run_workload(&home, image, &[]), "2025-11-25");
        assert_eq!((found.exit, found.passed, found.failed), (Some(0), passed, 0), "{image}: {found:?}");
    }
}

#[test]
fn the_suite_of_2026_07_28_fails_through_run_only_where_it_fails_without() {
    let home = Home::new();
    let direct = {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut server = home.command(testbed_variable("MCPM_TEST_EVERYTHING_SERVER"));
        let server = Program::start(server.args(["-http", &address.to_string()]));
        wait_until("the server listens", || TcpStream::connect(address).is_ok());
        let found = conformance(&home, &format!("http://{address}/"), "2026-07-28");
        drop(server);
        found
    };
    assert_eq!((direct.exit, direct.passed, direct.failed), (Some(0), 165, 30), "{direct:?}");
    let stateless = ["--", "-http", "0.0.0.0:3000"];
    for (image, more) in [("mcpm-test/everything:1", &[][..]), ("mcpm-test/everything-http:1", &stateless)] {
        let home = Home::new();
        let found = conformance(&home, &run_workload(&home, image, more), "2026-07-28");
        assert_eq!(found, direct, "{image}");
    }
}
