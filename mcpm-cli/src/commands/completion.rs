//! `mcpm completion`: prints the completion script of a shell.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, builder::PossibleValuesParser};
use clap_complete::env::Shells;
use mcpm::{Error, ErrorKind, Result};

use crate::{completion::VARIABLE, output};

const SHELL: &str = "shell";

pub(crate) fn command() -> Command {
    Command::new("completion").about("Print the completion script of a shell").defer(|command| {
        command.arg(
            Arg::new(SHELL)
                .value_name("SHELL")
                .help("Shell that the script is for")
                .required(true)
                .value_parser(PossibleValuesParser::new(Shells::builtins().names())),
        )
    })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let shell = matches.get_one::<String>(SHELL).map_or("", String::as_str);
    if let Some(shell) = Shells::builtins().completer(shell) {
        let mut script = Vec::new();
        shell
            .write_registration(VARIABLE, "mcpm", "mcpm", "mcpm", &mut script)
            .map_err(|error| Error::new(ErrorKind::Internal, "cannot write the script").source(error))?;
        if shell.name() == "zsh" {
            // From a folder of functions, zsh loads it when it completes for the first time.
            script.extend(
                b"\nif [ \"$funcstack[1]\" = _mcpm ]; then _clap_dynamic_completer_mcpm \"$@\"; fi\n",
            );
        }
        output::write(&script)?;
    }
    Ok(ExitCode::SUCCESS)
}
