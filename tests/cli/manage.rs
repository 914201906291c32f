//! Workloads that run: shown, stopped, started, logged, exported and removed.

use std::process::Command;

use serde_json::{Value, json};

use super::support::{Home, Program, Session, engine_shown, inspect};

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
        // A port was assigned by the start in between.
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
    // The order of lines on different streams is not known.
    lines.sort();
    assert_eq!(lines, ["one", "three", "two"]);
    assert!(home.run(&["logs", &name, "--proxy"]).succeeded().stdout.contains("ready"));
    home.run(&["stop", &name, "--timeout", "0"]).succeeded();
    let followed = follower.wait();
    assert_eq!((followed.code, followed.stderr.as_str()), (Some(0), ""), "it ends with the workload");
    let all = home.run(&["logs", &name]).succeeded().stdout;
    assert_eq!(all, followed.stdout);
    let tail = home.run(&["logs", &name, "--tail", "1"]).succeeded();
    assert_eq!(tail.stdout.lines().count() + tail.stderr.lines().count(), 1, "{tail:?}");
}

/// The supervisor stops the server, so it must know how long that may take.
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
