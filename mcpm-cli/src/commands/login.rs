//! `mcpm login` and `mcpm logout`: log workloads in to their remote servers, and revoke and remove these logins.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use mcpm::{
    Result,
    workload::{Launch, Workloads},
};

use crate::{
    commands::workload_args,
    executor,
    output::{self, JSON, TEXT},
    terminal,
};

pub(crate) fn login_command() -> Command {
    Command::new("login").about("Log in to the remote servers of workloads").defer(arguments)
}

pub(crate) fn logout_command() -> Command {
    Command::new("logout")
        .about("Revoke and remove the logins of workloads to their remote servers")
        .defer(arguments)
}

fn arguments(command: Command) -> Command {
    workload_args::name_args(command).arg(output::arg(&[TEXT, JSON]))
}

pub(crate) fn login(matches: &ArgMatches) -> Result<ExitCode> {
    for_each(matches, async |launch| launch.renew_login().await)
}

pub(crate) fn logout(matches: &ArgMatches) -> Result<ExitCode> {
    for_each(matches, async |launch| launch.log_out().await)
}

fn for_each(matches: &ArgMatches, change: impl AsyncFn(Launch) -> Result<()>) -> Result<ExitCode> {
    let environment = terminal::environment();
    let workloads = Workloads::new(environment.clone());
    executor::run(async {
        let names = workload_args::names_of(matches, &workloads).await?;
        let one = async |name: String| {
            let launch = Launch::new(workloads.spec(&name)?, environment.clone()).recorded();
            Box::pin(change(launch)).await?;
            output::name(matches, &name)
        };
        Ok(Box::pin(workload_args::for_each_workload(names, one)).await)
    })
}
