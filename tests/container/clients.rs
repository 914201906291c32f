//! Tests published clients and the conformance suite with published servers and packages that `mcpm run` starts, on an
//! engine and on the built-in runtime.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use mcpm_tests::harness::runtimes::TestRuntime;
use rmcp::{ServiceExt as _, model::CallToolRequestParams, transport::StreamableHttpClientTransport};
use serde_json::{Value, json};
use support::{Home, testbed_variable};

mod conformance;
mod local;
mod packages;
mod registry_entries;
mod servers;
#[expect(dead_code, unused_imports, reason = "shared with the tests of the command line")]
#[path = "../cli/support/mod.rs"]
mod support;
mod system_tools;

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

/// Runs a test with a home folder on a runtime.
fn run(runtime: TestRuntime, _test: &str, body: impl FnOnce(&Home)) {
    body(&Home::on(runtime));
}

mcpm_tests::on_each_runtime! {
    crate::run, "Clients";
    conformance::the_suite_of_2025_11_25_passes_through_run on [engine builtin builtin_as_user];
    conformance::the_suite_of_2026_07_28_fails_through_run_only_where_it_fails_without
        on [engine builtin builtin_as_user];
    servers::clients_of_every_era_use_a_stdio_server_at_the_same_time on [engine builtin builtin_as_user];
    servers::a_client_of_the_old_sse_transport_uses_a_stdio_server on [engine builtin builtin_as_user];
    servers::clients_use_a_server_of_the_python_sdk on [engine builtin builtin_as_user];
    servers::clients_use_a_server_of_the_typescript_sdk_over_every_transport
        on [engine builtin builtin_as_user];
    servers::a_client_fetches_a_page_with_a_server_in_the_network_of_the_machine
        on [engine builtin builtin_as_user];
    packages::a_server_from_an_image_is_offered_the_certificates on [engine builtin builtin_as_user];
    packages::a_python_package_runs on [engine]
        because "it examines the images of the engine; the built-in runtime has a test of its own";
    packages::a_node_package_runs on [engine]
        because "it examines the images of the engine; the built-in runtime has a test of its own";
    packages::a_local_go_project_runs on [engine]
        because "it examines the images of the engine; the built-in runtime has a test of a Go package";
    packages::what_cannot_be_built_says_why_and_leaves_nothing on [engine]
        because "it compares the errors of the engine's builder; the list of containers has a test of failed steps";
    local::a_python_script_runs_with_the_dependencies_that_it_names on [engine]
        because "it examines the images of the engine; the built-in runtime has a test of its own";
    local::a_python_project_runs_its_command on [engine]
        because "it examines the images of the engine; builds are the same steps on the built-in runtime";
    local::scripts_and_projects_of_node_run on [engine]
        because "it examines the images of the engine; builds are the same steps on the built-in runtime";
    local::bundles_of_each_kind_run on [engine builtin builtin_as_user];
    local::a_node_bundle_runs_with_the_packages_in_it on [engine builtin builtin_as_user];
    system_tools::a_package_runs_with_the_tools_of_this_machine on [builtin builtin_as_user]
        because "engines build packages with the interpreters and compilers of images";
    system_tools::a_node_package_runs_with_the_tools_of_this_machine on [builtin builtin_as_user]
        because "engines build packages with the interpreters and compilers of images";
    system_tools::a_go_package_runs_with_the_tools_of_this_machine on [builtin builtin_as_user]
        because "engines build packages with the interpreters and compilers of images";
    system_tools::a_local_script_runs_with_the_tools_of_this_machine on [builtin builtin_as_user]
        because "engines build packages with the interpreters and compilers of images";
    registry_entries::a_package_of_an_entry_is_built_and_gets_what_the_entry_says on [engine]
        because "it examines the container with the engine; what an entry says is resolved before a runtime is used";
    registry_entries::the_permission_profile_of_an_entry_is_enforced on [engine]
        because "it runs a program with `docker exec`; each runtime enforces a profile in the list of workloads";
}

/// Starts a server and returns its URL.
#[track_caller]
fn run_workload(home: &Home, image: &str, more: &[&str]) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = home.name(&format!("server{}", COUNT.fetch_add(1, Ordering::Relaxed)));
    home.run(&[&["run", image, "--name", &name], more].concat()).succeeded().url()
}
