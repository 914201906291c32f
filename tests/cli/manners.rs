//! Tests properties of all commands: JSON with a published schema, short help that fits on a screen, and no colors or
//! hints if the user has disabled them.

use std::{collections::BTreeSet, fs, process::Command};

use super::support::{Home, PseudoTerminal, schema, testbed_variable};

/// Maximum number of lines of a short help, so that it fits on a screen.
const MAX_SHORT_HELP_LINES: usize = 42;
/// Commands that print a file, a script or a stream of their server.
const WITHOUT_JSON: [&str; 4] = ["completion", "help", "man", "proxy stdio"];

/// All commands that do something, with the words that select them.
fn commands(command: &clap::Command, words: &str, found: &mut Vec<(String, clap::Command)>) {
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        let words = format!("{words} {}", below.get_name()).trim().to_owned();
        if !below.is_subcommand_required_set() {
            found.push((words.clone(), below.clone()));
        }
        commands(below, &words, found);
    }
}

fn all_commands() -> Vec<(String, clap::Command)> {
    let mut top = mcpm_cli::command();
    top.build();
    let mut found = Vec::new();
    commands(&top, "", &mut found);
    found
}

#[test]
fn every_command_prints_json_with_a_published_schema() {
    let mut expected: BTreeSet<String> =
        ["run-plan", "client-import-plan", "client-import-undo", "list-watch"].map(str::to_owned).into();
    for (words, command) in all_commands() {
        let output = command.get_arguments().find(|argument| argument.get_id() == "output");
        let values = output.map(clap::Arg::get_possible_values).unwrap_or_default();
        let has_json = values.iter().any(|value| value.get_name() == "json");
        assert_eq!(has_json, !WITHOUT_JSON.contains(&words.as_str()), "mcpm {words}");
        expected.extend(has_json.then(|| words.replace(' ', "-")));
    }
    let files = fs::read_dir(schema::folder()).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let published: BTreeSet<String> =
        files.filter_map(|name| name.strip_suffix(".schema.json").map(str::to_owned)).collect();
    assert_eq!(published, expected);
}

#[test]
fn published_schemas_are_valid() {
    let script = "import glob, json, sys
from jsonschema import Draft202012Validator
files = glob.glob(sys.argv[1] + '/*.schema.json')
for file in files:
    Draft202012Validator.check_schema(json.load(open(file)))
print(len(files))";
    let mut python = Command::new(testbed_variable("MCPM_TEST_PYTHON"));
    let output = python.args(["-c", script]).arg(schema::folder()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let count: usize = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert_eq!(count, fs::read_dir(schema::folder()).unwrap().count());
}

#[test]
fn short_help_fits_a_screen_and_names_the_long_one() {
    let home = Home::without_engine();
    let mut all: Vec<String> = all_commands().into_iter().map(|(words, _)| words).collect();
    all.push(String::new());
    for words in all {
        let args: Vec<&str> = words.split_whitespace().chain(["-h"]).collect();
        let help = home.run(&args).succeeded().stdout;
        assert!(help.lines().count() <= MAX_SHORT_HELP_LINES, "{}: {help}", help.lines().count());
    }
    for command in ["run", "proxy"] {
        let short = home.run(&[command, "-h"]).succeeded().stdout;
        assert!(short.contains("see more with '--help'"), "{short}");
        let long = home.run(&[command, "--help"]).succeeded().stdout;
        assert!(long.contains("--otel-endpoint") && !short.contains("--otel-endpoint"), "{long}");
    }
    let long = home.run(&["run", "--help"]).succeeded().stdout;
    let at = |text: &str| long.find(text).unwrap_or_else(|| panic!("no {text} in {long}"));
    assert!(at("Forms:") < at("Examples:") && at("Examples:") < at("Usage:"), "{long}");
}

#[test]
fn hints_are_left_out_when_they_are_not_wanted() {
    let home = Home::without_engine();
    home.set("MCPM_SECRETS_PASSWORD", "pw");
    for args in
        [&["list"][..], &["client", "list"], &["secret", "list"], &["image", "list"], &["stop", "--all"]]
    {
        let with = home.run(args).succeeded();
        assert_eq!(with.stderr.lines().count(), 1, "{args:?}: {with:?}");
        assert!(with.stderr.contains("there are no") || with.stderr.contains("are stored"), "{with:?}");
        let without = home.run(&[args, &["--quiet"]].concat()).succeeded();
        assert_eq!((without.stderr.as_str(), &without.stdout), ("", &with.stdout), "{args:?}");
    }
}

#[test]
fn no_colours_are_written_where_none_are_wanted() {
    let home = Home::without_engine();
    home.set("NO_COLOR", "1");
    home.set("TERM", "xterm-256color");
    for (line, code) in
        [("--help", 0), ("run --help", 0), ("lst", 2), ("run image --no-such-thing", 2), ("list", 0)]
    {
        let line = format!("{} {line}", home.program());
        let (found, shown) = PseudoTerminal::spawn(home.command("script"), &line).wait();
        assert_eq!(found, Some(code), "{shown}");
        assert!(!shown.contains("\u{1b}["), "{line}: {shown:?}");
    }
}
