//! Programs in other languages use mcpm through what is kept below `bindings`.
//!
//! The programs are in `bindings/`. They need what `tests/run` installs: the image and the program of the
//! everything-server, and an engine.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::{
    env,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

use mcpm_tests::harness::{poll, testbed};
use programs::{python, python_path, text};

#[path = "bindings/c_programs.rs"]
mod c_programs;
#[path = "bindings/installed_c.rs"]
mod installed_c;
#[path = "bindings/operations.rs"]
mod operations;
#[path = "bindings/programs.rs"]
mod programs;

/// An image that speaks MCP on a pipe.
const EVERYTHING: &str = "mcpm-test/everything:1";
/// An image that never answers.
const SILENT: &str = "mcpm-test/silent:1";

/// The Swift source that uniffi has generated.
fn generated_swift() -> String {
    std::fs::read_to_string(
        mcpm_tests::root().join("bindings/swift/Sources/McpmGenerated/McpmGenerated.swift"),
    )
    .unwrap()
}

/// Checks that a program ended well and returns what it printed.
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, text(output));
    assert!(output.stderr.is_empty(), "{}", text(output));
    text(output)
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
        // It says when it is about to listen.
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

/// A home of its own for the records of workloads. Removes the containers that are left when the test ends.
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

    /// The containers of our workloads: name of the workload and state.
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

    /// Checks that of the workloads the program ran these containers are left, and that none runs.
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

/// Runs a command, which must succeed, and returns what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    text(&output)
}

/// A module of the testbed's Python, in the folder of the Python package.
fn python_tool(module: &str, path: &tempfile::TempDir) -> Command {
    let mut command = Command::new(testbed::path("MCPM_TEST_PYTHON"));
    command
        .args(["-m", module])
        .current_dir(mcpm_tests::root().join("bindings/python"))
        .env("PYTHONPATH", path.path())
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

#[test]
fn the_python_package_passes_its_tests() {
    let home = Home::new("python");
    let path = python_path();
    let mut pytest = python_tool("pytest", &path);
    run(pytest.args(["-p", "no:cacheprovider"]).env("MCPM_TEST_PREFIX", &home.prefix));
    home.assert_ended(&[]);
}

#[test]
fn the_python_package_is_formatted_and_typed() {
    let path = python_path();
    run(python_tool("ruff", &path).args(["check", "--no-cache", "."]));
    run(python_tool("ruff", &path).args(["format", "--no-cache", "--check", "."]));
    run(python_tool("mypy", &path).arg("--cache-dir").arg(path.path().join("mypy")));
}

#[test]
#[ignore = "nightly: takes half a minute"]
fn the_python_reference_is_built_without_warnings() {
    let path = python_path();
    let pages = path.path().join("pages");
    let mut pdoc = python_tool("pdoc", &path);
    run(pdoc.env("PYTHONWARNINGS", "error").arg("-o").arg(&pages).args(["mcpm", "mcpm.sync"]));
    assert!(pages.join("mcpm/sync.html").exists());
}

/// The source distribution is built, a wheel from it, and the wheel is installed in a fresh environment.
#[test]
#[ignore = "nightly: compiles the library again"]
fn the_python_wheel_is_installed_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let built = folder.path().join("dist");
    let bin = testbed::path("MCPM_TEST_PYTHON").parent().unwrap().to_owned();
    run(Command::new(bin.join("maturin"))
        .args(["build", "--sdist", "--profile", "dev", "--out"])
        .arg(&built)
        .current_dir(mcpm_tests::root().join("bindings/python"))
        .env("CARGO_TARGET_DIR", mcpm_tests::root().join("target/python-wheel"))
        .env_remove("RUSTC_WORKSPACE_WRAPPER"));
    let file = |suffix: &str| {
        let files = std::fs::read_dir(&built).unwrap().map(|entry| entry.unwrap().path());
        files.into_iter().find(|file| file.to_string_lossy().ends_with(suffix)).unwrap()
    };
    assert!(file(".tar.gz").file_name().unwrap().to_string_lossy().starts_with("mcpm_sdk-"));
    let environment = folder.path().join("environment");
    run(Command::new("python3").args(["-m", "venv"]).arg(&environment));
    let python = environment.join("bin/python");
    run(Command::new(&python).args(["-m", "pip", "install", "--no-index"]).arg(file(".whl")));

    let home = Home::new("python-wheel");
    let output = Command::new(&python)
        .arg(mcpm_tests::root().join("bindings/python/examples/run.py"))
        .args([EVERYTHING, &home.prefix])
        .env("XDG_STATE_HOME", home.folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(printed(&output).starts_with(&format!("{} http://127.0.0.1:", home.prefix)));
    home.assert_ended(&[""]);
}

#[test]
fn the_python_app_calls_tools() {
    let home = Home::new("python-app");
    let path = python_path();
    let name = |letter| format!("{}{letter}", home.prefix);
    let mut app = Command::new(testbed::path("MCPM_TEST_PYTHON"));
    let mut app = app
        .arg(mcpm_tests::root().join("bindings/python/examples/tools.py"))
        .args([name("a"), name("b")].map(|name| format!("{name}={EVERYTHING}")))
        .env("PYTHONPATH", path.path())
        .env("XDG_STATE_HOME", home.folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = format!("{} test_simple_text\n{} unheard {{}}\n", name("a"), name("b"));
    std::io::Write::write_all(&mut app.stdin.take().unwrap(), lines.as_bytes()).unwrap();
    let said = printed(&app.wait_with_output().unwrap());
    for line in [&format!("{} test_simple_text", name("b")), "This is a simple text", "error: MCPError("] {
        assert!(said.contains(line), "{line}: {said}");
    }
    home.assert_ended(&["a", "b"]);
}

#[test]
fn the_python_example_runs_an_image() {
    let home = Home::new("python-example");
    let output = python("../../bindings/python/examples/run.py", &python_path())
        .args([EVERYTHING, &home.prefix])
        .env("XDG_STATE_HOME", home.folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = printed(&output);
    assert!(said.starts_with(&format!("{} http://127.0.0.1:", home.prefix)), "{said}");
    home.assert_ended(&[""]);
}
