//! Tests how a workload starts and stops, and what happens if one of its processes is killed.

use std::net::TcpListener;

use super::server::{HTTP, HTTP_SERVER, IMAGE};
use crate::support::{Home, Program, Session, is_alive, kill, wait_until};

/// The options of a run over one of the transports.
fn runs(name: &str) -> [Vec<&str>; 2] {
    let run = ["run", IMAGE, "--name", name];
    [[&run[..], &["--transport", "stdio"]].concat(), [&run[..], &HTTP, &["--", HTTP_SERVER]].concat()]
}

/// Kills the supervisor of a workload, and waits for its end and, without an engine, for the end of the server.
#[track_caller]
fn kill_supervisor(home: &Home, name: &str) {
    let (supervisor, server) = (home.supervisor(name), home.first_process(name));
    kill("KILL", supervisor);
    wait_until("the supervisor is gone", || {
        !is_alive(supervisor) && (!home.is_builtin() || !is_alive(server))
    });
}

pub(super) fn a_workload_keeps_its_url_from_run_to_rm(home: &Home) {
    let name = home.name("a");
    for run in runs(&name) {
        let url = home.run(&run).succeeded().url();
        assert!(Session::open(&url).tools().contains(&"test_simple_text".to_owned()));
        let listed = home.run(&["list", "--output", "json"]).succeeded().json();
        assert_eq!((&listed[0]["name"], &listed[0]["url"]), (&name.as_str().into(), &url.as_str().into()));
        assert_eq!(home.status(&name)["status"], "running");
        assert_eq!(home.status(&name)["runtime"] == "builtin", home.is_builtin());
        for _ in 0..2 {
            home.run(&["stop", &name]).succeeded();
            assert_eq!(home.status(&name)["status"], "stopped");
        }
        assert!(!home.is_running(&name));
        for command in ["start", "restart"] {
            assert_eq!(home.run(&[command, &name]).succeeded().url(), url);
            assert!(!Session::open(&url).tools().is_empty());
        }
        home.run(&["rm", &name]).succeeded();
        assert_eq!(home.run(&["rm", &name]).code, Some(4));
        home.assert_nothing_left();
    }
}

pub(super) fn a_killed_server_comes_back_and_its_sessions_go_on(home: &Home) {
    let name = home.name("s");
    for run in runs(&name) {
        let url = home.run(&run).succeeded().url();
        let session = Session::open(&url);
        let tools = session.tools();
        for count in 1..=2 {
            home.kill_server(&name);
            wait_until("it is started again", || home.status(&name)["restarts"] == count);
            home.wait_for_status(&name, "running");
            assert_eq!(session.tools(), tools, "the session goes on");
        }
        let log = home.run(&["logs", &name, "--proxy"]).succeeded().stdout;
        assert_eq!(log.matches("the server exited with code 137").count(), 2, "{log}");
        home.run(&["rm", &name]).succeeded();
        home.assert_nothing_left();
    }
}

pub(super) fn a_killed_supervisor_is_replaced(home: &Home) {
    let name = home.name("k");
    for run in runs(&name) {
        let url = home.run(&run).succeeded().url();
        for command in ["restart", "start"] {
            kill_supervisor(home, &name);
            if home.is_builtin() {
                wait_until("the control groups are removed", || home.control_groups().is_empty());
            }
            let status = home.status(&name)["status"].clone();
            // Podman closes the standard input of a server when the connection closes, so the server exits.
            let may_have_exited = home.is_builtin() || run.contains(&"stdio");
            assert!(
                status == "failed" && may_have_exited || status == "orphaned" && !home.is_builtin(),
                "{status}"
            );
            assert_eq!(home.run(&[command, &name]).succeeded().url(), url);
            assert!(!Session::open(&url).tools().is_empty());
        }
        for command in ["stop", "rm"] {
            kill_supervisor(home, &name);
            home.run(&[command, &name]).succeeded();
            if command == "stop" {
                home.run(&["start", &name]).succeeded();
            }
        }
        home.assert_nothing_left();
    }
}

pub(super) fn the_container_of_a_killed_supervisor_runs_on(home: &Home) {
    let name = home.name("o");
    let [_, http] = runs(&name);
    home.run(&http).succeeded();
    kill_supervisor(home, &name);
    assert!(home.is_running(&name));
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}

/// What the service of `mcpm service install` does after a reboot.
pub(super) fn workloads_that_ran_respond_on_their_urls_after_a_reboot(home: &Home) {
    let [told, killed, stopped] = ["a-told", "b-killed", "c-stopped"].map(|what| home.name(what));
    let [stdio, _] = runs(&told);
    let [_, http] = runs(&killed);
    let urls = [stdio, http].map(|run| home.run(&run).succeeded().url());
    home.run(&runs(&stopped)[0]).succeeded();
    home.run(&["stop", &stopped]).succeeded();

    // A shutdown asks programs to end, and kills those that have not ended.
    let (first, second) = (home.supervisor(&told), home.supervisor(&killed));
    kill("TERM", first);
    kill("KILL", second);
    home.kill_server(&killed);
    wait_until("all supervisors have ended", || home.processes().is_empty());
    assert_eq!(home.status(&told)["status"], "stopped");

    let started = home.run(&["start", "--interrupted"]).succeeded();
    assert_eq!(started.stdout, format!("{told}  {}\n{killed}  {}\n", urls[0], urls[1]));
    for url in &urls {
        assert!(!Session::open(url).tools().is_empty(), "{url}");
    }
    assert_eq!(home.status(&stopped)["status"], "stopped");
    let again = home.run(&["start", "--interrupted"]).succeeded();
    assert_eq!((again.stdout.as_str(), again.stderr.as_str()), ("", ""));
    home.run(&["rm", "--all"]).succeeded();
    home.assert_nothing_left();
}

pub(super) fn a_supervisor_that_is_told_to_end_stops_its_server(home: &Home) {
    let name = home.name("t");
    for run in runs(&name) {
        let url = home.run(&run).succeeded().url();
        let supervisor = home.supervisor(&name);
        kill("TERM", supervisor);
        wait_until("the supervisor is gone", || !is_alive(supervisor));
        assert!(!home.is_running(&name));
        assert_eq!(home.status(&name)["status"], "stopped");
        assert_eq!(home.run(&["start", &name]).succeeded().url(), url);
        home.run(&["rm", &name]).succeeded();
    }
}

pub(super) fn a_foreground_run_passes_the_exit_code_on(home: &Home) {
    let name = home.name("f");
    let run = ["run", IMAGE, "--foreground", "--transport", "stdio", "--name", &name];
    // A program in the background has no standard input.
    let script = "exec 3<&0; trap 'exit 3' USR1; /everything-server <&3 & wait";
    let mut running = Program::start(&mut home.mcpm(&[&run[..], &["--", script]].concat()));
    running.read_line();
    let shell = home.processes_in(&name).into_iter().find(|pid| {
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.starts_with("/busybox")
    });
    kill("USR1", shell.unwrap());
    let outcome = running.wait();
    assert_eq!(
        (outcome.code, outcome.stderr.lines().last()),
        (Some(3), Some("the server exited with code 3"))
    );
    home.assert_nothing_left();
}

pub(super) fn logs_are_shown_cut_and_followed(home: &Home) {
    let name = home.name("l");
    let script = format!("echo one >&2; echo two >&2; {HTTP_SERVER}");
    home.run(&[&["run", IMAGE, "--name", &name][..], &HTTP, &["--", &script]].concat()).succeeded();
    let mut follower = Program::start(&mut home.mcpm(&["logs", &name, "--follow"]));
    assert_eq!([follower.read_line(), follower.read_line()], ["one", "two"]);
    assert!(home.run(&["logs", &name]).succeeded().stdout.starts_with("one\ntwo\n"));
    assert!(home.run(&["logs", &name, "--proxy"]).succeeded().stdout.contains("ready"));
    home.run(&["stop", &name, "--timeout", "0"]).succeeded();
    let followed = follower.wait();
    assert_eq!(followed.code, Some(0), "it ends with the server: {followed:?}");
    let tail = home.run(&["logs", &name, "--tail", "1"]).succeeded();
    assert_eq!((tail.stdout.lines().count(), tail.stderr.as_str()), (1, ""), "{tail:?}");
    home.run(&["rm", &name]).succeeded();
}

pub(super) fn ports_of_the_machine_are_not_taken_for_those_of_a_server(home: &Home) {
    let _listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let name = home.name("silent");
    // Ports are looked at after three seconds.
    let run = ["run", IMAGE, "--name", &name, "--network", "host", "--start-timeout", "8s"];
    let outcome = home.run(&[&run[..], &["--", "exec /busybox cat > /dev/null"]].concat());
    assert!(outcome.stderr.contains("within 8 s"), "{outcome:?}");
    home.assert_nothing_left();
}

pub(super) fn an_exported_workload_runs_again(home: &Home) {
    let name = home.name("x");
    home.write("data/x", "hello");
    let options = ["--label", "team=red", "--env", "A=1", "--volume", "data:/data:ro", "--host", "127.0.0.2"];
    let run = ["run", IMAGE, "--name", &name, "--transport", "stdio"];
    home.run(&[&run[..], &options].concat()).succeeded();
    home.run(&["export", &name, "exported.json"]).succeeded();
    let printed = home.run(&["export", &name]).succeeded().stdout;
    assert_eq!(printed, std::fs::read_to_string(home.path("exported.json")).unwrap());
    home.run(&["rm", &name]).succeeded();
    let plan = ["run", "--plan", "--output", "json", "--from-config", "exported.json"];
    let plan = home.run(&plan).succeeded().json();
    assert_eq!(plan["spec"]["place"]["container"]["mounts"][0]["target"], "/data", "{plan}");
    let url = home.run(&["run", "--from-config", "exported.json"]).succeeded().url();
    assert!(url.starts_with("http://127.0.0.2:"), "{url}");
    assert!(!Session::open(&url).tools().is_empty());
    assert_eq!(home.run(&["run", "--from-config", "exported.json"]).code, Some(5), "the name is taken now");
    home.run(&["rm", &name]).succeeded();
}
