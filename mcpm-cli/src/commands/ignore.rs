//! `mcpm ignore`: says that changed ignore files are the user's own.

use std::{path::PathBuf, process::ExitCode};

use clap::{Arg, ArgMatches, Command, ValueHint, value_parser};
use mcpm::{Environment, Error, ErrorKind, Result, workload::Workloads};

use crate::output;

const FOLDER: &str = "folder";

pub(crate) fn command() -> Command {
    let folder = Arg::new(FOLDER)
        .value_name("FOLDER")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::DirPath)
        .help("Folder that servers could write to");
    Command::new("ignore")
        .about("Manage ignore files")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("accept")
                .about("Let the ignore files of a folder count as they are now, and show those that changed")
                .arg(folder),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let Some(("accept", matches)) = matches.subcommand() else {
        return Err(Error::new(ErrorKind::InvalidOption, "`accept` is missing"));
    };
    let folder = matches.get_one::<PathBuf>(FOLDER).cloned().unwrap_or_default();
    let changed = Workloads::new(Environment::from_process()).accept_ignore_files(&folder)?;
    // A server may have chosen their names.
    output::table(&changed.iter().map(|file| vec![file.display().to_string()]).collect::<Vec<_>>())?;
    Ok(ExitCode::SUCCESS)
}
