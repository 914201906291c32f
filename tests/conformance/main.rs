//! Tests the proxy with third-party programs: the conformance suite and published clients.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails here fails its test")]

mod clients;
mod login;
mod policy;
mod suite;
#[expect(dead_code, unused_imports, reason = "shared with the tests of the command line")]
#[path = "../cli/support/mod.rs"]
mod support;

use std::path::PathBuf;

use mcpm::{
    options::ProxyMode,
    proxy::{RunningStdioProxy, StdioProxy},
    stdio::LocalProcess,
};
use mcpm_tests::harness::{testbed, with_timeout};
use tokio::process::Command;

/// A server program behind a proxy.
async fn bridge(program: PathBuf, mode: ProxyMode) -> RunningStdioProxy {
    let proxy = StdioProxy::new("server", LocalProcess::new(program, [""; 0])).mode(mode);
    with_timeout("the proxy to start", proxy.start(drop)).await.unwrap()
}

/// Node and a script; programs that the script starts find the same Node.
fn node(script: PathBuf) -> Command {
    let node = testbed::path("MCPM_TEST_NODE");
    let folder = node.parent().unwrap().to_owned();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([folder].into_iter().chain(std::env::split_paths(&others))).unwrap();
    let mut command = Command::new(node);
    command.env("PATH", path).arg(script).kill_on_drop(true);
    command
}

/// A program that was installed by npm.
fn npm_program(name: &str) -> Command {
    node(testbed::path("MCPM_TEST_NODE_MODULES").join(".bin").join(name))
}
