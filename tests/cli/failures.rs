//! Checks that a failed start reports the cause and leaves nothing behind: no container, no record, no process. Also
//! tests damaged records.

use std::{fs, net::TcpListener};

use super::support::Home;

const STDIO: &str = "mcpm-test/everything:1";
const HTTP: &str = "mcpm-test/everything-http:1";
const QUICK_EXIT: &str = "mcpm-test/quick-exit:1";
const SILENT: &str = "mcpm-test/silent:1";
const DEBIAN: &str = "mcpm-test/python:1";

/// Runs a command that fails, detached and in the foreground, and checks that nothing is left.
#[track_caller]
fn fails(home: &Home, code: i32, args: &[&str]) {
    for foreground in ["--foreground=false", "--foreground"] {
        let name = home.name("f");
        let outcome = home.run_and_record(&[&["run", foreground, "--name", &name], args].concat());
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(code), ""), "{args:?}: {outcome:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "one message: {outcome:?}");
        home.assert_nothing_left();
    }
}

#[test]
fn a_container_that_exits_at_once_is_quoted() {
    let home = Home::new();
    fails(&home, 8, &[QUICK_EXIT]);
    fails(&home, 8, &[QUICK_EXIT, "--transport", "streamable-http"]);
    fails(&home, 8, &[DEBIAN, "--", "no-such-program"]);
    fails(&home, 8, &[DEBIAN, "--transport", "sse", "--", "no-such-program"]);
    home.assert_transcript("failures/exits_at_once");
}

#[test]
fn a_server_of_another_transport_is_named_with_the_fix() {
    let home = Home::new();
    fails(&home, 8, &[STDIO, "--transport", "streamable-http"]);
    fails(&home, 8, &[STDIO, "--transport", "sse"]);
    fails(&home, 8, &[HTTP, "--transport", "stdio"]);
    fails(&home, 8, &[HTTP, "--transport", "sse"]);
    home.assert_transcript("failures/other_transport");
}

#[test]
fn a_server_that_listens_elsewhere_is_named_with_the_fix() {
    let home = Home::new();
    fails(&home, 8, &[HTTP, "--target-port", "99"]);
    fails(&home, 8, &[HTTP, "--", "-http", "127.0.0.1:3000"]);
    home.assert_transcript("failures/listens_elsewhere");
}

#[test]
fn a_container_that_serves_no_mcp_is_refused() {
    let home = Home::new();
    let served = ["--transport", "streamable-http", "--target-port", "3000", "--"];
    fails(&home, 8, &[&[DEBIAN][..], &served, &["python3", "-m", "http.server", "3000"]].concat());
    home.assert_transcript("failures/no_mcp");
}

#[test]
#[ignore = "nightly: the time limit is a minute"]
fn a_silent_server_is_given_up() {
    let home = Home::new();
    let (stdio, http) = (home.name("stdio"), home.name("http"));
    let stdio = super::support::Program::start(&mut home.mcpm(&["run", SILENT, "--name", &stdio]));
    let run = ["run", SILENT, "--name", &http, "--transport", "streamable-http", "--target-port", "80"];
    assert_eq!(home.run_and_record(&run).code, Some(8));
    let outcome = stdio.wait();
    home.append_to_transcript("mcpm run --name T-stdio mcpm-test/silent:1", &outcome);
    assert_eq!(outcome.code, Some(8));
    home.assert_nothing_left();
    home.assert_transcript("failures/silent");
}

#[test]
fn a_port_that_is_taken_is_named_with_its_holder() {
    let home = Home::new();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port().to_string();
    home.replace(fs::read_to_string("/proc/self/comm").unwrap().trim(), "HOLDER");
    // The name of the program, even if this runs on a thread that has another name.
    let program = fs::read_to_string(format!("/proc/{}/comm", std::process::id())).unwrap();
    home.replace(program.trim(), "HOLDER");
    fails(&home, 5, &[STDIO, "--proxy-port", &port]);
    fails(&home, 5, &[STDIO, "--publish", &format!("{port}:80")]);
    let (first, second) = (home.name("first"), home.name("second"));
    let url = home.run(&["run", STDIO, "--name", &first]).succeeded().url();
    let port = url.rsplit(':').next().unwrap().trim_end_matches("/mcp").to_owned();
    assert_eq!(home.run_and_record(&["run", STDIO, "--name", &second, "--proxy-port", &port]).code, Some(5));
    home.run(&["stop", &first]).succeeded();
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
    assert_eq!(home.run_and_record(&["start", &first]).code, Some(5));
    assert_eq!(home.status(&first)["status"], "stopped", "a failed start changes nothing");
    drop(listener);
    home.run(&["start", &first]).succeeded();
    home.run(&["rm", &first]).succeeded();
    home.assert_nothing_left();
    home.assert_transcript("failures/port_taken");
}

#[test]
fn a_record_that_cannot_be_written_is_an_error() {
    let home = Home::new();
    home.write("state", "a file");
    fails(&home, 1, &[STDIO]);
    home.assert_transcript("failures/state");
}

#[test]
fn a_record_that_is_damaged_can_be_seen_and_removed() {
    let home = Home::new();
    let name = home.name("d");
    home.run(&["run", STDIO, "--name", &name]).succeeded();
    home.run(&["stop", &name]).succeeded();
    fs::write(home.record_dir(&name).join("spec.json"), "{\"version\": 1, \"na").unwrap();
    for (code, args) in [
        (0, &["list"][..]),
        (0, &["status", &name]),
        (1, &["start", &name]),
        (1, &["export", &name]),
        (0, &["rm", &name]),
    ] {
        assert_eq!(home.run_and_record(args).code, Some(code), "{args:?}");
    }
    home.assert_nothing_left();
    home.assert_transcript("failures/damaged");
}
