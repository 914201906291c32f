//! Tests how command lines are parsed.

use clap::error::ErrorKind as Refusal;
use mcpm::options::{OptionSet, ProxyOptions, Transport, WorkloadOptions};

use crate::{command, options};

fn read<O: OptionSet>(arguments: &[&str]) -> mcpm::Result<O> {
    let matches = command().try_get_matches_from([&["mcpm"], arguments].concat()).unwrap();
    options(matches.subcommand().unwrap().1)
}

fn refusal(arguments: &[&str]) -> clap::Error {
    command().try_get_matches_from([&["mcpm"], arguments].concat()).unwrap_err()
}

#[test]
fn the_command_line_is_sound() {
    let mut all = command();
    // Adds the arguments whose definition is deferred until a command is used.
    all.build();
    all.debug_assert();
}

#[test]
fn only_what_was_given_is_read() {
    let asked: WorkloadOptions =
        read(&["run", "image", "-e", "A=1", "-e", "B=2", "--", "--flag", "-x"]).unwrap();
    assert_eq!(asked.given().collect::<Vec<_>>(), ["server", "args", "env"]);
    assert_eq!(asked.args, ["--flag", "-x"]);
    assert_eq!(asked.env.len(), 2);
}

#[test]
fn the_last_value_of_a_single_option_wins() {
    let asked: WorkloadOptions = read(&["run", "i", "--transport", "sse", "--transport=stdio"]).unwrap();
    assert_eq!(asked.transport, Some(Transport::Stdio));
}

#[test]
fn a_switch_takes_a_value_only_after_an_equals_sign() {
    let asked: WorkloadOptions = read(&["run", "--foreground", "true", "--ignore-globally=false"]).unwrap();
    assert_eq!((asked.server.as_deref(), asked.foreground), (Some("true"), Some(true)));
    assert_eq!(asked.ignore_globally, Some(false));
    assert_eq!(refusal(&["run", "i", "--foreground=maybe"]).kind(), Refusal::InvalidValue);
}

#[test]
fn debug_stands_before_or_after_the_command() {
    for arguments in
        [&["--debug", "run", "i"][..], &["run", "--debug", "i"], &["--debug", "run", "i", "--debug"]]
    {
        assert_eq!(read::<WorkloadOptions>(arguments).unwrap().debug, Some(true));
    }
    let asked: ProxyOptions = read(&["--debug=false", "proxy", "s", "--target-uri", "http://t"]).unwrap();
    assert_eq!(asked.debug, Some(false));
}

#[test]
fn an_unknown_option_is_refused_with_the_nearest_name() {
    let refused = refusal(&["run", "i", "--isolate-netwrok"]);
    assert_eq!((refused.kind(), refused.exit_code()), (Refusal::UnknownArgument, 2));
    assert!(refused.to_string().contains("a similar argument exists: '--isolate-network'"), "{refused}");
}

#[test]
fn missing_required_options_are_reported() {
    for arguments in [&["run"][..], &["proxy", "s"], &["proxy", "--target-uri", "http://t"], &["completion"]]
    {
        assert_eq!(refusal(arguments).kind(), Refusal::MissingRequiredArgument, "{arguments:?}");
    }
    assert!(read::<WorkloadOptions>(&["run", "--from-config", "f"]).is_ok());
}

#[test]
fn a_refused_credential_is_not_repeated() {
    let error = read::<WorkloadOptions>(&["run", "i", "--remote-forward-headers", "hidden"]).unwrap_err();
    assert!(!error.to_string().contains("hidden"));
    assert!(error.to_string().contains("`remote_forward_headers`"));
}

#[test]
fn help_shows_defaults() {
    let help = refusal(&["run", "--help"])
        .to_string()
        .replace('\n', " ")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(help.contains("Group the workload belongs to [default: default]"), "{help}");
}
