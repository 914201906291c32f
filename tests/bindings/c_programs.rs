//! Programs in C, and the examples of the C bindings.

use std::{fs, process::Stdio};

use super::{
    EVERYTHING, Home, HttpServer, SILENT, printed,
    programs::{MEMORY_CHECKS, MemoryCheck, c_program, text},
};

fn run_proxies(check: MemoryCheck) {
    let server = HttpServer::start();
    let target = format!("http://127.0.0.1:{}/mcp", server.port);
    let output = c_program("tests/bindings/proxy.c", check).arg(target).output().unwrap();
    let lines = "\
2 `ftp://nowhere` is not a valid target URI: the scheme is neither `http` nor `https`; use `http://HOST[:PORT][/PATH]` or `https://…`
1 `builder` was used before; create a new one
2 invalid value `many` for `port`: expected a port from 0 to 65535
2 a bearer token replaces the login at an authorization server; leave out `remote_auth_bearer_token`, or the other options of `remote_auth`
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
        .env("XDG_STATE_HOME", home.folder.path())
        .output()
        .unwrap();
    let lines = format!("1 `on_started` is null\n{}\n", env!("CARGO_PKG_VERSION"));
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

#[test]
#[ignore = "nightly: Valgrind takes minutes"]
fn the_memory_of_c_programs_is_checked() {
    for check in MEMORY_CHECKS {
        eprintln!("{check:?}");
        run_proxies(check);
        run_workloads(check);
        use_a_server_without_a_port(check);
        run_an_image(check);
    }
}
