//! Implements the command line of mcpm.
//!
//! [`command`] returns the parser of the whole command line, with the options of the library's option table. [`main`]
//! parses the arguments and runs a command from `commands`. Results are written to standard output, everything else to
//! standard error.

use std::{ffi::OsString, io::Write as _, process::ExitCode};

use clap::{Arg, ArgAction, ArgMatches, Command};
use mcpm::options::{ArgumentPosition, OptionSet as _, WorkloadOptions};

mod allocator;
mod args;
#[cfg(test)]
mod args_tests;
mod browser;
mod commands;
mod completion;
mod executor;
mod exit;
mod flag_names;
mod follower;
mod logging;
mod login_prompt;
#[cfg(unix)]
mod open_files;
mod output;
mod progress;
mod shells;
#[cfg_attr(windows, path = "signals_windows.rs")]
mod signals;
mod standard_streams;
mod supervise;
mod terminal;
mod tool_names;
mod topics;
#[cfg_attr(windows, path = "tty_off.rs")]
mod tty;

pub use args::options;

const QUIET: &str = "quiet";

/// Returns the whole command line, for parsing, man pages and completions.
///
/// The arguments of a command are added when clap reaches that command, so that other commands cost nothing.
pub fn command() -> Command {
    // All commands have the global options; the rows of `run` represent these options in the table.
    let global = WorkloadOptions::SPECS.iter().filter(|spec| spec.place == ArgumentPosition::Global);
    Command::new("mcpm")
        .version(env!("CARGO_PKG_VERSION"))
        .about(env!("CARGO_PKG_DESCRIPTION"))
        .after_long_help(topics::HINT)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .args(global.map(args::arg))
        .arg(
            Arg::new(QUIET)
                .long(QUIET)
                .short('q')
                .global(true)
                .action(ArgAction::SetTrue)
                .help("Leave out progress, hints and next steps"),
        )
        .subcommands(commands::ALL.iter().map(|entry| (entry.command)().name(entry.name)))
}

/// Runs the command line; the first argument is the name of the program.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    allocator::configure();
    let mut arguments = arguments.into_iter().peekable();
    let program = arguments.next();
    if arguments.peek().is_some_and(|first| first == supervise::SUPERVISE_COMMAND) {
        // The parent process has printed its errors.
        return supervise::main().map_or(ExitCode::from(exit::FAILURE), |()| ExitCode::SUCCESS);
    }
    let arguments: Vec<OsString> = program.into_iter().chain(arguments).collect();
    if let Some(code) = completion::answer(&arguments) {
        return code;
    }
    let matches = match command().try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(asked) => {
            if let Some(text) = topics::text(&arguments) {
                return output::write(text.as_bytes())
                    .map_or(ExitCode::from(exit::FAILURE), |()| ExitCode::SUCCESS);
            }
            // Errors are ignored, because the reader may have closed the pipe.
            let _ = asked.print();
            return exit::of_usage(&asked);
        }
    };
    let entry = |name| commands::ALL.iter().find(|entry| entry.name == name);
    let Some((entry, matches)) = matches.subcommand().and_then(|(name, below)| Some((entry(name)?, below)))
    else {
        return ExitCode::from(exit::FAILURE);
    };
    logging::to_stderr(args::debug(matches));
    if is_quiet(matches) {
        output::be_quiet();
    }
    (entry.run)(matches).unwrap_or_else(|error| {
        let text = output::escape_text(&flag_names::with_flags(&error.to_string()));
        let _ = writeln!(std::io::stderr(), "error: {text}");
        exit::of_error(error.kind())
    })
}

/// Returns whether `--quiet` was given, after the command or after one of its subcommands.
fn is_quiet(matches: &ArgMatches) -> bool {
    matches.get_flag(QUIET) || matches.subcommand().is_some_and(|(_, below)| is_quiet(below))
}
