//! `mcpm completion`: prints the completion script of a shell.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, ValueEnum as _, value_parser};
use clap_complete::{Generator as _, Shell, generate};
use mcpm::Result;

use crate::output;

const SHELL: &str = "shell";

pub(crate) fn command() -> Command {
    Command::new("completion").about("Print the completion script of a shell").defer(|command| {
        command.arg(
            Arg::new(SHELL)
                .value_name("SHELL")
                .help("Shell that the script is for")
                .required(true)
                .value_parser(value_parser!(Shell)),
        )
    })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    if let Some(shell) = matches.get_one::<Shell>(SHELL) {
        output::write(&script(*shell))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the completion scripts of all shells, with their file names.
pub fn scripts() -> Vec<(String, Vec<u8>)> {
    Shell::value_variants().iter().map(|shell| (shell.file_name("mcpm"), script(*shell))).collect()
}

fn script(shell: Shell) -> Vec<u8> {
    let mut bytes = Vec::new();
    generate(shell, &mut crate::command(), "mcpm", &mut bytes);
    bytes
}
