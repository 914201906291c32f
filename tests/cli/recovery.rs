//! Checks that the displayed status is true and that a workload recovers, whichever of its processes was killed. Also
//! tests runs in the foreground, interrupted starts and concurrent starts.

use std::process::Command;

use serde_json::{Value, json};

use super::support::{
    Home, OwnEngine, Program, PseudoTerminal, Session, docker, inspect, is_alive, kill, wait_until,
};

const STDIO: &str = "mcpm-test/everything:1";
const HTTP: &str = "mcpm-test/everything-http:1";
const SILENT: &str = "mcpm-test/silent:1";

fn is_running(container: &str) -> bool {
    inspect(container)["State"]["Running"] == true
}

/// Kills the supervisor of a workload, and waits for its end.
#[track_caller]
fn kill_supervisor(home: &Home, name: &str) {
    let pid = home.supervisor(name);
    kill("KILL", pid);
    wait_until("the supervisor is gone", || !is_alive(pid));
}

#[test]
fn a_killed_supervisor_is_detected_and_replaced() {
    for (image, kind) in [(STDIO, "stdio"), (HTTP, "http")] {
        let home = Home::new();
        let name = home.name(kind);
        let url = home.run_and_record(&["run", image, "--name", &name]).succeeded().url();
        for command in ["restart", "start"] {
            kill_supervisor(&home, &name);
            assert!(is_running(&name), "the container lives on");
            home.run_and_record(&["list"]).succeeded();
            home.run_and_record(&["status", &name]).succeeded();
            home.run_and_record(&["list", "--output", "mcp-json"]).succeeded();
            assert_eq!(home.run_and_record(&[command, &name]).succeeded().url(), url);
            assert!(!Session::open(&url).tools().is_empty());
            assert_eq!(home.status(&name)["status"], "running");
        }
        kill_supervisor(&home, &name);
        home.run_and_record(&["stop", &name]).succeeded();
        assert!(!is_running(&name));
        home.run_and_record(&["status", &name]).succeeded();
        home.run_and_record(&["start", &name]).succeeded();
        kill_supervisor(&home, &name);
        docker(&["kill", &name]);
        home.run_and_record(&["status", &name]).succeeded();
        home.run_and_record(&["rm", &name]).succeeded();
        home.assert_nothing_left();
        home.assert_transcript(&format!("recovery/killed_supervisor_{kind}"));
    }
}

/// Without its supervisor, the server is disconnected: no other process has the other end of its socket.
#[test]
fn a_killed_supervisor_of_an_isolated_workload_is_seen_and_replaced() {
    for (image, kind) in [(STDIO, "stdio"), (HTTP, "http")] {
        let home = Home::new();
        let name = home.name(kind);
        let run = ["run", image, "--name", &name, "--isolate-network"];
        let url = home.run_and_record(&run).succeeded().url();
        for command in ["restart", "start"] {
            let before = home.supervisor(&name);
            kill_supervisor(&home, &name);
            assert!(is_running(&name), "the container lives on");
            home.run_and_record(&["list"]).succeeded();
            home.run_and_record(&["status", &name]).succeeded();
            assert_eq!(home.run_and_record(&[command, &name]).succeeded().url(), url);
            assert_ne!(home.supervisor(&name), before);
            assert!(!Session::open(&url).tools().is_empty());
            assert_eq!(inspect(&name)["HostConfig"]["NetworkMode"], "none");
            assert_eq!(home.status(&name)["status"], "running");
        }
        kill_supervisor(&home, &name);
        home.run_and_record(&["stop", &name]).succeeded();
        assert!(!is_running(&name));
        home.run_and_record(&["start", &name]).succeeded();
        kill_supervisor(&home, &name);
        home.run_and_record(&["rm", &name]).succeeded();
        home.assert_nothing_left();
        home.assert_transcript(&format!("recovery/killed_supervisor_isolated_{kind}"));
    }
}

#[test]
fn a_killed_stdio_server_comes_back_and_its_sessions_go_on() {
    let home = Home::new();
    let name = home.name("s");
    let url = home.run(&["run", STDIO, "--name", &name]).succeeded().url();
    let session = Session::open(&url);
    let tools = session.tools();
    let follower = Program::start(&mut home.mcpm(&["logs", &name, "--proxy", "--follow"]));
    let mut events = Program::start(&mut home.mcpm(&["events", "--follow", "--output", "json"]));
    // Events of additional processes, which clients of other kinds get, can come at any time.
    let mut next_event = || loop {
        let event: Value = serde_json::from_str(&events.read_line()).unwrap();
        assert_eq!(event["workload"], name);
        let kind = event["event"].as_str().unwrap().to_owned();
        if !kind.starts_with("process_") {
            return (kind, event["exit_code"].as_i64());
        }
    };
    let event = |kind: &str, exit_code| (kind.to_owned(), exit_code);
    assert_eq!([next_event(), next_event()], [event("starting", None), event("ready", None)]);
    for count in 1..=2 {
        docker(&["kill", &name]);
        wait_until("it is started again", || home.status(&name)["restarts"] == count);
        home.wait_for_status(&name, "running");
        assert_eq!(session.tools(), tools, "the session goes on");
        let expected = [event("restarting", Some(137)), event("recovered", None)];
        assert_eq!([next_event(), next_event()], expected);
    }
    home.run_and_record(&["status", &name]).succeeded();
    home.assert_transcript("recovery/killed_server_stdio");
    home.run(&["stop", &name]).succeeded();
    assert_eq!(next_event(), event("ended", None));
    events.signal("INT");
    let followed = events.wait();
    assert_eq!((followed.code, followed.stderr.as_str()), (Some(0), ""));
    let recorded = home.run(&["events", &name, "--output", "json"]).succeeded().stdout;
    assert_eq!(recorded, followed.stdout);
    let text = home.run(&["events", &name]).succeeded().stdout;
    assert!(text.contains(&format!("  {name}  restarting  the server exited with code 137")), "{text}");
    assert_eq!(home.run(&["events", "nobody"]).code, Some(4));
    let followed = follower.wait();
    assert_eq!((followed.code, followed.stderr.as_str()), (Some(0), ""));
    let log = home.run(&["logs", &name, "--proxy"]).succeeded().stdout;
    assert_eq!(followed.stdout, log);
    for (line, count) in [
        ("starting the server", 1),
        ("ready at http://", 1),
        ("the server exited with code 137", 2),
        ("it is started again event=\"restarting\" exit_code=137 attempt=1", 1),
        ("the server is ready again", 2),
        ("ending, as mcpm was told to stop the workload", 1),
    ] {
        assert_eq!(log.matches(line).count(), count, "{line}: {log}");
    }
}

#[test]
fn a_killed_http_server_comes_back_and_its_sessions_go_on() {
    let home = Home::new();
    let name = home.name("h");
    let url = home.run(&["run", HTTP, "--name", &name]).succeeded().url();
    let session = Session::open(&url);
    assert!(session.has_id(), "this server has sessions");
    let tools = session.tools();
    docker(&["kill", &name]);
    wait_until("it is started again", || home.status(&name)["restarts"] == 1);
    home.wait_for_status(&name, "running");
    assert_eq!(session.tools(), tools, "the session goes on");
    assert_eq!(Session::open(&url).tools(), tools);
    home.run_and_record(&["status", &name]).succeeded();
    home.assert_transcript("recovery/killed_server_http");
}

#[test]
fn a_container_that_somebody_removed_is_made_anew() {
    for image in [STDIO, HTTP] {
        let home = Home::new();
        let name = home.name("gone");
        let url = home.run(&["run", image, "--name", &name]).succeeded().url();
        let before = inspect(&name)["Id"].clone();
        docker(&["rm", "--force", &name]);
        wait_until("it is started again", || home.status(&name)["restarts"] == 1);
        home.wait_for_status(&name, "running");
        assert!(!Session::open(&url).tools().is_empty());
        assert_ne!(inspect(&name)["Id"], before);
        home.run(&["stop", &name]).succeeded();
        docker(&["rm", &name]);
        assert_eq!(home.status(&name)["status"], "stopped");
        assert_eq!(home.run(&["start", &name]).succeeded().url(), url);
        home.run(&["rm", &name]).succeeded();
        home.assert_nothing_left();
    }
}

#[test]
fn a_killed_engine_is_seen_and_its_workloads_come_back() {
    let home = Home::new();
    let mut engine = OwnEngine::start(&home, STDIO);
    home.replace(&engine.host(), "ENGINE");
    let name = home.name("e");
    let url = home.run_and_record(&["run", STDIO, "--name", &name]).succeeded().url();
    let tools = Session::open(&url).tools();
    engine.kill();
    home.run_and_record(&["list"]).succeeded();
    assert_eq!(home.status(&name)["status"], "unknown");
    home.comment("before: nothing said that the proxy of the workload had ended");
    for command in ["restart", "stop"] {
        assert_eq!(home.run_and_record(&[command, &name]).code, Some(6));
    }
    engine.start_again();
    home.run_and_record(&["list"]).succeeded();
    home.run_and_record(&["restart", &name]).succeeded();
    assert_eq!(Session::open(&url).tools(), tools);
    // If no command stops the workload, its supervisor finds the engine again.
    engine.kill();
    engine.start_again();
    home.wait_for_status(&name, "running");
    assert_eq!(Session::open(&url).tools(), tools);
    home.run_and_record(&["rm", &name]).succeeded();
    assert_eq!(engine.docker(&["ps", "--all", "--quiet"]), (true, String::new()));
    home.assert_transcript("recovery/killed_engine");
}

#[test]
fn a_workload_stays_on_the_engine_it_was_started_on() {
    let home = Home::new();
    let name = home.name("e");
    home.run(&["run", STDIO, "--name", &name]).succeeded();
    home.set("DOCKER_HOST", &format!("unix://{}", home.text("no-engine")));
    assert_eq!(home.status(&name)["status"], "running");
    home.run(&["restart", &name]).succeeded();
    home.run(&["stop", &name]).succeeded();
    assert!(!is_running(&name));
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}

#[test]
fn a_foreground_run_blocks_and_passes_the_exit_code_on() {
    let home = Home::new();
    let name = home.name("f");
    let script = &exits_on_get(3);
    let run =
        ["run", "mcpm-test/python:1", "--foreground", "--name", &name, "--transport", "streamable-http"];
    let mut running = Program::start(
        &mut home.mcpm(&[&run[..], &["--target-port", "3000", "--", "python3", "-c", script]].concat()),
    );
    let line = running.read_line();
    let url = line.split_whitespace().nth(1).unwrap();
    assert_eq!(home.status(&name)["status"], "running");
    assert_eq!(home.run_and_record(&["start", &name]).code, Some(0), "it runs");
    assert_eq!(home.run_and_record(&["start", &name, "--foreground"]).code, Some(5), "it runs elsewhere");
    Command::new("curl").args(["--silent", "--noproxy", "*", "--max-time", "10", url]).output().unwrap();
    let outcome = running.wait();
    // The code is that of an unsupported option, so the message says that it is the server's code.
    let said = (outcome.code, outcome.stderr.lines().last());
    assert_eq!(said, (Some(3), Some("the server exited with code 3")), "{outcome:?}");
    home.assert_nothing_left();
    home.assert_transcript("recovery/foreground");
}

/// A server that exits with this code when a client opens a stream.
fn exits_on_get(code: u8) -> String {
    let get = format!("class H(h.BaseHTTPRequestHandler):\n  def do_GET(self): os._exit({code})");
    mcpm_tests::PYTHON_HTTP_SERVER.replace("class H(h.BaseHTTPRequestHandler):", &get)
}

#[test]
fn the_restart_mode_decides_what_follows_an_exit() {
    for (mode, code, restarts) in
        [("no", 3, false), ("on-failure", 0, false), ("on-failure", 3, true), ("always", 0, true)]
    {
        let home = Home::new();
        let name = home.name("m");
        let options = ["--restart", mode, "--start-timeout", "90s", "--transport", "streamable-http"];
        let run = [&["run", "mcpm-test/python:1", "--name", &name][..], &options].concat();
        let server = ["--target-port", "3000", "--", "python3", "-c", &exits_on_get(code)];
        let url = home.run(&[&run[..], &server].concat()).succeeded().url();
        let supervisor = home.supervisor(&name);
        assert_eq!(home.status(&name)["restart"], mode);
        let exported = home.run(&["export", &name]).succeeded().json();
        let recorded = [&exported["run"]["restart"], &exported["run"]["start_timeout"]];
        assert_eq!(recorded, [mode, "1m30s"]);
        Command::new("curl").args(["--silent", "--noproxy", "*", "--max-time", "10", &url]).output().unwrap();
        if restarts {
            wait_until("it is started again", || home.status(&name)["restarts"] == 1);
            home.wait_for_status(&name, "running");
        } else {
            wait_until("the supervisor is gone", || !is_alive(supervisor));
            let status = home.status(&name);
            let seen = [&status["status"], &status["restarts"], &status["exit_code"]];
            assert_eq!(seen, [&json!("failed"), &json!(0), &json!(code)], "{mode}");
            // The workload is started by hand, and its record does not change.
            home.run(&["start", &name, "--start-timeout", "2m"]).succeeded();
            assert_eq!(home.status(&name)["restart"], mode);
            let exported = home.run(&["export", &name]).succeeded().json();
            assert_eq!(exported["run"]["start_timeout"], "2m");
        }
    }
}

#[test]
fn a_stdio_server_that_is_not_restarted_ends_its_workload() {
    for (mode, restarts) in [("no", false), ("on-failure", true)] {
        let home = Home::new();
        let name = home.name("s");
        home.run(&["run", STDIO, "--name", &name, "--restart", mode]).succeeded();
        docker(&["kill", &name]);
        if restarts {
            wait_until("it is started again", || home.status(&name)["restarts"] == 1);
            home.wait_for_status(&name, "running");
        } else {
            home.wait_for_status(&name, "failed");
            assert_eq!(home.status(&name)["exit_code"], 137);
            assert!(!is_running(&name));
        }
    }
}

#[test]
fn a_foreground_run_restarts_its_server_if_that_is_asked_for() {
    let home = Home::new();
    let name = home.name("f");
    let run = ["run", STDIO, "--foreground", "--restart", "always", "--name", &name];
    let mut running = Program::start(&mut home.mcpm(&run));
    let url = running.read_line().split_whitespace().nth(1).unwrap().to_owned();
    docker(&["kill", &name]);
    wait_until("it is started again", || home.status(&name)["restarts"] == 1);
    home.wait_for_status(&name, "running");
    assert!(!Session::open(&url).tools().is_empty());
    running.signal("INT");
    assert_eq!(running.wait().code, Some(0));
    home.assert_nothing_left();
}

#[test]
fn a_terminal_shows_how_long_a_server_is_waited_for() {
    let home = Home::new();
    let name = home.name("w");
    home.set("TERM", "xterm");
    let mcpm = home.program();
    let line = format!("stty cols 80; exec {mcpm} run {SILENT} --name {name} --start-timeout 4s");
    let mut terminal = PseudoTerminal::spawn(home.command("script"), &line);
    terminal.expect("waiting for the server to respond, 1 s of 4");
    let (code, shown) = terminal.wait();
    assert_eq!(code, Some(8), "{shown}");
    assert!(shown.contains("within 4 s"), "{shown}");
    home.assert_nothing_left();
    for bad in ["0s", "2h", "soon"] {
        assert_eq!(home.run(&["run", SILENT, "--start-timeout", bad]).code, Some(2), "{bad}");
    }
}

#[test]
fn a_killed_server_ends_a_foreground_run() {
    let home = Home::new();
    let name = home.name("k");
    let mut running = Program::start(&mut home.mcpm(&["run", STDIO, "--foreground", "--name", &name]));
    running.read_line();
    docker(&["kill", &name]);
    let outcome = running.wait();
    let said = (outcome.code, outcome.stderr.as_str());
    assert_eq!(said, (Some(137), "the server exited with code 137\n"), "{outcome:?}");
    home.assert_nothing_left();
}

#[test]
fn a_signal_ends_a_foreground_run_and_leaves_nothing() {
    for signal in ["INT", "TERM", "QUIT", "HUP"] {
        for image in [STDIO, HTTP] {
            let home = Home::new();
            let name = home.name("c");
            let mut running = Program::start(&mut home.mcpm(&["run", image, "-f", "--name", &name]));
            running.read_line();
            // The output of the server is shown.
            let of_server = "server listening at";
            if image == HTTP {
                running.wait_for_stderr(of_server);
            }
            running.signal(signal);
            let outcome = running.wait();
            let of_mcpm: Vec<_> = outcome.stderr.lines().filter(|line| !line.contains(of_server)).collect();
            assert_eq!((outcome.code, of_mcpm), (Some(0), Vec::new()), "{signal}: {outcome:?}");
            home.assert_nothing_left();
        }
    }
}

#[test]
fn a_hangup_that_was_ignored_at_the_start_ends_nothing() {
    let home = Home::new();
    let name = home.name("nohup");
    let mcpm = home.mcpm(&["run", STDIO, "-f", "--name", &name]);
    let mut nohup = home.command("nohup");
    nohup.arg(mcpm.get_program()).args(mcpm.get_args());
    let mut running = Program::start(&mut nohup);
    let url = running.read_line().split_whitespace().nth(1).unwrap().to_owned();
    running.signal("HUP");
    assert!(!Session::open(&url).tools().is_empty());
    running.signal("TERM");
    assert_eq!(running.wait().code, Some(0));
    home.assert_nothing_left();
}

#[test]
fn a_foreground_run_can_be_stopped_by_another_command() {
    let home = Home::new();
    let name = home.name("e");
    let mut running = Program::start(&mut home.mcpm(&["run", STDIO, "-f", "--name", &name]));
    running.read_line();
    assert_eq!(home.run_and_record(&["stop", &name]).code, Some(0));
    assert_eq!(running.wait().code, Some(0));
    home.assert_nothing_left();
    home.assert_transcript("recovery/foreground_stopped");
}

#[test]
fn an_interrupt_while_starting_leaves_nothing() {
    let http = ["--transport", "streamable-http", "--target-port", "80"];
    for more in [&[][..], &["--foreground"], &http, &[&http[..], &["--foreground"]].concat()] {
        let home = Home::new();
        let name = home.name("i");
        let running = Program::start(&mut home.mcpm(&[&["run", SILENT, "--name", &name], more].concat()));
        wait_until("the container runs", || {
            !docker(&["ps", "--quiet", "--filter", &format!("name={name}")]).is_empty()
        });
        assert_eq!(home.status(&name)["status"], "starting");
        running.signal("INT");
        let outcome = running.wait();
        assert_eq!(
            (outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()),
            (Some(130), "", "error: interrupted\n"),
            "{more:?}"
        );
        home.assert_nothing_left();
    }
}

#[test]
fn concurrent_runs_with_one_name_start_one_workload() {
    let home = Home::new();
    let name = home.name("race");
    let mut runs: Vec<_> =
        (0..4).map(|_| Program::start(&mut home.mcpm(&["run", STDIO, "--name", &name]))).collect();
    let mut codes: Vec<_> = runs.drain(..).map(|run| run.wait().code.unwrap()).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 5, 5, 5]);
    assert_eq!(home.status(&name)["status"], "running");
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}

#[test]
fn runs_without_a_name_at_the_same_time_all_get_one() {
    let home = Home::new();
    let image = home.name("n/m:1");
    docker(&["tag", STDIO, &image]);
    let mut runs: Vec<_> = (0..4).map(|_| Program::start(&mut home.mcpm(&["run", &image]))).collect();
    let codes: Vec<_> = runs.drain(..).map(|run| run.wait().code).collect();
    docker(&["rmi", "--force", &image]);
    assert_eq!(codes, [Some(0); 4]);
}
