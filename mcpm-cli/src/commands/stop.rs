//! `mcpm stop`: stops workloads, which can be started again.

use std::{process::ExitCode, time::Duration};

use clap::{Arg, ArgMatches, Command};
use mcpm::{Environment, Result, state::WorkloadState, workload::Workloads};

use crate::{
    args::whole_number,
    commands::workload_args,
    executor,
    output::{self, JSON, TEXT},
    progress,
    supervise::STOP_GRACE,
};

const TIMEOUT: &str = "timeout";

pub(crate) fn command() -> Command {
    Command::new("stop")
        .about("Stop workloads")
        .defer(|command| workload_args::name_args(command).arg(timeout()).arg(output::arg(&[TEXT, JSON])))
}

/// Returns the `--timeout` argument.
pub(crate) fn timeout() -> Arg {
    Arg::new(TIMEOUT)
        .long(TIMEOUT)
        .value_name("SECONDS")
        .value_parser(whole_number(3600))
        .help(format!("Seconds to wait before the server is killed [default: {}]", STOP_GRACE.as_secs()))
}

/// Returns the value of [`timeout`].
pub(crate) fn grace(matches: &ArgMatches) -> Duration {
    matches.get_one::<u64>(TIMEOUT).map_or(STOP_GRACE, |seconds| Duration::from_secs(*seconds))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let workloads = Workloads::new(Environment::from_process());
    executor::run(async {
        let names = workload_args::names_of(matches, &workloads).await?;
        let stop = async |name: String| {
            let grace = grace(matches);
            let stopped = workloads.stop(&name, grace);
            progress::waiting(&format!("stopping `{name}`"), Some(grace), stopped).await?;
            // A background workload reports the findings of `--learn` only in its record.
            let reason =
                workloads.info(&name).await.ok().filter(|info| info.status == WorkloadState::Stopped);
            if let Some(reason) = reason.and_then(|info| info.reason) {
                output::warning(&reason);
            }
            output::name(matches, &name)
        };
        Ok(workload_args::for_each_workload(names, stop).await)
    })
}
