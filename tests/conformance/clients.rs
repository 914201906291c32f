//! Checks that published clients list the tools of a stdio server and call a tool, in each era that the client
//! supports, and can use a server that supports only the older era.

use std::path::PathBuf;

use mcpm::options::ProxyMode;
use mcpm_tests::{
    harness::{testbed, with_timeout},
    root,
};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{bridge, node, npm_program};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// A server, one of its tools, and arguments for it.
struct Server {
    program: PathBuf,
    tool: &'static str,
}

/// A server that supports both eras.
fn everything() -> Server {
    Server { program: testbed::path("MCPM_TEST_EVERYTHING_SERVER"), tool: "test_simple_text" }
}

/// A server that supports only the older era.
fn older() -> Server {
    Server { program: env!("CARGO_BIN_EXE_scripted-server").into(), tool: "echo" }
}

fn client(script: &str) -> PathBuf {
    root().join("tests/clients").join(script)
}

pub(crate) fn python(script: &str) -> Command {
    let python = if script.starts_with("fastmcp") { "MCPM_TEST_FASTMCP_PYTHON" } else { "MCPM_TEST_PYTHON" };
    let mut command = Command::new(testbed::path(python));
    command.arg(client(script)).kill_on_drop(true);
    command
}

/// Runs a program to its end and reads its output as JSON.
pub(crate) async fn output(mut command: Command) -> Value {
    let output = with_timeout("a client", command.output()).await.unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("{command:?}: `{out}` is not JSON; {err}"))
}

/// Runs a client in each mode against a server; each run must list and call tools, in the protocol version beside the
/// mode.
async fn assert_client_works(
    program: impl Fn() -> Command,
    server: &Server,
    proxy_mode: ProxyMode,
    modes: &[(&str, &str)],
) {
    let running = bridge(server.program.clone(), proxy_mode).await;
    for (mode, protocol) in modes {
        let mut command = program();
        command.args([running.proxy().url(), server.tool, "{}", mode]);
        let line = output(command).await;
        assert_eq!(line["protocol"], *protocol, "{mode}: {line}");
        assert!(line["tools"].as_array().unwrap().contains(&json!(server.tool)), "{mode}: {line}");
        assert!(line["result"]["content"].is_array(), "{mode}: {line}");
        assert_ne!(line["result"]["isError"], true, "{mode}: {line}");
    }
}

const BOTH_ERAS: [(&str, &str); 3] = [("auto", MODERN), ("legacy", LEGACY), (MODERN, MODERN)];
const FALLBACK: [(&str, &str); 1] = [("auto", LEGACY)];
const HTTP: ProxyMode = ProxyMode::StreamableHttp;

#[tokio::test(flavor = "multi_thread")]
async fn the_python_sdk_speaks_either_era() {
    assert_client_works(|| python("python_client.py"), &everything(), HTTP, &BOTH_ERAS).await;
    assert_client_works(|| python("python_client.py"), &older(), HTTP, &FALLBACK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fastmcp_speaks_either_era() {
    assert_client_works(|| python("fastmcp_client.py"), &everything(), HTTP, &BOTH_ERAS).await;
    assert_client_works(|| python("fastmcp_client.py"), &older(), HTTP, &FALLBACK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_sdk_speaks_either_era() {
    assert_client_works(|| node(client("ts_client.mjs")), &everything(), HTTP, &BOTH_ERAS).await;
    assert_client_works(|| node(client("ts_client.mjs")), &older(), HTTP, &FALLBACK).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_typescript_sdk_1_speaks_either_transport() {
    let program = || node(client("ts_sdk1_client.mjs"));
    for server in [everything(), older()] {
        assert_client_works(program, &server, HTTP, &[("streamable", LEGACY)]).await;
        assert_client_works(program, &server, ProxyMode::Sse, &[("sse", LEGACY)]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inspector_speaks_either_era() {
    let home = tempfile::tempdir().unwrap();
    for (server, eras) in [(everything(), &["legacy", "modern"][..]), (older(), &["auto"])] {
        let running = bridge(server.program.clone(), HTTP).await;
        for era in eras {
            let ask = async |what: &[&str]| {
                let mut command = npm_program("mcp-inspector");
                command.env("HOME", home.path());
                command.args(["--cli", "--transport", "http", "--server-url", running.proxy().url()]);
                command.args(["--protocol-era", era]).args(what);
                output(command).await
            };
            let list = ask(&["--method", "tools/list"]).await;
            let tools = list["tools"].as_array().unwrap();
            assert!(tools.iter().any(|tool| tool["name"] == server.tool), "{era}: {list}");
            let result = ask(&["--method", "tools/call", "--tool-name", server.tool]).await;
            assert!(result["content"].is_array(), "{era}: {result}");
        }
    }
}
