//! Tests the packages in `bindings` with programs in C and Python, and compares the APIs of all languages. The Swift
//! package is compiled and run by `tests/identity/bindings.rs`.
//!
//! The programs are in `tests/bindings`, and the examples in `bindings`. They need an engine, and the image and the
//! executable of the everything-server, which `tests/run` installs.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::{
    env,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    process::{Child, Command, Output, Stdio},
};

use mcpm_tests::harness::poll;
use programs::text;

#[path = "bindings/c_programs.rs"]
mod c_programs;
#[path = "bindings/c_reference.rs"]
mod c_reference;
#[path = "bindings/installed_c.rs"]
mod installed_c;
#[path = "bindings/macos.rs"]
mod macos;
#[path = "bindings/operations.rs"]
mod operations;
#[path = "bindings/packages.rs"]
mod packages;
#[path = "bindings/programs.rs"]
mod programs;
#[path = "bindings/python_package.rs"]
mod python_package;
#[path = "bindings/rust_api.rs"]
mod rust_api;
#[path = "bindings/swift_api.rs"]
mod swift_api;

/// The image of an MCP server that speaks stdio.
const EVERYTHING: &str = "mcpm-test/everything:1";
/// The image of a server that never responds.
const SILENT: &str = "mcpm-test/silent:1";

/// The Swift source that uniffi has generated.
fn generated_swift() -> String {
    std::fs::read_to_string(
        mcpm_tests::root().join("bindings/swift/Sources/McpmGenerated/McpmGenerated.swift"),
    )
    .unwrap()
}

/// Checks that a program exited successfully, and returns its output.
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, text(output));
    let stderr = String::from_utf8_lossy(&output.stderr);
    // Valgrind notes each system call that it does not know, such as `pidfd_open`, in lines that begin like this.
    assert!(stderr.lines().all(|line| line.starts_with("--")), "{}", text(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The Go everything-server on a port of its own.
struct HttpServer {
    process: Child,
    port: u16,
}

impl HttpServer {
    fn start() -> Self {
        let program = env::var_os("MCPM_TEST_EVERYTHING_SERVER")
            .expect("MCPM_TEST_EVERYTHING_SERVER names the everything-server; `tests/run` sets it");
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut process = Command::new(program)
            .args(["-http", &format!("127.0.0.1:{port}")])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The server logs a line right before it listens.
        let mut said = String::new();
        BufReader::new(process.stderr.take().unwrap()).read_line(&mut said).unwrap();
        poll::wait_until_listening("the everything-server", ([127, 0, 0, 1], port).into());
        Self { process, port }
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A separate home folder for the records of workloads. It removes the containers that are left when the test ends.
struct Home {
    folder: tempfile::TempDir,
    prefix: String,
}

impl Home {
    fn new(language: &str) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            prefix: format!("ffi-{language}-{}", std::process::id()),
        }
    }

    /// The containers of this test's workloads: the name of the workload, and the state.
    fn containers(&self) -> Vec<(String, String)> {
        let format = "{{.Label \"mcpm-name\"}} {{.State}}";
        let listed = docker(&["ps", "--all", "--filter", "label=mcpm-name", "--format", format]);
        let listed = String::from_utf8(listed.stdout).unwrap();
        let mut ours: Vec<_> = listed
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter_map(|(name, state)| Some((name.strip_prefix(&self.prefix)?.to_owned(), state.to_owned())))
            .collect();
        ours.sort();
        ours
    }

    /// Checks that exactly these containers are left of the workloads that the program ran, and that none is running.
    fn assert_ended(&self, names: &[&str]) {
        let expected: Vec<_> = names.iter().map(|name| ((*name).to_owned(), "exited".to_owned())).collect();
        assert_eq!(self.containers(), expected);
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        for (name, _) in self.containers() {
            let label = format!("label=mcpm-name={}{name}", self.prefix);
            let ids = docker(&["ps", "--all", "--quiet", "--filter", &label]);
            for id in String::from_utf8_lossy(&ids.stdout).lines() {
                docker(&["rm", "--force", id]);
            }
        }
    }
}

fn docker(args: &[&str]) -> Output {
    let output = Command::new("docker").args(args).output().unwrap();
    assert!(output.status.success(), "docker {args:?}: {}", text(&output));
    output
}

/// Runs a command, which must succeed, and returns its output.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    text(&output)
}
