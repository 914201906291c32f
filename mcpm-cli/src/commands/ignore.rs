//! `mcpm ignore`: accepts changed ignore files.

use std::{path::PathBuf, process::ExitCode};

use clap::{Arg, ArgMatches, Command, ValueHint, value_parser};
use mcpm::{Environment, Error, ErrorKind, Result, workload::Workloads};

use crate::output::{self, JSON, TEXT};

const FOLDER: &str = "folder";

pub(crate) fn command() -> Command {
    let folder = Arg::new(FOLDER)
        .value_name("FOLDER")
        .required(true)
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::DirPath)
        .help("Mounted folder whose ignore files are accepted");
    Command::new("ignore")
        .about("Manage the ignore files of mounted folders")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("accept")
                .about("Accept the current ignore files of a folder, and list those that changed")
                .long_about(
                    "Accept the current ignore files of a folder, and list those that changed\n\n\
                     A server with write access to the folder could have changed the ignore files. So files that they \
                     once ignored stay hidden until you accept the changes and start the workloads again.",
                )
                .arg(folder)
                .arg(output::arg(&[TEXT, JSON])),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let Some(("accept", matches)) = matches.subcommand() else {
        return Err(Error::new(ErrorKind::InvalidOption, "`accept` is missing after `mcpm ignore`"));
    };
    let folder = matches.get_one::<PathBuf>(FOLDER).cloned().unwrap_or_default();
    let changed = Workloads::new(Environment::from_process()).accept_ignore_files(&folder)?;
    if output::format(matches) == JSON {
        output::json(&changed.iter().map(|file| file.to_string_lossy()).collect::<Vec<_>>())?;
        return Ok(ExitCode::SUCCESS);
    }
    if changed.is_empty() {
        output::hint("no ignore file has changed");
    }
    // A server may have chosen their names, so control characters are escaped.
    output::table(&changed.iter().map(|file| vec![file.display().to_string()]).collect::<Vec<_>>())?;
    Ok(ExitCode::SUCCESS)
}
