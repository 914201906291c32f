//! `mcpm export`: writes a workload's configuration to a file for `mcpm run --from-config`.

use std::{fs, path::PathBuf, process::ExitCode};

use clap::{Arg, ArgMatches, Command, ValueHint, value_parser};
use mcpm::{Environment, Result, workload::Workloads};
use serde_json::json;

use crate::{
    commands::workload_args,
    output::{self, JSON, TEXT},
};

const PATH: &str = "path";

pub(crate) fn command() -> Command {
    Command::new("export")
        .about("Export a workload's configuration, with environment variables, but without secrets")
        .defer(|command| {
            command
                .arg(workload_args::name_arg())
                .arg(
                    Arg::new(PATH)
                        .value_name("PATH")
                        .value_hint(ValueHint::FilePath)
                        .value_parser(value_parser!(PathBuf))
                        .help("File to write; standard output by default"),
                )
                .arg(output::arg(&[TEXT, JSON]))
        })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let workloads = Workloads::new(Environment::from_process());
    let name = workload_args::name_of(matches);
    match matches.get_one::<PathBuf>(PATH) {
        Some(path) => {
            workloads.export(name, path)?;
            let path = path.to_string_lossy();
            match output::format(matches) {
                // The destination can be a pipe or a device, too.
                _ if !fs::metadata(&*path).is_ok_and(|file| file.is_file()) => {}
                JSON => output::json(&json!({ "name": name, "path": path }))?,
                _ => output::line(output::escape_text(&path))?,
            }
        }
        None => output::write(workloads.export_text(name)?.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}
