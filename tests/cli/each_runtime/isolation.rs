//! Tests the connections and the limits of a server with a permission profile.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener},
    thread,
};

use mcpm_tests::harness::poll::wait_for;
use serde_json::{Value, json};

use super::server::{says, start};
use crate::support::{Home, wait_until};

/// An address from the range for documentation, which no host has.
const UNREACHABLE_ADDRESS: &str = "198.51.100.7";

/// A server on this machine, at an address that no container has, which responds to each request with `reached`.
struct Listener(u16);

impl Listener {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 5), 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 8\r\n\r\nreached\n");
            }
        });
        Self(port)
    }

    fn host(&self) -> String {
        format!("127.0.0.5:{}", self.0)
    }
}

/// Fetches a URL through the HTTP proxy of mcpm.
fn fetch(host: &str) -> String {
    format!("/probe tcp 127.0.0.1 3128 'GET http://{host}/ HTTP/1.0'")
}

/// Fetches a URL without a proxy.
fn fetch_directly(address: &str, port: u16) -> String {
    format!("/probe tcp {address} {port} 'GET / HTTP/1.0'")
}

/// Resolves a name.
fn look_up(name: &str) -> String {
    format!("/probe dns 127.0.0.1 53 {name}")
}

fn profile(home: &Home, profile: &Value) {
    home.write("profile.json", &profile.to_string());
}

/// Attempts that must fail for every server, and the rule that each denial names in the log of the workload.
fn assert_denied(home: &Home, name: &str, other: &Listener, rule: &str) {
    for attempt in [
        fetch("other.example"),
        fetch(&other.host()),
        fetch("169.254.169.254"),
        fetch(UNREACHABLE_ADDRESS),
        fetch_directly("127.0.0.5", other.0),
        fetch_directly(UNREACHABLE_ADDRESS, 80),
        fetch_directly("169.254.169.254", 80),
    ] {
        let said = says(home, &attempt);
        assert!(said.starts_with("probe: ") || said.contains(" 403 "), "{attempt}: {said}");
    }
    assert_eq!(says(home, &look_up("secret.other.example")), "0 addresses\n");
    // The container has no other network interface.
    assert_eq!(says(home, "ls /proc/sys/net/ipv4/conf | grep -v -e all -e default"), "lo\n");
    for host in ["other.example", UNREACHABLE_ADDRESS, "169.254.169.254", "secret.other.example"] {
        // A separate thread writes the log.
        wait_until(&format!("the denial of {host} is in the log"), || {
            let log = home.run(&["logs", name, "--proxy"]).succeeded().stdout;
            log.lines().any(|line| line.contains(host) && line.contains(rule))
        });
    }
}

pub(super) fn a_server_reaches_what_its_profile_names_and_nothing_else(home: &Home) {
    let (allowed, other) = (Listener::start(), Listener::start());
    profile(home, &json!({"network": {"outbound": {"allow_host": [allowed.host()]}}}));
    let name = home.name("p");
    start(home, &name, &["--permission-profile", "profile.json"]);
    let said = says(home, &fetch(&allowed.host()));
    assert!(said.ends_with("\r\n\r\nreached\n"), "{said}");
    assert_denied(home, &name, &other, "not-allowed");
    home.run(&["restart", &name]).succeeded();
    assert!(says(home, &fetch(&allowed.host())).ends_with("reached\n"));
    assert!(!says(home, &fetch(&other.host())).contains("reached"));
}

pub(super) fn the_none_profile_has_no_network(home: &Home) {
    let other = Listener::start();
    let name = home.name("n");
    start(home, &name, &["--permission-profile", "none"]);
    assert_denied(home, &name, &other, "no-network");
}

pub(super) fn a_denied_connection_is_explained_and_its_fix_works(home: &Home) {
    let listener = Listener::start();
    let name = home.name("e");
    profile(home, &json!({"network": {"outbound": {"allow_host": ["other.example"]}}}));
    start(home, &name, &["--permission-profile", "profile.json"]);
    says(home, &fetch(&listener.host()));
    let explained = wait_for("the denial is recorded", || {
        let log = home.run(&["logs", &name, "--proxy"]).succeeded().stdout;
        let (_, id) = log.lines().find(|line| line.contains("127.0.0.5"))?.split_once("refusal=")?;
        let id: String = id.trim_start_matches('"').chars().take_while(char::is_ascii_alphanumeric).collect();
        // The log may be written before the record.
        let outcome = home.run(&["explain", &id, "--output", "json"]);
        (outcome.code == Some(0)).then(|| outcome.json())
    });
    assert_eq!(explained["layer"], "isolation", "{explained}");
    let refusal = &explained["refusal"];
    assert_eq!((&refusal["server"], &refusal["inputs"]["host"]), (&json!(name), &json!("127.0.0.5")));
    // The fix says "add `HOST:PORT` to `network.outbound.allow_host`".
    let mut words = refusal["fix"].as_str().unwrap().split('`');
    let (host, setting) = (words.nth(1).unwrap(), words.nth(1).unwrap());
    assert_eq!((host, setting), (listener.host().as_str(), "network.outbound.allow_host"));
    home.run(&["rm", &name]).succeeded();
    profile(home, &json!({"network": {"outbound": {"allow_host": ["other.example", host]}}}));
    std::fs::remove_dir_all(home.path("box")).unwrap();
    start(home, &name, &["--permission-profile", "profile.json"]);
    assert!(says(home, &fetch(&listener.host())).ends_with("reached\n"));
}

pub(super) fn a_recorded_profile_allows_what_was_used(home: &Home) {
    let used = Listener::start();
    let name = home.name("l");
    start(home, &name, &["--learn", "learnt.json"]);
    // Even then, this machine cannot be reached.
    assert!(!says(home, &fetch(&used.host())).contains("reached"));
    assert_eq!(says(home, &look_up("a.example")), "1 addresses\n");
    home.run(&["stop", &name]).succeeded();
    let learnt: Value =
        serde_json::from_str(&std::fs::read_to_string(home.path("learnt.json")).unwrap()).unwrap();
    assert_eq!(learnt["network"]["outbound"]["allow_host"], json!(["a.example"]), "{learnt}");
    home.run(&["rm", &name]).succeeded();
    // The result can be used as a profile that allows the volume.
    let plan = [
        "run",
        super::server::IMAGE,
        "--plan",
        "--transport",
        "stdio",
        "--permission-profile",
        "learnt.json",
    ];
    let plan = home.run(&plan).succeeded().stdout;
    assert!(plan.contains("-> /box"), "{plan}");
}

pub(super) fn limits_of_a_profile_hold(home: &Home) {
    profile(home, &json!({"network": {}, "resources": {"memory": "64m", "cpus": 0.5, "pids": 24}}));
    let name = home.name("m");
    start(home, &name, &["--permission-profile", "profile.json"]);
    // A pattern space of `sed` that is as large as its only line.
    let said = says(home, "tr '\\000' a < /dev/zero | head -c 200000000 | sed p > /dev/null; echo $?");
    assert!(said.ends_with("137\n"), "{said}");
    let said = says(
        home,
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do sleep 2 & done",
    );
    assert!(said.contains("fork"), "{said}");
    // The control group of a container of the built-in runtime is removed with it.
    assert_ne!(home.control_groups().is_empty(), home.is_builtin());
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}

pub(super) fn limits_without_control_groups_are_rejected(home: &Home) {
    profile(home, &json!({"network": {}, "resources": {"memory": "64m"}}));
    let run = ["run", super::server::IMAGE, "--permission-profile", "profile.json", "--transport", "stdio"];
    let outcome = home.run(&run);
    assert_eq!(outcome.code, Some(3), "{outcome:?}");
    assert!(outcome.stderr.contains("cannot limit memory or processor time"), "{outcome:?}");
    home.assert_nothing_left();
}
