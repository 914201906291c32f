//! Tests the names of workloads and groups.

use super::support::{Home, docker, inspect};

const EVERYTHING: &str = "mcpm-test/everything:1";

#[test]
fn a_bad_name_is_refused_with_the_rule_and_a_proposal() {
    let home = Home::without_engine();
    let long = "x".repeat(64);
    for name in ["Upper", "with blank", "../up", ".hidden", "-dash", "end.", "", "é", &long] {
        let equals = format!("--name={name}");
        assert_eq!(home.run_and_record(&["run", "image", &equals]).code, Some(2), "{name}");
    }
    for command in ["status", "stop", "start", "restart", "rm", "logs", "export"] {
        assert_eq!(home.run_and_record(&[command, "no/name"]).code, Some(2), "{command}");
        assert_eq!(home.run_and_record(&[command, "unknown"]).code, Some(4), "{command}");
    }
    home.assert_nothing_left();
    home.assert_transcript("names/bad");
}

#[test]
fn a_given_name_that_is_taken_is_refused_and_a_generated_one_gets_a_suffix() {
    let home = Home::new();
    // The workload's name is generated from the image's name, so the image gets a name that no other test uses.
    let image = home.name("a/b:1");
    docker(&["tag", EVERYTHING, &image]);
    let name = home.name("a-b");
    assert_eq!(home.run_and_record(&["run", &image]).code, Some(0));
    assert_eq!(home.run_and_record(&["run", &image]).code, Some(0));
    assert_eq!(home.run_and_record(&["run", EVERYTHING, "--name", &name]).code, Some(5));
    assert_eq!(home.run_and_record(&["list"]).code, Some(0));
    home.assert_transcript("names/taken");
    home.run(&["rm", "--all"]).succeeded();
    docker(&["rmi", &image]);
    home.assert_nothing_left();
}

#[test]
fn a_container_of_somebody_else_is_never_touched() {
    let home = Home::new();
    let name = home.name("theirs");
    docker(&[
        "run",
        "--detach",
        "--interactive",
        "--label",
        "mcpm-name=x",
        "--name",
        &name,
        "mcpm-test/silent:1",
    ]);
    let before = inspect(&name);
    assert_eq!(home.run_and_record(&["run", EVERYTHING, "--name", &name]).code, Some(5));
    for command in ["stop", "rm", "logs", "restart"] {
        assert_eq!(home.run_and_record(&[command, &name]).code, Some(4));
    }
    let after = inspect(&name);
    assert_eq!((&before["Id"], &before["State"]), (&after["Id"], &after["State"]));
    home.assert_transcript("names/foreign");
}

#[test]
fn workloads_of_another_home_are_never_touched() {
    let (home, other) = (Home::new(), Home::new());
    let name = other.name("same");
    let url = other.run(&["run", EVERYTHING, "--name", &name]).succeeded().url();
    let before = inspect(&name);
    home.replace(&name, "NAME");
    assert_eq!(home.run_and_record(&["run", EVERYTHING, "--name", &name]).code, Some(5));
    assert_eq!(home.run_and_record(&["list"]).code, Some(0));
    let after = inspect(&name);
    assert_eq!((&before["Id"], &before["State"]), (&after["Id"], &after["State"]));
    assert_eq!(other.status(&name)["url"], url);
    home.assert_transcript("names/other_home");
    home.assert_nothing_left();
}

#[test]
fn a_generated_name_that_a_foreign_container_has_is_refused() {
    let home = Home::new();
    let image = home.name("c/d:1");
    docker(&["tag", EVERYTHING, &image]);
    docker(&["create", "--name", &home.name("c-d"), EVERYTHING]);
    assert_eq!(home.run_and_record(&["run", &image]).code, Some(5));
    docker(&["rm", &home.name("c-d")]);
    docker(&["rmi", &image]);
    home.assert_transcript("names/generated_beside_foreign");
    home.assert_nothing_left();
}

#[test]
fn groups_are_made_shown_and_removed() {
    let home = Home::new();
    let name = home.name("member");
    for (code, args) in [
        (0, &["group", "list"][..]),
        (0, &["group", "create", "tools"]),
        (5, &["group", "create", "tools"]),
        (5, &["group", "create", "default"]),
        (2, &["group", "create", "Bad/Name"]),
        (0, &["group", "list", "--output", "json"]),
        (0, &["run", EVERYTHING, "--name", &name, "--group", "tools"]),
        (0, &["list", "--group", "tools"]),
        (0, &["list", "--group", "default"]),
        (2, &["group", "rm", "tools"]),
        (0, &["stop", "--group", "tools"]),
        (0, &["group", "rm", "tools", "--with-workloads"]),
        (4, &["group", "rm", "tools"]),
        (2, &["group", "rm", "default"]),
        (0, &["group", "list"]),
    ] {
        let outcome = home.run_and_record(args);
        assert_eq!(outcome.code, Some(code), "{args:?}: {outcome:?}");
    }
    home.assert_transcript("names/groups");
    home.assert_nothing_left();
}
