//! `mcpm completion`: prints the completion script of a shell.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, builder::PossibleValuesParser};
use mcpm::{Error, ErrorKind, Result};

use crate::{completion::VARIABLE, output, shells};

const SHELL: &str = "shell";

pub(crate) fn command() -> Command {
    Command::new("completion").about("Print the completion script of a shell").defer(|command| {
        command.arg(
            Arg::new(SHELL)
                .value_name("SHELL")
                .help("Shell that the script is for")
                .required(true)
                .value_parser(PossibleValuesParser::new(shells::ALL.names())),
        )
    })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let shell = matches.get_one::<String>(SHELL).map_or("", String::as_str);
    if let Some(shell) = shells::ALL.completer(shell) {
        let mut script = Vec::new();
        shell
            .write_registration(VARIABLE, "mcpm", "mcpm", "mcpm", &mut script)
            .map_err(|error| Error::new(ErrorKind::Internal, "cannot write the script").source(error))?;
        output::write(&script)?;
    }
    Ok(ExitCode::SUCCESS)
}
