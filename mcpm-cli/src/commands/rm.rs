//! `mcpm rm`: stops workloads and removes them.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use mcpm::{Environment, Result, workload::Workloads};

use crate::{
    commands::{stop, workload_args},
    executor,
    output::{self, JSON, TEXT},
    progress,
};

pub(crate) fn command() -> Command {
    Command::new("rm").about("Stop and remove workloads, with their containers and client entries").defer(
        |command| workload_args::name_args(command).arg(stop::timeout()).arg(output::arg(&[TEXT, JSON])),
    )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let workloads = Workloads::new(Environment::from_process());
    executor::run(async {
        let names = workload_args::names_of(matches, &workloads).await?;
        let remove = async |name: String| {
            let grace = stop::grace(matches);
            let removed = workloads.remove(&name, grace);
            progress::waiting(&format!("removing `{name}`"), Some(grace), removed).await?;
            output::name(matches, &name)
        };
        Ok(workload_args::for_each_workload(names, remove).await)
    })
}
