//! Tests for problems that users had in their first minutes. Each transcript begins with the previous behavior of mcpm.
//!
//! Other tests of such problems: a server that never responds (C1, in `failures`), a missing certificate authority
//! (C4, `a_certificate_of_an_unknown_authority_is_answered_with_the_option_for_it`), completion of names (C7, in
//! `pages`), a reboot (C8, in `service` and `each_runtime/lifecycle`), explanations (C9, in `explain`), a body that is
//! too large (C10, `a_body_beyond_the_limit_is_413_however_it_says_its_size`), an engine that is killed (C11, in
//! `recovery`), and additional packages (C19, in `usage` and `tests/container`).

use super::support::{Home, Program, PseudoTerminal, docker};

const EVERYTHING: &str = "mcpm-test/everything:1";

/// Runs commands, checks their exit codes, and compares the transcript.
#[track_caller]
fn transcript(home: &Home, kept: &str, before: &str, commands: &[(i32, &[&str])]) {
    home.comment(&format!("before: {before}"));
    for (code, args) in commands {
        let outcome = home.run_and_record(args);
        assert_eq!(outcome.code, Some(*code), "{args:?}: {outcome:?}");
    }
    home.assert_transcript(&format!("first_minute/{kept}"));
}

/// A stdio server that writes a line to standard error when it starts.
const SAYS_UP: [&str; 7] =
    ["mcpm-test/python:1", "--transport", "stdio", "--", "sh", "-c", "echo up >&2; exec mcp-server-fetch"];

#[test]
fn c2_c3_c20_logs_tell_what_happened_over_restarts_and_hold_no_messages() {
    let home = Home::new();
    let name = home.name("a");
    let name = name.as_str();
    home.run(&[&["run", "--name", name][..], &SAYS_UP].concat()).succeeded();
    let mut events = Program::start(&mut home.mcpm(&["events", name, "--follow"]));
    docker(&["kill", name]);
    while !events.read_line().contains("  recovered  ") {}
    events.signal("INT");
    assert_eq!(events.wait().code, Some(0));
    let commands: [(i32, &[&str]); 5] = [
        (0, &["logs", name]),
        (0, &["logs", name, "--timestamps", "--tail", "1"]),
        (0, &["logs", name, "--proxy"]),
        (0, &["events", name]),
        (0, &["rm", name]),
    ];
    transcript(
        &home,
        "c02",
        "`logs --proxy` contained only `ready`; `logs` contained the messages and ended at a restart",
        &commands,
    );
}

#[test]
fn c18_in_the_foreground_the_output_of_the_server_is_shown() {
    let home = Home::new();
    let name = home.name("f");
    let run = [&["run", "--name", &name, "--foreground"][..], &SAYS_UP].concat();
    let mut running = Program::start(&mut home.mcpm(&run));
    running.wait_for_stderr("up\n");
    running.signal("INT");
    assert_eq!(running.wait().code, Some(0));
    home.assert_nothing_left();
}

#[test]
fn c5_an_unknown_server_is_answered_with_the_nearest_one() {
    let home = Home::without_engine();
    let commands: [(i32, &[&str]); 3] = [
        (4, &["registry", "info", "tim"]),
        (0, &["registry", "search", "nosuchserver"]),
        (4, &["run", "registry:nosuchserver"]),
    ];
    transcript(&home, "c05", "neither `run` nor `registry info` said anything of the catalogue", &commands);
}

#[test]
fn c6_man_shows_the_page_of_a_command() {
    let home = Home::without_engine();
    let page = home.run(&["man", "run"]).succeeded().stdout;
    assert!(page.contains(".TH mcpm-run 1"), "{page}");
    assert!(!home.path("run").exists(), "before: a folder `run` with 30 pages");
}

#[test]
fn c12_names_that_are_unknown_have_an_exit_code_of_their_own() {
    let home = Home::without_engine();
    home.set("MCPM_SECRETS_PASSWORD", "pw");
    let commands: [(i32, &[&str]); 5] = [
        (4, &["list", "--group", "nope"]),
        (4, &["stop", "--group", "nope"]),
        (4, &["group", "rm", "nope"]),
        (4, &["secret", "rm", "nope"]),
        (2, &["stop", "c"]),
    ];
    transcript(
        &home,
        "c12",
        "`list --group nope` was an empty list, and other words had other codes",
        &commands,
    );
}

#[test]
fn c12_a_variable_without_a_value_has_that_of_the_environment() {
    let home = Home::new();
    let name = home.name("e");
    home.set("MCPM_TEST_GIVEN", "from outside");
    home.run(&["run", EVERYTHING, "--name", &name, "--env", "MCPM_TEST_GIVEN"]).succeeded();
    let environment = docker(&["inspect", "--format", "{{json .Config.Env}}", &name]);
    assert!(environment.contains("MCPM_TEST_GIVEN=from outside"), "{environment}");
    home.run(&["rm", &name]).succeeded();
    let refused = home.run(&["run", EVERYTHING, "--name", &name, "--env", "MCPM_TEST_ABSENT"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
}

#[test]
fn c13_changes_are_printed_as_text_and_as_json() {
    let home = Home::new();
    let name = home.name("a");
    let name = name.as_str();
    home.set("MCPM_SECRETS_PASSWORD", "pw");
    let path = home.text("exported.json");
    let commands: [(i32, &[&str]); 12] = [
        (0, &["run", EVERYTHING, "--name", name, "--group", "tools", "-o", "json"]),
        (0, &["export", name, &path, "-o", "json"]),
        (0, &["export", name, &path]),
        (0, &["stop", name, "-o", "json"]),
        (0, &["start", name, "-o", "json"]),
        (0, &["stop", name]),
        (0, &["group", "create", "other"]),
        (0, &["group", "list", "-o", "json"]),
        (0, &["group", "rm", "other", "-o", "json"]),
        (0, &["rm", name, "-o", "json"]),
        (0, &["secret", "provider", "-o", "json"]),
        (0, &["list", "--group", "tools"]),
    ];
    transcript(
        &home,
        "c13",
        "`stop`, `rm`, `export` and `group` had no `-o json`; some commands printed no name",
        &commands,
    );
    home.assert_nothing_left();
}

#[test]
fn c14_a_list_fits_the_terminal() {
    let home = Home::new();
    let name = home.name("a-workload-with-a-long-name");
    home.run(&["run", EVERYTHING, "--name", &name]).succeeded();
    let line = format!("stty cols 80; {} list", home.program());
    let (code, shown) = PseudoTerminal::spawn(home.command("script"), &line).wait();
    assert_eq!(code, Some(0), "{shown}");
    // Before: 119 columns, with times as in JSON.
    assert!(shown.lines().all(|line| line.trim_end().chars().count() <= 80), "{shown}");
    assert!(shown.contains(" s ago") && shown.contains("http://127.0.0.1:"), "{shown}");
    home.run(&["rm", &name]).succeeded();
}

#[test]
fn c15_a_second_workload_of_a_server_is_announced() {
    let home = Home::new();
    let image = home.name("twice:1");
    docker(&["tag", EVERYTHING, &image]);
    let commands: [(i32, &[&str]); 3] = [(0, &["run", &image]), (0, &["run", &image]), (0, &["rm", "--all"])];
    transcript(&home, "c15", "the second one was made without a word", &commands);
    docker(&["rmi", &image]);
}

#[test]
fn c16_the_help_of_run_begins_with_its_forms() {
    let home = Home::without_engine();
    let commands: [(i32, &[&str]); 2] = [(0, &["-h"]), (0, &["run", "-h"])];
    transcript(&home, "c16", "`run -h` had 458 lines with the forms last", &commands);
}

#[test]
fn c17_a_mistake_in_yaml_is_said_once_with_the_key_that_was_meant() {
    let home = Home::without_engine();
    home.write("profile.json", r#"{"network": {"outbound": {"alow_host": ["example.com"]}}}"#);
    home.write("audit.yaml", "log_fil: audit.log\n");
    home.write("exported.json", r#"{"version": 1, "run": {"server": "image", "nam": "x"}}"#);
    let commands: [(i32, &[&str]); 3] = [
        (2, &["run", "image", "--permission-profile", "profile.json"]),
        (2, &["run", "image", "--audit-config", "audit.yaml"]),
        (2, &["run", "--from-config", "exported.json"]),
    ];
    transcript(&home, "c17", "it was said twice, without the key that was meant", &commands);
}
