//! Tests programs in C, Python and Swift that prompt for a login through their bindings, and runs the common cases that
//! need an identity provider.

use std::{
    collections::HashMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
    time::SystemTime,
};

use mcpm::{
    proxy::{RunningStdioProxy, StdioProxy},
    stdio::LocalProcess,
};
use mcpm_tests::{
    harness::{http::Http, runtimes::copy_images, testbed, with_timeout},
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
    provider::IdentityProvider,
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

/// The variables of a case.
type Variables = HashMap<&'static str, String>;

/// A server, and an identity provider, whose tokens a case requires in front of that server.
struct AuthCase {
    variables: Variables,
    _provider: IdentityProvider,
    _server: RunningStdioProxy,
}

impl AuthCase {
    async fn start() -> Self {
        let provider = IdentityProvider::start().await;
        let program = testbed::path("MCPM_TEST_EVERYTHING_SERVER");
        let server = StdioProxy::new("everything", LocalProcess::new(program, [""; 0]));
        let server = with_timeout("the server", server.start(drop)).await.unwrap();
        // The Swift package may have to be compiled before the token is used.
        let expires = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() + 86_400;
        let claims = json!({ "iss": provider.issuer, "sub": "ann", "aud": "guarded", "exp": expires });
        let token = provider.mint(json!({ "alg": "RS256", "kid": "RS256-1" }), claims, "").await;
        let variables = HashMap::from([
            ("SERVER", server.proxy().url().to_owned()),
            ("ISSUER", provider.issuer.clone()),
            ("TOKEN", token),
            ("PREFIX", "case".to_owned()),
        ]);
        Self { variables, _provider: provider, _server: server }
    }
}

/// Runs a case with a program.
async fn run_case(case: &str, variables: &Variables, mut program: std::process::Command) {
    let home = tempfile::tempdir().unwrap();
    program.arg(root().join(format!("tests/data/cases/{case}.case"))).envs(variables);
    for (name, folder) in
        [("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config"), ("XDG_CACHE_HOME", "cache")]
    {
        program.env(name, home.path().join(folder));
    }
    program.env("MCPM_SECRETS_PASSWORD", "a password").env_remove("DBUS_SESSION_BUS_ADDRESS");
    let output = spawn_blocking(move || program.output()).await.unwrap().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "passed\n", "{output:?}");
}

/// Runs a case in Rust.
async fn run_case_in_rust(case: &str, variables: &Variables) {
    let home = tempfile::tempdir().unwrap();
    let mut environment = mcpm::Environment::from_lookup(|_| None);
    environment.state_dir = home.path().join("state");
    environment.config_dir = home.path().join("config");
    environment.cache_dir = home.path().join("cache");
    environment.secrets.password = Some(mcpm::options::Secret::from("a password"));
    let file = root().join(format!("tests/data/cases/{case}.case"));
    crate::rust_case::run(&file, variables, environment).await;
}

/// Runs the case of a login with a program.
async fn run_login_case(program: std::process::Command) {
    let (url, issuer) = issuer(|_| {}).await;
    run_case("login", &HashMap::from([("REMOTE", url)]), program).await;
    assert_eq!(issuer.lock().unwrap().issued, 1);
}

async fn case_program_in_c(check: MemoryCheck) -> std::process::Command {
    spawn_blocking(move || c_program("tests/cases/case.c", check)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_case_of_a_login_passes_in_c() {
    run_login_case(case_program_in_c(MemoryCheck::None).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_case_of_incoming_authentication_passes_in_c() {
    let auth = AuthCase::start().await;
    run_case("auth", &auth.variables, case_program_in_c(MemoryCheck::None).await).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: Valgrind takes minutes"]
async fn the_memory_of_logins_is_checked_in_c() {
    for check in MEMORY_CHECKS {
        eprintln!("{check:?}");
        prompt_for_logins_in_c(check).await;
        run_login_case(case_program_in_c(check).await).await;
        let auth = AuthCase::start().await;
        run_case("auth", &auth.variables, case_program_in_c(check).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_case_of_a_login_passes_in_python() {
    let path = spawn_blocking(python_path).await.unwrap();
    run_login_case(python("../cases/case.py", &path)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_case_of_incoming_authentication_passes_in_python() {
    let path = spawn_blocking(python_path).await.unwrap();
    let auth = AuthCase::start().await;
    run_case("auth", &auth.variables, python("../cases/case.py", &path)).await;
}

/// Compiles the package in the Swift 6 language mode, and runs its tests, including the common cases.
#[tokio::test(flavor = "multi_thread")]
async fn the_swift_package_passes_its_tests() {
    let (url, issuer) = issuer(|_| {}).await;
    let mut auth = AuthCase::start().await;
    auth.variables.insert("REMOTE", url);
    let variables = auth.variables.clone().into_iter();
    let variables = variables.map(|(name, value)| (format!("MCPM_TEST_{name}"), value));
    let check = || {
        let images = tempfile::tempdir().unwrap();
        copy_images(&["mcpm-test/everything:1", "mcpm-test/silent:1"], images.path());
        let library = PathBuf::from(mcpm_tests::library());
        let mut check = std::process::Command::new(root().join("tests/bindings/swift/check"));
        check
            .arg(library.parent().unwrap())
            .envs(variables)
            .env("MCPM_TEST_IMAGES", images.path())
            .output()
            .unwrap()
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
    run_case_in_rust("login", &HashMap::from([("REMOTE", url)])).await;
    assert_eq!(issuer.lock().unwrap().issued, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_case_of_incoming_authentication_passes_in_rust() {
    let auth = AuthCase::start().await;
    run_case_in_rust("auth", &auth.variables).await;
}
