//! `mcpm status`: shows one workload.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use mcpm::{Environment, Result, workload::Workloads};

use crate::{
    commands::workload_args,
    executor,
    flag_names::with_flags,
    output::{self, JSON, TEXT},
    progress,
};

pub(crate) fn command() -> Command {
    Command::new("status")
        .about("Show one workload in detail")
        .defer(|command| command.arg(workload_args::name_arg()).arg(output::arg(&[TEXT, JSON])))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let workloads = Workloads::new(Environment::from_process());
    let info = workloads.info(workload_args::name_of(matches));
    let info = executor::run(progress::waiting("waiting for the container engine", None, info))?;
    if output::format(matches) == JSON {
        output::json(&info)?;
        return Ok(ExitCode::SUCCESS);
    }
    let exit_code = info.exit_code.map(|code| code.to_string());
    let restarts = (info.restarts > 0).then(|| info.restarts.to_string());
    let limits = "memory and processor time are not limited, because the container has no control group";
    let limits = info.lacks_control_groups.then(|| limits.to_owned());
    let transport = info.transport.map(|transport| transport.to_string());
    let rows = [
        ("name", Some(info.name)),
        ("status", Some(info.status.as_str().to_owned())),
        ("reason", info.reason.as_deref().map(with_flags)),
        ("url", info.url),
        ("package", info.package.map(|package| package.to_string())),
        ("image", info.image),
        ("signed by", info.verified.map(|verified| verified.signer.to_string())),
        ("runtime", info.runtime.map(|runtime| runtime.to_string())),
        ("limits", limits),
        ("remote", info.remote),
        ("transport", transport),
        ("group", info.group),
        ("login", info.login.map(|login| login.as_str().to_owned())),
        ("restart", info.restart.map(|mode| mode.to_string())),
        ("restarts", restarts),
        ("exit code", exit_code),
        ("created", info.created_at),
    ];
    let rows = rows.into_iter().filter_map(|(name, value)| value.map(|value| vec![name.to_owned(), value]));
    output::table(&rows.collect::<Vec<_>>())?;
    Ok(ExitCode::SUCCESS)
}
