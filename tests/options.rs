//! Checks that the option table contains the required options, and no others except those that
//! `docs/reference/additions.md` lists.
//!
//! `data/requirement-options.json` contains the tables of the requirements, row by row. It changes only with the
//! requirements.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use clap::{Arg, ArgAction, Command};
use mcpm::options::{
    ArgumentPosition, Arity, OptionSet, OptionSpec, ProxyOptions, Required, ValueKind, WorkloadOptions,
};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    command: String,
    section: String,
    flag: String,
    short: Option<char>,
    #[serde(rename = "type")]
    type_name: String,
    default: Option<String>,
    /// The default in words, if it depends on other values.
    computed: Option<String>,
    repeatable: bool,
    comma_separated: bool,
    #[serde(default)]
    required: bool,
    /// The allowed words.
    #[serde(default)]
    values: Option<Vec<String>>,
    /// The smallest and the largest allowed number, except for ports.
    #[serde(default)]
    range: Option<(f64, f64)>,
}

fn required_rows() -> Vec<Row> {
    let path = mcpm_tests::root().join("tests/data/requirement-options.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the rows of a command, without `--help`, which clap adds.
fn rows_of(command: &str) -> Vec<Row> {
    let mut rows = required_rows();
    rows.retain(|row| row.command == command && row.flag != "help");
    rows
}

fn flags<O: OptionSet>() -> Vec<&'static OptionSpec> {
    O::SPECS
        .iter()
        .filter(|spec| matches!(spec.place, ArgumentPosition::Flag | ArgumentPosition::Global))
        .collect()
}

/// Returns the name of the type in the requirements.
fn type_name(spec: &OptionSpec) -> &'static str {
    match (spec.kind, spec.arity) {
        (ValueKind::Bool, _) => "bool",
        (ValueKind::Port, _) => "int",
        (ValueKind::Float, _) => "float",
        (ValueKind::Duration, _) => "duration",
        _ => "string",
    }
}

fn assert_as_required<O: OptionSet>(row: &Row) {
    let name = format!("{} --{}", row.command, row.flag);
    let spec = O::spec(&row.flag).unwrap_or_else(|| panic!("{name} is missing"));
    assert_eq!(spec.section, row.section, "section of {name}");
    assert_eq!(spec.short, row.short, "letter of {name}");
    assert_eq!(spec.required == Required::Always, row.required, "{name} is required");
    assert_eq!(spec.arity != Arity::One, row.repeatable, "{name} is repeatable");
    assert_eq!(spec.arity == Arity::List, row.comma_separated, "{name} is comma-separated");
    assert_eq!(type_name(spec), row.type_name.trim_end_matches(" list"), "type of {name}");
    assert!(!spec.addition, "{name} is in the requirement");
    let mut words = match spec.kind {
        ValueKind::Choice(words) => words.iter().map(|word| word.text.to_owned()).collect(),
        _ => Vec::new(),
    };
    let mut required = row.values.clone().unwrap_or_default();
    words.sort();
    required.sort();
    assert_eq!(words, required, "values of {name}");
    assert_eq!(spec.range.filter(|_| spec.kind != ValueKind::Port), row.range, "range of {name}");
    match (&row.default, &row.computed) {
        (None, Some(_)) => {
            assert!(spec.computed_default.is_some() && spec.default.is_none(), "default of {name}")
        }
        // A switch without a stated default is off.
        (None, None) => assert!(spec.default.is_none_or(|text| text == "false"), "default of {name}"),
        (default, _) => assert_eq!(spec.default, default.as_deref(), "default of {name}"),
    }
}

#[test]
fn every_required_option_is_in_the_table_as_demanded() {
    for row in required_rows().iter().filter(|row| row.flag != "help") {
        match row.command.as_str() {
            "run" => assert_as_required::<WorkloadOptions>(row),
            "proxy" => assert_as_required::<ProxyOptions>(row),
            other => panic!("the requirement has no command {other}"),
        }
    }
}

#[test]
fn the_table_has_the_order_of_the_requirement_and_nothing_unlisted() {
    fn assert_same<O: OptionSet>() {
        let declared: Vec<String> =
            flags::<O>().iter().filter(|spec| !spec.addition).map(|spec| spec.flag()).collect();
        let required: Vec<String> = rows_of(O::COMMAND).into_iter().map(|row| row.flag).collect();
        assert_eq!(declared, required, "{}", O::COMMAND);
    }
    assert_same::<WorkloadOptions>();
    assert_same::<ProxyOptions>();
}

#[test]
fn arguments_without_a_flag_are_those_of_the_requirement() {
    fn places<O: OptionSet>() -> Vec<(&'static str, ArgumentPosition, Required)> {
        let of = |spec: &'static OptionSpec| (spec.placeholder(), spec.place, spec.required);
        O::SPECS
            .iter()
            .map(of)
            .filter(|(_, place, _)| {
                matches!(place, ArgumentPosition::Positional | ArgumentPosition::Trailing)
            })
            .collect()
    }
    assert_eq!(
        places::<WorkloadOptions>(),
        [
            ("SERVER_OR_IMAGE_OR_PROTOCOL", ArgumentPosition::Positional, Required::Unless("from_config")),
            ("ARGS", ArgumentPosition::Trailing, Required::No),
        ]
    );
    assert_eq!(places::<ProxyOptions>(), [("SERVER_NAME", ArgumentPosition::Positional, Required::Always)]);
}

#[test]
fn the_command_line_takes_every_required_flag() {
    let mut command = mcpm_cli::command();
    command.build();
    for row in required_rows() {
        let below = command.find_subcommand(&row.command).unwrap();
        let arg = below.get_arguments().find(|arg| arg.get_long() == Some(row.flag.as_str()));
        let arg = arg.unwrap_or_else(|| panic!("{} --{} is missing", row.command, row.flag));
        assert_eq!(arg.get_short(), row.short, "{} --{}", row.command, row.flag);
        if row.flag != "help" {
            assert_eq!(matches!(arg.get_action(), ArgAction::Append), row.repeatable, "--{}", row.flag);
        }
    }
}

#[test]
fn every_command_has_help() {
    fn assert_helped(command: &Command) {
        let helped = |arg: &&Arg| arg.get_help().is_some_and(|help| !help.to_string().is_empty());
        let silent: Vec<&str> = command
            .get_arguments()
            .filter(|arg| !arg.is_hide_set() && !helped(arg))
            .map(|arg| arg.get_id().as_str())
            .collect();
        assert!(command.get_about().is_some() && silent.is_empty(), "{}: {silent:?}", command.get_name());
        command.get_subcommands().filter(|below| below.get_name() != "help").for_each(assert_helped);
    }
    let mut command = mcpm_cli::command();
    command.build();
    assert_helped(&command);
}

#[test]
fn every_addition_is_listed_with_its_reason() {
    let listed = fs::read_to_string(mcpm_tests::root().join("docs/reference/additions.md")).unwrap();
    fn additions<O: OptionSet>() -> impl Iterator<Item = (&'static str, String)> {
        flags::<O>().into_iter().filter(|spec| spec.addition).map(|spec| (O::COMMAND, spec.flag()))
    }
    for (command, flag) in additions::<WorkloadOptions>().chain(additions::<ProxyOptions>()) {
        let line = listed.lines().find(|line| line.starts_with(&format!("| `--{flag}` |")));
        assert!(line.is_some_and(|line| line.contains(&format!("`{command}`"))), "{command} --{flag}");
    }
}

/// Options of rustc, docker and `proxy tunnel` in comments and messages, and a placeholder for any option.
const EXTERNAL_OPTIONS: [&str; 4] = ["cfg", "flag", "mount", "provider-args"];

/// Returns the names of options at the beginning of a text in backticks.
fn options_in(text: &str) -> impl Iterator<Item = &str> {
    let names = text.split("`--").skip(1).map(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default()
    });
    // The first line of a PEM file and a placeholder in a format string look like options.
    names.filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase()))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn an_option_that_the_library_speaks_of_exists() {
    let mut files = Vec::new();
    sources(&mcpm_tests::root().join("mcpm/src"), &mut files);
    let is_test = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().ends_with("_tests");
    let rows: BTreeSet<String> =
        flags::<WorkloadOptions>().into_iter().chain(flags::<ProxyOptions>()).map(OptionSpec::flag).collect();
    let mut strange = BTreeSet::new();
    for file in files.iter().filter(|file| !is_test(file)) {
        let text = fs::read_to_string(file).unwrap();
        strange.extend(options_in(&text).filter(|name| !rows.contains(*name)).map(str::to_owned));
    }
    assert!(!rows.is_empty() && !files.is_empty());
    assert_eq!(strange, EXTERNAL_OPTIONS.into_iter().map(str::to_owned).collect());
}

#[test]
fn the_readme_names_existing_options() {
    let readme = fs::read_to_string(mcpm_tests::root().join("README.md")).unwrap();
    let mut all = flags::<WorkloadOptions>();
    all.extend(flags::<ProxyOptions>());
    // The option table contains neither these arguments of the command line nor cargo's `--profile`.
    for name in options_in(&readme).filter(|name| !["help", "plan", "profile"].contains(name)) {
        assert!(all.iter().any(|spec| spec.flag() == name), "`--{name}`");
    }
}
