//! Tests the commands that show, stop, start, export and remove workloads, and print their logs.

use std::process::Command;

use serde_json::{Value, json};

use super::support::{Home, Program, PseudoTerminal, Session, docker, engine_shown, inspect, wait_until};

const STDIO: &str = "mcpm-test/everything:1";
const HTTP: &str = "mcpm-test/everything-http:1";

/// Runs each command and checks its exit code.
#[track_caller]
fn all(home: &Home, commands: &[(i32, &[&str])]) {
    for (code, args) in commands {
        let outcome = home.run_and_record(args);
        assert_eq!(outcome.code, Some(*code), "{args:?}: {outcome:?}");
    }
}

#[test]
fn a_workload_keeps_its_url_from_run_to_rm() {
    for (image, kind) in [(STDIO, "stdio"), (HTTP, "http")] {
        let home = Home::new();
        let name = home.name("a");
        let name = name.as_str();
        let url = home.run_and_record(&["run", image, "--name", name]).succeeded().url();
        assert!(Session::open(&url).tools().contains(&"test_simple_text".to_owned()));
        let up = [
            (0, &["list"][..]),
            (0, &["list", "--output", "json"]),
            (0, &["list", "--output", "mcp-json"]),
            (0, &["status", name]),
            (0, &["start", name]),
            (0, &["stop", name]),
            (0, &["stop", name]),
            (0, &["list"]),
            (0, &["list", "--output", "mcp-json"]),
            (0, &["status", name, "--output", "json"]),
        ];
        all(&home, &up);
        for command in ["start", "restart"] {
            assert_eq!(home.run_and_record(&[command, name]).succeeded().url(), url);
            assert!(!Session::open(&url).tools().is_empty());
        }
        assert_eq!(home.status(name)["url"], url);
        all(&home, &[(0, &["rm", name]), (4, &["rm", name]), (0, &["list", "-o", "json"])]);
        home.assert_nothing_left();
        home.assert_transcript(&format!("manage/life_{kind}"));
    }
}

#[test]
fn results_come_as_json_too() {
    let home = Home::new();
    let name = home.name("j");
    let ready = home.run(&["run", STDIO, "--name", &name, "--output", "json"]).succeeded().json();
    assert_eq!(ready, json!({"name": name, "url": home.status(&name)["url"]}));
    home.run(&["stop", &name]).succeeded();
    assert_eq!(home.run(&["start", &name, "--output", "json"]).succeeded().json(), ready);
    assert_eq!(home.run(&["start", &name, "--output", "json"]).succeeded().json(), ready, "it ran already");
    assert_eq!(home.run(&["restart", &name, "--output", "json"]).succeeded().json(), ready);
}

#[test]
fn the_sse_mode_is_offered_to_clients_as_such() {
    let home = Home::new();
    let name = home.name("s");
    let url = home.run(&["run", STDIO, "--name", &name, "--proxy-mode", "sse"]).succeeded().url();
    assert!(url.ends_with("/sse"), "{url}");
    let snippet = home.run(&["list", "--output", "mcp-json"]).succeeded().json();
    assert_eq!(snippet, json!({"mcpServers": {name: {"type": "sse", "url": url}}}));
}

#[test]
fn several_workloads_are_named_at_once_and_one_failure_stops_no_other() {
    let home = Home::new();
    let (one, two) = (home.name("one"), home.name("two"));
    home.run(&["run", STDIO, "--name", &one]).succeeded();
    home.run(&["run", STDIO, "--name", &two]).succeeded();
    let commands = [
        (4, &["stop", "absent", &one][..]),
        (0, &["stop", &one, &two]),
        (2, &["start", &one, &two, "--foreground"]),
        (0, &["start", "--all"]),
        (4, &["rm", &one, "absent"]),
        (0, &["rm", "--all", "--timeout", "0"]),
        (0, &["rm", "--all"]),
    ];
    all(&home, &commands);
    home.assert_nothing_left();
    home.assert_transcript("manage/several");
}

#[test]
fn a_plan_shows_everything_and_touches_nothing() {
    let home = Home::new();
    home.write("file.env", "FROM_FILE=file\n");
    home.write("data/x", "");
    let (name, port) = (home.name("p"), "3000");
    let args =
        [
            &[
                "run",
                HTTP,
                "--plan",
                "--name",
                &name,
                "--label",
                "team=red",
                "--transport",
                "streamable-http",
            ][..],
            &["--env", "GIVEN=given", "--env-file", "file.env", "--volume", "data:/data:ro"],
            &["--publish", "9999:9999/udp", "--target-port", port, "--", "-http", "0.0.0.0:3000"],
        ]
        .concat();
    assert_eq!(home.run_and_record(&args).code, Some(0));
    let args = ["run", HTTP, "--plan", "--name", &name, "--output", "json", "-e", "GIVEN=hush"];
    let plan = home.run_and_record(&args).succeeded();
    assert!(!plan.stdout.contains("hush"), "values may be secrets");
    assert!(!home.path("state").exists());
    home.assert_nothing_left();
    home.replace(&engine_shown(), "ENGINE");
    for field in ["version", "api_version"] {
        home.replace(plan.json()["engine"][field].as_str().unwrap(), "VERSION");
    }
    home.assert_transcript("manage/plan");
}

#[test]
fn an_exported_workload_is_planned_as_it_was() {
    let home = Home::new();
    home.write("file.env", "FROM_FILE=file\n");
    home.write("data/x", "");
    let name = home.name("x");
    home.run(&["group", "create", "tools"]).succeeded();
    let options = [
        &["--name", &name, "--group", "tools", "--label", "team=red", "--env", "A=1", "--env", "B=2,3"][..],
        &["--env-file", "file.env", "--volume", "data:/data:ro", "--publish", "127.0.0.1::9999"],
        &["--host", "127.0.0.2", "--endpoint-prefix", "/p", "--trust-proxy-headers", "--allowed-origins"],
        &["http://a.example,http://b.example", "--", "-http", "0.0.0.0:3000", "-stateless=false"],
    ]
    .concat();
    let plan =
        |args: &[&str]| home.run(&[&["run", "--plan", "-o", "json"], args].concat()).succeeded().json();
    let before = plan(&[&[HTTP][..], &options].concat());
    home.run(&[&["run", HTTP][..], &options].concat()).succeeded();
    home.run(&["export", &name, "exported.json"]).succeeded();
    let printed = home.run_and_record(&["export", &name]).succeeded().stdout;
    assert_eq!(printed, std::fs::read_to_string(home.path("exported.json")).unwrap());
    home.run(&["rm", &name]).succeeded();
    let after = plan(&["--from-config", "exported.json"]);
    let parts = |plan: &Value| {
        let mut spec = plan["spec"].clone();
        // The start in between assigned a port.
        spec["proxy"]["port"].take();
        spec["asked"].as_object_mut().unwrap().remove("proxy_port");
        ["name", "group", "asked", "transport", "proxy", "target", "place"].map(|part| spec[part].clone())
    };
    assert_eq!(parts(&before), parts(&after));
    assert!(before["spec"]["place"]["container"]["mounts"].is_array(), "{before}");
    for value in ["env.A", "publish.9999/tcp", "volume./data", "label.team"] {
        let origins = [&before, &after].map(|plan| plan["spec"]["origins"][value].clone());
        assert_eq!(origins, ["given", "exported_file"], "{value}");
    }
    let url = home.run(&["run", "--from-config", "exported.json"]).succeeded().url();
    assert!(url.starts_with("http://127.0.0.2:"), "{url}");
    assert!(!Session::open(&url).tools().is_empty());
    assert_eq!(
        home.run_and_record(&["run", "--from-config", "exported.json"]).code,
        Some(5),
        "the name is taken now"
    );
    assert_eq!(home.run_and_record(&["export", &name, "no/such/folder/file"]).code, Some(1));
    home.assert_transcript("manage/export");
}

#[test]
fn logs_are_shown_cut_and_followed() {
    let home = Home::new();
    let name = home.name("l");
    let server = mcpm_tests::PYTHON_HTTP_SERVER;
    let script = &format!("echo one; echo two >&2; echo three; exec python3 -c '{server}'");
    let transport = ["--transport", "streamable-http", "--target-port", "3000"];
    let run = [&["run", "mcpm-test/python:1", "--name", &name][..], &transport].concat();
    home.run(&[&run[..], &["--", "sh", "-c", script]].concat()).succeeded();
    let mut follower = Program::start(&mut home.mcpm(&["logs", &name, "--follow"]));
    let mut lines = [(); 3].map(|()| follower.read_line());
    // The order of lines on different streams is undefined.
    lines.sort();
    assert_eq!(lines, ["one", "three", "two"]);
    assert!(home.run(&["logs", &name, "--proxy"]).succeeded().stdout.contains("ready"));
    home.run(&["stop", &name, "--timeout", "0"]).succeeded();
    let followed = follower.wait();
    assert_eq!((followed.code, followed.stderr.as_str()), (Some(0), ""), "it ends with the workload");
    let all = home.run(&["logs", &name]).succeeded().stdout;
    assert_eq!(all, followed.stdout);
    let tail = home.run(&["logs", &name, "--tail", "1"]).succeeded();
    assert_eq!((tail.stdout.lines().count(), tail.stderr.as_str()), (1, ""));
    assert_eq!(home.run(&["logs", &name, "--since", "1h"]).succeeded().stdout, all);
    assert_eq!(home.run(&["logs", &name, "--since", "2999-01-01T00:00:00Z"]).succeeded().stdout, "");
    let stamped = home.run(&["logs", &name, "--timestamps"]).succeeded().stdout;
    for (line, with_time) in all.lines().zip(stamped.lines()) {
        let (time, rest) = with_time.split_once(' ').unwrap();
        assert!(rest == line && time.len() == 24 && time.ends_with('Z'), "{with_time}");
    }
    let json = home.run(&["logs", &name, "-o", "json"]).succeeded().stdout;
    let mut documents: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    documents.sort_by_key(|line| line["text"].to_string());
    let streams =
        documents.iter().map(|line| (line["text"].as_str().unwrap(), line["stream"].as_str().unwrap()));
    let streams: Vec<_> = streams.filter(|(text, _)| ["one", "two", "three"].contains(text)).collect();
    assert_eq!(streams, [("one", "stdout"), ("three", "stdout"), ("two", "stderr")]);
    home.run(&["logs", &name, "--proxy", "-o", "json"]).succeeded();
    let outcome = home.run(&["logs", &name, "--protocol", "--follow"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
}

/// A server that writes to standard error, and the process that runs it on each runtime.
#[test]
fn the_log_of_a_stdio_server_goes_on_over_restarts_and_has_no_messages() {
    for runtime in ["docker", "builtin"] {
        let home = Home::new();
        let name = home.name("s");
        if runtime == "builtin" {
            home.copy_images(&["mcpm-test/python:1"]);
        }
        let script = "echo up >&2; exec mcp-server-fetch";
        let run = [
            "run",
            "mcpm-test/python:1",
            "--transport",
            "stdio",
            "--runtime",
            runtime,
            "--offline",
            "--name",
            &name,
        ];
        let url = home.run(&[&run[..], &["--", "sh", "-c", script]].concat()).succeeded().url();
        let mut follower = Program::start(&mut home.mcpm(&["logs", &name, "--follow"]));
        assert_eq!(follower.read_line(), "up");
        let mut messages = Program::start(&mut home.mcpm(&["logs", &name, "--follow", "--protocol"]));
        let lock = home.record_dir(&name).join("protocol.lock");
        wait_until("messages are read", || lock.exists());
        assert!(!Session::open(&url).tools().is_empty());
        let message: Value = serde_json::from_str(&messages.read_line()).unwrap();
        assert_eq!(message["jsonrpc"], "2.0");
        messages.signal("INT");
        assert_eq!(messages.wait().code, Some(0));
        assert!(!lock.exists() && !home.record_dir(&name).join("protocol").exists());
        // The server, its container and the workload.
        home.run(&["restart", &name]).succeeded();
        assert_eq!(follower.read_line(), "up");
        if runtime == "docker" {
            docker(&["rm", "--force", &name]);
            assert_eq!(follower.read_line(), "up");
            home.wait_for_status(&name, "running");
            let kept = Command::new("docker").args(["logs", &name]).output().unwrap();
            assert!(!kept.status.success() && kept.stdout.is_empty(), "{kept:?}");
        }
        assert!(!Session::open(&url).tools().is_empty());
        home.run(&["stop", &name]).succeeded();
        let followed = follower.wait();
        assert_eq!((followed.code, followed.stderr.as_str()), (Some(0), ""));
        let log = home.run(&["logs", &name]).succeeded().stdout;
        assert_eq!(log, followed.stdout);
        assert!(log.starts_with("up\n") && !log.contains("jsonrpc"), "{log}");
    }
}

#[test]
fn watching_shows_each_change() {
    let home = Home::new();
    let name = home.name("w");
    let mut lines = Program::start(&mut home.mcpm(&["list", "--watch"]));
    let mut documents = Program::start(&mut home.mcpm(&["list", "--watch", "--output", "json"]));
    let commands = [
        (&["run", STDIO, "--name", &name][..], "running"),
        (&["stop", &name], "stopped"),
        (&["rm", &name], "removed"),
    ];
    for (command, status) in commands {
        home.run(command).succeeded();
        // Events in between may be skipped.
        let expected = format!("  {name}  {status}");
        while !lines.read_line().contains(&expected) {}
        let mut next = || serde_json::from_str::<Value>(&documents.read_line()).unwrap();
        while next()["status"] != status {}
    }
    for watch in [lines, documents] {
        watch.signal("INT");
        assert_eq!(watch.wait().code, Some(0));
    }
    assert_eq!(home.run(&["list", "--watch", "--output", "mcp-json"]).code, Some(2));
}

#[test]
fn a_terminal_is_redrawn_while_it_is_watched() {
    let home = Home::new();
    let name = home.name("w");
    // Without `exec`, the shell would exit with a code for the signal.
    let line = format!("exec {} list --watch", home.program());
    let mut terminal = PseudoTerminal::spawn(home.command("script"), &line);
    terminal.expect("\u{1b}[H\u{1b}[2JNAME");
    home.run(&["run", STDIO, "--name", &name]).succeeded();
    terminal.expect(&name);
    terminal.expect_then_type("running", "\u{3}");
    assert_eq!(terminal.wait().0, Some(0));
}

/// The supervisor stops the server, so it must know the server's grace period.
#[test]
fn the_time_that_a_server_has_to_exit_is_the_one_that_was_given() {
    let home = Home::new();
    let server = mcpm_tests::PYTHON_HTTP_SERVER;
    let script = &format!("trap 'sleep 1; exit 7' TERM; python3 -c '{server}' & wait");
    for (timeout, exit_code) in [(&[][..], 7), (&["--timeout", "0"], 137)] {
        let name = home.name(&format!("e{exit_code}"));
        let run = ["run", "mcpm-test/python:1", "--name", &name, "--transport", "streamable-http"];
        home.run(&[&run[..], &["--target-port", "3000", "--", "sh", "-c", script]].concat()).succeeded();
        home.run(&[&["stop", &name][..], timeout].concat()).succeeded();
        assert_eq!(inspect(&name)["State"]["ExitCode"], exit_code, "{timeout:?}");
    }
}
