//! Tests programs in C, Python and Swift that prompt for a login through their bindings.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
};

use mcpm_tests::{
    harness::{http::Http, with_timeout},
    root,
};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::Command,
    task::spawn_blocking,
};

use crate::{
    outgoing::{Issuer, issuer, list},
    programs::{MEMORY_CHECKS, MemoryCheck, c_program, python, python_path, text},
};

/// A server whose users can only log in on another device.
async fn device_issuer() -> (String, Arc<Mutex<Issuer>>) {
    issuer(|metadata| {
        let origin = metadata["issuer"].as_str().unwrap().to_owned();
        metadata["device_authorization_endpoint"] = json!(format!("{origin}/device"));
        metadata.as_object_mut().unwrap().remove("authorization_endpoint");
    })
    .await
}

/// Runs a program that serves the remote server at the URL that it prints last, and returns its previous output.
async fn run_with_login(command: std::process::Command, home: &Path) -> Vec<String> {
    let mut command = Command::from(command);
    for (name, folder) in
        [("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config"), ("XDG_CACHE_HOME", "cache")]
    {
        command.env(name, home.join(folder));
    }
    for name in ["MCPM_SECRETS_PASSWORD", "MCPM_SECRETS_PASSWORD_FILE", "DBUS_SESSION_BUS_ADDRESS"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut program = command.spawn().unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let mut stderr = program.stderr.take().unwrap();
    let mut printed = Vec::new();
    let address: SocketAddr = loop {
        let Some(line) = with_timeout("a line", lines.next_line()).await.unwrap() else {
            let mut said = String::new();
            stderr.read_to_string(&mut said).await.unwrap();
            panic!("{printed:?}: {said}");
        };
        match line.strip_prefix("remote http://") {
            Some(url) => break url.split('/').next().unwrap().parse().unwrap(),
            None => printed.push(line),
        }
    };
    assert_eq!(list(Http(address)).await.status, 200);
    drop(program.stdin.take());
    let (mut said, mut rest) = (String::new(), Vec::new());
    let ending = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            rest.push(line);
        }
        stderr.read_to_string(&mut said).await.unwrap();
        program.wait().await.unwrap()
    };
    let status = with_timeout("the end of the program", ending).await;
    assert!(status.success() && said.is_empty() && rest.is_empty(), "{status}: {said} {rest:?}");
    printed
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_example_logs_in() {
    let (url, issuer) = issuer(|_| {}).await;
    let home = tempfile::tempdir().unwrap();
    let path = spawn_blocking(python_path).await.unwrap();
    let mut example = python("../../bindings/python/examples/login.py", &path);
    example.arg(url).env("BROWSER", root().join("tests/clients/follow_redirects"));
    let printed = run_with_login(example, home.path()).await;
    assert!(printed[0].starts_with("Log in to 127.0.0.1: http://127.0.0.1:"), "{printed:?}");
    assert_eq!((printed.len(), issuer.lock().unwrap().issued), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_program_prompts_for_logins_and_secrets() {
    let (url, issuer) = issuer(|_| {}).await;
    let home = tempfile::tempdir().unwrap();
    let path = spawn_blocking(python_path).await.unwrap();
    let mut program = python("login.py", &path);
    let (device_url, device_issuer) = device_issuer().await;
    program.args([url, device_url]).env("TOKIO_WORKER_THREADS", "2");
    let printed = run_with_login(program, home.path()).await;
    let lines = [
        "login_required the remote server `127.0.0.1` requires a login",
        "io the user prompt failed: ValueError('no display for <login URL>')",
        "interrupted the user went away",
        "io the user prompt failed: AttributeError(\"'int' object has no attribute 'encode'\")",
        "TypeError expected a UserPrompt or a function that shows logins, not object",
        "LoginPrompt { server: \"127.0.0.1\", .. }",
        "DeviceLogin { .. }",
    ];
    assert_eq!(printed, lines);
    assert_eq!((issuer.lock().unwrap().issued, device_issuer.lock().unwrap().issued), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_c_program_prompts_for_logins() {
    prompt_for_logins_in_c(MemoryCheck::None).await;
}

async fn prompt_for_logins_in_c(check: MemoryCheck) {
    let (url, issuer) = issuer(|_| {}).await;
    let home = tempfile::tempdir().unwrap();
    let mut program = spawn_blocking(move || c_program("tests/bindings/login.c", check)).await.unwrap();
    let (device_url, device_issuer) = device_issuer().await;
    program.args([url, device_url]);
    let printed = run_with_login(program, home.path()).await;
    let lines = [
        "1 `prompt` is null",
        "20 the remote server `127.0.0.1` requires a login; set a callback that shows logins with \
         `mcpm_user_prompt_show_login`",
        "10 the user prompt failed: no display for <login URL>",
        "10 the user prompt failed: its answer is null or not valid UTF-8",
        "14 the user cancelled the prompt",
    ];
    assert_eq!(printed, lines);
    assert_eq!((issuer.lock().unwrap().issued, device_issuer.lock().unwrap().issued), (2, 1));
}

/// Runs the case of a login with a program.
async fn run_login_case(language: &str, mut program: std::process::Command) {
    let (url, issuer) = issuer(|_| {}).await;
    let home = tempfile::tempdir().unwrap();
    program.arg(root().join("tests/data/cases/login.case")).env("REMOTE", url);
    for (name, folder) in
        [("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config"), ("XDG_CACHE_HOME", "cache")]
    {
        program.env(name, home.path().join(folder));
    }
    program.env("MCPM_SECRETS_PASSWORD", "a password").env_remove("DBUS_SESSION_BUS_ADDRESS");
    let output = spawn_blocking(move || program.output()).await.unwrap().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "passed\n", "{language}: {output:?}");
    assert_eq!(issuer.lock().unwrap().issued, 1, "{language}");
}

async fn run_login_case_in_c(check: MemoryCheck) {
    let program = spawn_blocking(move || c_program("tests/cases/case.c", check)).await.unwrap();
    run_login_case("c", program).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_case_of_a_login_passes_in_c() {
    run_login_case_in_c(MemoryCheck::None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: Valgrind takes minutes"]
async fn the_memory_of_logins_is_checked_in_c() {
    for check in MEMORY_CHECKS {
        eprintln!("{check:?}");
        prompt_for_logins_in_c(check).await;
        run_login_case_in_c(check).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_case_of_a_login_passes_in_python() {
    let path = spawn_blocking(python_path).await.unwrap();
    run_login_case("python", python("../cases/case.py", &path)).await;
}

/// Compiles the package in the Swift 6 language mode, and runs its tests, including the common cases.
#[tokio::test(flavor = "multi_thread")]
async fn the_swift_package_passes_its_tests() {
    let (url, issuer) = issuer(|_| {}).await;
    let check = || {
        let library = PathBuf::from(mcpm_tests::library());
        let mut check = std::process::Command::new(root().join("tests/bindings/swift/check"));
        check.arg(library.parent().unwrap()).env("MCPM_TEST_REMOTE", url).output().unwrap()
    };
    let output = spawn_blocking(check).await.unwrap();
    let said = text(&output);
    let passed = |line: &str| line.contains("Test run with") && line.contains(" passed after");
    assert!(output.status.success() && said.lines().any(passed), "{said}");
    assert_eq!(issuer.lock().unwrap().issued, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_case_of_a_login_passes_in_rust() {
    let (url, issuer) = issuer(|_| {}).await;
    let home = tempfile::tempdir().unwrap();
    let mut environment = mcpm::Environment::from_lookup(|_| None);
    environment.state_dir = home.path().join("state");
    environment.config_dir = home.path().join("config");
    environment.secrets.password = Some(mcpm::options::Secret::from("a password"));
    let variables = std::collections::HashMap::from([("REMOTE", url)]);
    crate::rust_case::run(&root().join("tests/data/cases/login.case"), &variables, environment).await;
    assert_eq!(issuer.lock().unwrap().issued, 1);
}
