//! Tests `mcpm proxy stdio`: a workload for clients that support only stdio servers.

use std::{
    io::{BufRead as _, BufReader, Lines, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use mcpm_tests::harness::{
    mcp::{LEGACY, MODERN, initialize, notification, request},
    upstream::{Upstream, UpstreamResponse},
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::support::{Home, testbed_variable};

/// Runs one of the published clients with `mcpm proxy stdio` as its command.
#[track_caller]
fn run_client(home: &Home, interpreter: &str, script: &str, [mode, tool]: [&str; 2], name: &str) -> Value {
    let mut client = home.command(testbed_variable(interpreter));
    client.arg(mcpm_tests::root().join("tests/clients").join(script));
    client.args([mode, tool, &home.program(), "proxy", "stdio", name]);
    client.env("MCPM_TEST_NODE_MODULES", testbed_variable("MCPM_TEST_NODE_MODULES"));
    let output = client.output().unwrap();
    assert!(output.status.success(), "{script} {mode}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn assert_served(found: &Value, protocol: &str) {
    assert_eq!(found["protocol"], protocol, "{found}");
    assert!(found["tools"].as_array().unwrap().contains(&json!("test_simple_text")), "{found}");
    assert!(!found["progress"].as_array().unwrap().is_empty(), "{found}");
    assert!(found["sampled"].to_string().contains("a sample"), "{found}");
}

#[test]
fn published_clients_use_a_workload_as_a_command() {
    let home = Home::new();
    let name = home.name("everything");
    home.run(&["run", "mcpm-test/everything:1", "--name", &name]).succeeded();
    for (interpreter, script) in
        [("MCPM_TEST_PYTHON", "stdio_client.py"), ("MCPM_TEST_NODE", "stdio_client.mjs")]
    {
        let found = run_client(&home, interpreter, script, ["legacy", "test_sampling"], &name);
        assert_served(&found, LEGACY);
        let tool = "test_input_required_result_sampling";
        assert_served(&run_client(&home, interpreter, script, ["auto", tool], &name), MODERN);
    }
    home.run(&["rm", &name]).succeeded();
    home.run(&["run", "mcpm-test/everything:1", "--name", &name, "--proxy-mode", "sse"]).succeeded();
    let found = run_client(&home, "MCPM_TEST_PYTHON", "stdio_client.py", ["legacy", "test_sampling"], &name);
    assert_served(&found, LEGACY);
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}

/// A running `mcpm proxy stdio`.
struct Bridge {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Bridge {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output).lines() }
    }

    fn send(&mut self, message: Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn ask(&mut self, message: Value) -> Value {
        let id = message["id"].clone();
        self.send(message);
        loop {
            let line = self.output.next().unwrap().unwrap();
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id && message["method"].is_null() {
                return message;
            }
        }
    }
}

#[test]
fn a_session_survives_a_workload_that_is_stopped_and_started() {
    let home = Home::new();
    let name = home.name("everything");
    home.run(&["run", "mcpm-test/everything:1", "--name", &name]).succeeded();
    let mut bridge = Bridge::start(home.mcpm(&["proxy", "stdio", &name]));
    let opened = bridge.ask(initialize(LEGACY, json!({})));
    assert_eq!(opened["result"]["protocolVersion"], LEGACY, "{opened}");
    bridge.send(notification("notifications/initialized", json!({})));
    assert!(bridge.ask(request(1, "tools/list", json!({})))["result"]["tools"].is_array());
    home.run(&["stop", &name]).succeeded();
    let failed = bridge.ask(request(2, "tools/list", json!({})));
    assert!(failed["error"]["message"].is_string(), "{failed}");
    home.run(&["start", &name]).succeeded();
    let again = bridge.ask(request(3, "tools/list", json!({})));
    assert!(again["result"]["tools"].is_array(), "{again}");
    // The command exits at the end of its input.
    drop(bridge.input);
    assert!(bridge.output.next().is_none());
    assert_eq!(bridge.child.wait().unwrap().code(), Some(0));
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}

#[test]
fn a_server_that_restarts_behind_a_load_balancer_gets_a_session_again() {
    const UP: u32 = 1;
    const AWAY: u32 = 2;
    let runtime = Runtime::new().unwrap();
    // The id of the only session that the server knows. While the id is `AWAY`, the server responds with 503.
    let state = Arc::new(AtomicU32::new(UP));
    let upstream = runtime.block_on(Upstream::listen());
    let url = upstream.uri("/mcp");
    let shared = Arc::clone(&state);
    let serve = async move {
        upstream.serve(move |request| {
            let state = shared.load(Ordering::Relaxed);
            let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
            let result = match message["method"].as_str().unwrap_or_default() {
                "initialize" => json!({ "protocolVersion": LEGACY, "capabilities": {}, "serverInfo": {} }),
                _ => json!({ "tools": [] }),
            };
            let session = state.to_string();
            let is_known = request.headers.get("mcp-session-id").is_none_or(|known| *known == session);
            let (status, body) = match message["method"].as_str() {
                _ if !is_known => ("404 Not Found", json!({})),
                _ if state == AWAY => {
                    let error = json!({ "code": -32000, "message": "no instance is ready" });
                    ("503 Service Unavailable", json!({ "jsonrpc": "2.0", "id": null, "error": error }))
                }
                None => ("405 Method Not Allowed", json!({})),
                Some("notifications/initialized") => ("202 Accepted", json!({})),
                Some(_) => ("200 OK", json!({ "jsonrpc": "2.0", "id": message["id"], "result": result })),
            };
            UpstreamResponse {
                status: status.to_owned(),
                headers: format!("Content-Type: application/json\r\nMcp-Session-Id: {session}\r\n"),
                body: body.to_string(),
            }
        });
    };
    runtime.block_on(serve);
    let home = Home::without_engine();
    let mut bridge = Bridge::start(home.mcpm(&["proxy", "stdio", &url]));
    assert!(bridge.ask(initialize(LEGACY, json!({})))["result"].is_object());
    bridge.send(notification("notifications/initialized", json!({})));
    assert!(bridge.ask(request(1, "tools/list", json!({})))["result"].is_object());
    state.store(AWAY, Ordering::Relaxed);
    for number in 2..4 {
        let failed = bridge.ask(request(number, "tools/list", json!({})));
        assert!(failed["error"]["message"].as_str().unwrap().contains("503"), "{failed}");
    }
    state.store(AWAY + 1, Ordering::Relaxed);
    let again = bridge.ask(request(4, "tools/list", json!({})));
    assert!(again["result"].is_object(), "{again}");
    drop(bridge.input);
    assert_eq!(bridge.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_signal_ends_it_while_its_input_is_open() {
    let home = Home::without_engine();
    for signal in ["TERM", "INT"] {
        let mut bridge = Bridge::start(home.mcpm(&["proxy", "stdio", "http://127.0.0.1:1/mcp"]));
        assert!(bridge.ask(request(1, "ping", json!({})))["error"].is_object());
        let pid = bridge.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
        assert!(bridge.output.next().is_none());
        assert_eq!(bridge.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn what_cannot_be_served_is_refused() {
    let home = Home::without_engine();
    for (code, args) in [
        (2, &[][..]),
        (4, &["absent"]),
        (2, &["ftp://127.0.0.1/mcp"]),
        (2, &["http://user:hush@127.0.0.1:1/mcp"]),
        (2, &["http://127.0.0.1:1/mcp", "--transport", "stdio"]),
        (2, &["http://a.example/mcp", "--remote-forward-headers", "Authorization=Bearer hush"]),
        (4, &["http://127.0.0.1:1/mcp", "--remote-forward-headers-secret", "Authorization=absent"]),
    ] {
        let outcome = home.run_and_record(&[&["proxy", "stdio"][..], args].concat());
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(code), ""), "{args:?}: {outcome:?}");
        assert!(!outcome.stderr.contains("hush"), "{outcome:?}");
    }
    home.assert_transcript("proxy/stdio_refused");
}
