//! Tests `--enable-audit`, `--audit-config` and `mcpm explain`.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
};

use serde_json::{Value, json};

use super::support::{Home, Program, Session};

#[test]
fn an_audit_configuration_that_is_wrong_is_refused_before_anything_starts() {
    let home = Home::without_engine();
    home.write("unknown.json", r#"{"logfile": "audit.jsonl"}"#);
    home.write("size.yaml", "maxDataSize: 0\n");
    home.write("type.json", r#"{"eventTypes": ["tool_call"]}"#);
    home.write("off.json", r#"{"enabled": false}"#);
    home.write("nowhere.json", r#"{"logFile": "nowhere/audit.jsonl"}"#);
    home.write("stdout.json", r#"{"sink": "stdout"}"#);
    home.write("rotated.yaml", "rotateCount: 3\n");
    home.write("lost.yaml", "excludeEventTypes: [events_lost]\n");
    home.write("nothing.yaml", "eventTypes: [mcp_ping]\nexcludeEventTypes: [mcp_ping]\n");
    let proxy = ["proxy", "p", "--target-uri", "http://127.0.0.1:1/mcp"];
    for (code, config, more, says) in [
        (4, "missing.json", None, "cannot read the audit configuration `missing.json`"),
        (
            2,
            "unknown.json",
            None,
            "`unknown.json` is not a valid audit configuration: unknown field `logfile`",
        ),
        (2, "size.yaml", None, "`maxDataSize` is 0; it must be from 1 to 1048576"),
        (2, "type.json", None, "the event type `tool_call` is unknown"),
        (2, "off.json", Some("--enable-audit"), "`enabled` in the configuration turns it off"),
        (
            2,
            "rotated.yaml",
            None,
            "`rotateSize` and `rotateCount` apply to files, but the sink is not a file",
        ),
        (2, "lost.yaml", None, "`events_lost` cannot be excluded"),
        (2, "nothing.yaml", None, "`eventTypes` and `excludeEventTypes` leave nothing to record"),
        (1, "nowhere.json", None, "cannot write the audit log `nowhere/audit.jsonl`"),
    ] {
        let args = [&proxy[..], &["--audit-config", config], more.as_slice()].concat();
        let outcome = home.run(&args);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(code), ""), "{args:?}: {outcome:?}");
        assert_eq!(outcome.stderr.lines().count(), 1, "one message: {outcome:?}");
        assert!(outcome.stderr.contains(says), "{args:?}: {outcome:?}");
    }
    assert!(!home.path("nowhere").exists() && !home.path("state").exists());
}

/// Sends a request that is denied, from a page of another origin, and returns the id of the denial.
fn refused(url: &str) -> String {
    let address = url.strip_prefix("http://").unwrap().trim_end_matches("/mcp");
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET /mcp HTTP/1.1\r\nHost: {address}\r\nOrigin: https://evil.example\r\n");
    write!(stream, "{head}Connection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    body["error"]["data"]["refusal"].as_str().unwrap().to_owned()
}

#[test]
fn a_proxy_writes_its_audit_log_to_standard_output_and_its_refusals_are_explained() {
    let home = Home::without_engine();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let target = format!("http://{closed}/mcp");
    let mut proxy =
        Program::start(&mut home.mcpm(&["proxy", "my front", "--target-uri", &target, "--enable-audit"]));
    let url = proxy.read_line().split_whitespace().last().unwrap().to_owned();
    let answer = Session::without_session(&url).list_tools();
    assert!(answer["error"]["message"].is_string(), "{answer}");
    let call: Value = serde_json::from_str(&proxy.read_line()).unwrap();
    assert_eq!((&call["level"], &call["outcome"]), (&json!("AUDIT"), &json!("error")), "{call}");
    assert_eq!(call["source"]["value"], "127.0.0.1");
    let refusal = refused(&url);
    let denied: Value = serde_json::from_str(&proxy.read_line()).unwrap();
    assert_eq!(denied["metadata"]["extra"]["refusal"], json!(refusal), "{denied}");
    // Another process explains the denial, while the proxy runs and afterwards.
    let explained = home.run(&["explain", &refusal, "--output", "json"]).succeeded().json();
    proxy.signal("TERM");
    let outcome = proxy.wait();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(home.run(&["explain", &refusal, "--output", "json"]).succeeded().json(), explained);
    assert_eq!(explained["reason"], "origin.not_allowed");
    let refused = &explained["refusal"];
    assert_eq!(
        (&refused["server"], &refused["inputs"]["Origin"]),
        (&json!("my front"), &json!("https://evil.example"))
    );
    assert_eq!(
        refused["fix"],
        "if you trust the page, add `https://evil.example` to option `allowed_origins`"
    );
    for (args, code, lines) in [
        (
            &["explain", refusal.as_str()][..],
            0,
            &["origin.not_allowed", "my front", "https://evil.example"][..],
        ),
        (&["explain", "tools.not_listed"], 0, &["usual fix", "call a tool by its name in the tool list"]),
        (&["explain", "tools.not_listed", "-o", "json"], 0, &[r#""layer": "tools""#]),
        (&["explain", "0123456789abcdef0123"], 4, &["no denial or reason"]),
        (&["explain", "../../etc/passwd"], 4, &["`Mcpm-Refusal`"]),
        (&["explain"], 2, &["<ID>"]),
    ] {
        let outcome = home.run(args);
        assert_eq!(outcome.code, Some(code), "{args:?}: {outcome:?}");
        let text = outcome.stdout.clone() + &outcome.stderr;
        assert!(lines.iter().all(|line| text.contains(line)), "{args:?}: {outcome:?}");
    }
}

#[test]
fn a_workload_is_recorded_in_its_folder_until_it_is_removed() {
    let home = Home::new();
    let name = home.name("audited");
    let run =
        ["run", "mcpm-test/everything:1", "--name", &name, "--enable-audit", "--tools", "!test_simple_text"];
    let url = home.run(&run).succeeded().url();
    Session::open(&url).tools();
    let refusal = refused(&url);
    let explained = home.run(&["explain", &refusal, "-o", "json"]).succeeded().json();
    assert_eq!(explained["refusal"]["server"], json!(name));
    home.run(&["stop", &name]).succeeded();
    let log = home.record_dir(&name).join("audit.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let has = |kind: &str, outcome: &str| {
        events.iter().any(|event| event["type"] == kind && event["outcome"] == outcome)
    };
    assert!(has("mcp_initialize", "success") && has("mcp_tools_list", "success"), "{text}");
    assert!(has("http_request", "denied"), "{text}");
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
    // Configurations that a workload cannot have are rejected at once, and nothing is recorded.
    home.write("stdout.json", r#"{"sink": "stdout"}"#);
    let outcome =
        home.run(&["run", "mcpm-test/everything:1", "--name", &name, "--audit-config", "stdout.json"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.stderr.contains("set `logFile`"), "{outcome:?}");
    home.assert_nothing_left();
}
