//! Checks that workloads which version 0.1.0 recorded and exported can be listed, shown, explained, exported, planned
//! and removed.
//!
//! The files in `tests/data/recorded` are as that version wrote them, except for names and paths. If a format changes,
//! do not change these files: add samples of the new version.

use std::fs;

use super::support::Home;

/// The home folder of the user, and the engine, in the recorded files.
const HOME: &str = "/home/user";
const ENGINE: &str = "unix:///var/run/docker.sock";

/// Copies recorded files to the same folders of a home, and replaces the recorded paths and engine with those of the
/// home.
fn copy(home: &Home, folder: &str, engine: &str) {
    fs::create_dir_all(home.path(folder)).unwrap();
    for entry in fs::read_dir(mcpm_tests::root().join("tests/data/recorded").join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let below = format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            copy(home, &below, engine);
            continue;
        }
        let text = fs::read_to_string(path).unwrap().replace(ENGINE, engine);
        let text = text.replace(&format!("{HOME}/.local/state"), &home.text("state"));
        home.write(&below, &text.replace(HOME, &home.text("home")));
    }
}

/// A home with the recorded workloads, and no engine.
fn recorded_home() -> Home {
    let home = Home::without_engine();
    let engine = format!("unix://{}", home.text("no-engine"));
    for folder in ["state", "home", "exported"] {
        copy(&home, folder, &engine);
    }
    home.set("MCPM_SECRETS_PASSWORD", "sample");
    home
}

#[test]
fn recorded_workloads_are_shown() {
    let home = recorded_home();
    for args in [
        &["list"][..],
        &["list", "--output", "json"],
        &["group", "list"],
        &["status", "handbook"],
        &["status", "notes"],
        &["status", "weather", "--output", "json"],
        &["explain", "0bf43b04b6d43891faf5"],
        &["explain", "678a96fd97e4ee4d81cf", "--output", "json"],
        &["logs", "--proxy", "handbook"],
        &["secret", "get", "HANDBOOK_TOKEN"],
    ] {
        home.run_and_record(args).succeeded();
    }
    home.assert_transcript("recorded/shown");
}

#[test]
fn recorded_workloads_are_exported_as_they_were() {
    let home = recorded_home();
    for name in ["handbook", "notes", "weather"] {
        let exported = fs::read_to_string(home.path(&format!("exported/{name}.json"))).unwrap();
        assert_eq!(home.run(&["export", name]).succeeded().stdout, exported, "{name}");
    }
}

#[test]
fn recorded_workloads_are_removed() {
    // The removal of a container workload queries the engine for containers with the path of the state folder.
    let home = Home::new();
    copy(&home, "state", ENGINE);
    home.run_and_record(&["rm", "handbook", "notes", "weather"]).succeeded();
    home.run_and_record(&["group", "rm", "staff"]).succeeded();
    home.assert_nothing_left();
    home.assert_transcript("recorded/removed");
}

#[test]
fn exported_workloads_are_planned() {
    let home = Home::without_engine();
    copy(&home, "home", ENGINE);
    copy(&home, "exported", ENGINE);
    fs::create_dir(home.path("home/data")).unwrap();
    for (name, code) in [
        ("handbook", 0),
        // The image is looked up in the engine after everything else was accepted.
        ("notes", 6),
        ("weather", 6),
    ] {
        let outcome =
            home.run_and_record(&["run", "--from-config", &format!("exported/{name}.json"), "--plan"]);
        assert_eq!(outcome.code, Some(code), "{name}: {outcome:?}");
    }
    home.assert_nothing_left();
    home.assert_transcript("recorded/planned");
}
