//! Compiles and runs programs in C, and the examples of the C bindings.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::{Command, Stdio},
};

use super::{
    EVERYTHING, Home, HttpServer, SILENT, printed,
    programs::{MEMORY_CHECKS, MemoryCheck, c_program, text},
    run,
};

fn run_proxies(check: MemoryCheck) {
    let server = HttpServer::start();
    let target = format!("http://127.0.0.1:{}/mcp", server.port);
    let output = c_program("tests/bindings/proxy.c", check).arg(target).output().unwrap();
    let lines = "\
1 `transport` is `pigeon`; expected `streamable-http` or `sse`
2 `ftp://nowhere` is not a valid target URI: the scheme is neither `http` nor `https`; use `http://HOST[:PORT][/PATH]` or `https://…`
1 `builder` was used before; create a new one
2 invalid value `many` for `port`: expected a port from 0 to 65535
2 a bearer token cannot be combined with a login at an authorization server; leave out `remote_auth_bearer_token`, or the options for the login
1 `host` is null
1 `builder` is null
1 `proxy` is null
1 `proxy` is null
1 `proxy` is null
4 no denial or reason `tools.unheard`; denials are kept for a limited time; look for `refusal` or `reason` in the error's `data`, or for the header `Mcpm-Refusal`
1 `id` is null
1 `proxy` is null
1 `explanation` is null
";
    assert_eq!(printed(&output), lines);
}

#[test]
fn a_c_program_runs_proxies() {
    run_proxies(MemoryCheck::None);
}

fn run_workloads(check: MemoryCheck) {
    let home = Home::new("c");
    let output = c_program("tests/bindings/workload.c", check)
        .args([EVERYTHING, &home.prefix])
        .env("XDG_STATE_HOME", home.folder.path())
        .output()
        .unwrap();
    let lines = "\
1 `builder` was used before; create a new one
2 invalid value `pigeon` for `transport`: expected `sse`, `streamable-http` or `stdio`
1 `builder` is null
1 `workload` is null
1 `workload` is null
1 `workload` is null
";
    assert_eq!(printed(&output), lines);
    home.assert_ended(&["-freed", "-left", "-used"]);
}

#[test]
fn a_c_program_runs_workloads() {
    run_workloads(MemoryCheck::None);
}

fn use_a_server_without_a_port(check: MemoryCheck) {
    let home = Home::new("embedded");
    let exported = home.folder.path().join("exported.json");
    let output = c_program("tests/bindings/embedded.c", check)
        .args([EVERYTHING, SILENT, &home.prefix])
        .arg(&exported)
        .arg("mcpm-test/everything-http:1")
        .env("XDG_STATE_HOME", home.folder.path())
        .output()
        .unwrap();
    let lines = format!(
        "1 `builder` has options, but a recorded workload starts with its recorded options\n\
         1 `on_started` is null\n{}\n",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(printed(&output), lines);
    assert!(fs::read_to_string(exported).unwrap().contains(EVERYTHING));
    home.assert_ended(&["-left"]);
}

#[test]
fn a_c_program_uses_a_server_without_a_port() {
    use_a_server_without_a_port(MemoryCheck::None);
}

fn run_an_image(check: MemoryCheck) {
    let home = Home::new("example");
    let run = |image: &str| {
        let output = c_program("bindings/c/examples/run.c", check)
            .args([image, "name", &home.prefix, "proxy-port", "0"])
            .env("XDG_STATE_HOME", home.folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        (output.status.code(), text(&output))
    };
    let (code, said) = run(EVERYTHING);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with(&format!("{} http://127.0.0.1:", home.prefix)), "{said}");
    let (code, said) = run(EVERYTHING);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("5: a workload named"), "{said}");
    home.assert_ended(&[""]);
}

#[test]
fn the_c_example_runs_an_image() {
    run_an_image(MemoryCheck::None);
}

/// An entry for a server that needs a secret.
const REGISTRY: &str = r#"{"servers": [{"name": "com.example/keyed", "description": "Server with a key",
    "version": "1.0.0", "packages": [{"registryType": "oci", "identifier": "mcpm-test/everything:1",
    "transport": {"type": "stdio"}, "environmentVariables": [{"name": "THE_KEY", "isRequired": true,
    "isSecret": true}]}]}]}"#;

fn call_tools(check: MemoryCheck) {
    let home = Home::new("tools");
    let registry = home.folder.path().join("registry.json");
    fs::write(&registry, REGISTRY).unwrap();
    let example = |server: &str, more: &[&str]| {
        let mut command = c_program("bindings/c/examples/tools.c", check);
        command.args([server, "test_simple_text", "name", &home.prefix]).args(more);
        command.env("XDG_STATE_HOME", home.folder.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };

    let with_registry = ["registry", registry.to_str().unwrap()];
    let mut calls = example("keyed", &with_registry);
    calls.stdin.take().unwrap().write_all(b"a key\n").unwrap();
    let output = calls.wait_with_output().unwrap();
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    let responses = String::from_utf8(output.stdout).unwrap();
    let expected = ["mcp-conformance-test-server", "test_simple_text", "This is a simple text response"];
    assert_eq!(responses.lines().count(), expected.len(), "{said}");
    assert!(responses.lines().zip(expected).all(|(line, text)| line.contains(text)), "{said}");
    let progress = String::from_utf8(output.stderr).unwrap();
    assert_eq!(progress, format!("THE_KEY: starting {}\n", home.prefix));

    let cancelled = example("keyed", &with_registry).wait_with_output().unwrap();
    assert_eq!(text(&cancelled), "THE_KEY: error: the user cancelled the prompt\n");
    assert_eq!(cancelled.status.code(), Some(130));

    let missing = example("127.0.0.1:1/missing:1", &[]).wait_with_output().unwrap();
    let said = text(&missing);
    assert_eq!(missing.status.code(), Some(1), "{said}");
    let hint = "what to do: check that this machine can reach `127.0.0.1:1`";
    assert_eq!(said.lines().last(), Some(hint), "{said}");

    let mut starting = example(SILENT, &["transport", "stdio"]);
    let mut progress = BufReader::new(starting.stderr.take().unwrap());
    let mut line = String::new();
    progress.read_line(&mut line).unwrap();
    assert_eq!(line, format!("starting {}\n", home.prefix));
    run(Command::new("kill").args(["-INT", &starting.id().to_string()]));
    assert_eq!(starting.wait().unwrap().code(), Some(130));
    line.clear();
    progress.read_to_string(&mut line).unwrap();
    assert_eq!(line, "error: the operation was cancelled\n");
    home.assert_ended(&[]);
}

#[test]
fn the_c_example_calls_tools() {
    call_tools(MemoryCheck::None);
}

#[test]
#[ignore = "nightly: Valgrind takes minutes"]
fn the_memory_of_c_programs_is_checked() {
    for check in MEMORY_CHECKS {
        eprintln!("{check:?}");
        run_proxies(check);
        run_workloads(check);
        use_a_server_without_a_port(check);
        run_an_image(check);
        call_tools(check);
    }
}
