//! `mcpm completion`: prints the completion script of a shell.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::{Shell, generate};
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
        let mut script = Vec::new();
        generate(*shell, &mut crate::command(), "mcpm", &mut script);
        output::write(&script)?;
    }
    Ok(ExitCode::SUCCESS)
}
