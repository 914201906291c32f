//! `mcpm start` and `mcpm restart`: start recorded workloads; `restart` stops them first.

use std::{process::ExitCode, time::Duration};

use clap::{Arg, ArgAction, ArgMatches, Command};
use mcpm::{
    Error, ErrorKind, Result,
    options::OptionValue as _,
    state::WorkloadState,
    workload::{Launch, Workloads},
};

use crate::{
    args,
    commands::{run, stop, workload_args},
    executor,
    output::{self, JSON, TEXT},
    progress,
    supervise::{Ready, STOP_GRACE},
    terminal,
};

const FOREGROUND: &str = "foreground";
const INTERRUPTED: &str = "interrupted";
const START_TIMEOUT: &str = "start-timeout";

pub(crate) fn start_command() -> Command {
    Command::new("start").about("Start stopped workloads").defer(|command| {
        let interrupted = Arg::new(INTERRUPTED)
            .long(INTERRUPTED)
            .action(ArgAction::SetTrue)
            .help("All workloads that were running when the machine or their supervisor stopped");
        arguments(command).arg(interrupted).mut_group(workload_args::WHICH, |which| which.arg(INTERRUPTED))
    })
}

pub(crate) fn restart_command() -> Command {
    Command::new("restart")
        .about("Restart workloads")
        .defer(|command| arguments(command).arg(stop::timeout()))
}

fn arguments(command: Command) -> Command {
    let foreground = Arg::new(FOREGROUND)
        .long(FOREGROUND)
        .short('f')
        .action(ArgAction::SetTrue)
        .help("Run one workload in the foreground until the server exits");
    let start_timeout = Arg::new(START_TIMEOUT)
        .long(START_TIMEOUT)
        .value_name("DURATION")
        .value_parser(|text: &str| Duration::parse(text))
        .help(
            "How long a server may take to become ready, at this start and later ones; unchanged by default",
        );
    workload_args::name_args(command).arg(foreground).arg(start_timeout).arg(output::arg(&[TEXT, JSON]))
}

pub(crate) fn start(matches: &ArgMatches) -> Result<ExitCode> {
    start_or_restart(matches, false)
}

pub(crate) fn restart(matches: &ArgMatches) -> Result<ExitCode> {
    start_or_restart(matches, true)
}

fn start_or_restart(matches: &ArgMatches, again: bool) -> Result<ExitCode> {
    let environment = terminal::environment();
    let workloads = Workloads::new(environment.clone());
    let debug = args::debug(matches);
    let form = output::format(matches);
    let start_timeout = matches.get_one::<Duration>(START_TIMEOUT).copied();
    executor::run(async {
        let names = if !again && matches.get_flag(INTERRUPTED) {
            workloads.interrupted()?
        } else {
            workload_args::names_of(matches, &workloads).await?
        };
        let grace = if again { stop::grace(matches) } else { STOP_GRACE };
        if matches.get_flag(FOREGROUND) {
            let [name] = names.as_slice() else {
                let message = format!("`--foreground` is for one workload, not for {}", names.len());
                return Err(Error::new(ErrorKind::InvalidOption, message));
            };
            // Secrets are read before the running workload is stopped: if some are missing, it keeps running.
            let mut spec = workloads.spec(name)?;
            start_timeout.map_or(Ok(()), |timeout| spec.set_start_timeout(timeout))?;
            let launch = Launch::new(spec.clone(), environment.clone());
            let launch = launch.secrets(workloads.secrets(name).await?).recorded();
            if again {
                let stopped = workloads.stop_to_restart(name, grace);
                progress::waiting(&format!("stopping `{name}`"), Some(grace), stopped).await?;
            }
            return Box::pin(run::in_foreground(launch, &spec, form, None)).await;
        }
        let one = async |name: String| {
            let info = workloads.info(&name).await?;
            let up = matches!(
                info.status,
                WorkloadState::Running | WorkloadState::Restarting | WorkloadState::Starting
            );
            if up && !again {
                // The workload is running already.
                return run::print(&Ready { name, url: info.url.unwrap_or_default() }, form);
            }
            let mut spec = workloads.spec(&name)?;
            start_timeout.map_or(Ok(()), |timeout| spec.set_start_timeout(timeout))?;
            let secrets = workloads.secrets(&name).await?;
            // Stops the container that a killed supervisor left running.
            if again || !matches!(info.status, WorkloadState::Stopped) {
                let stopped = workloads.stop_to_restart(&name, grace);
                progress::waiting(&format!("stopping `{name}`"), Some(grace), stopped).await?;
            }
            // The supervisor cannot prompt for the password of the secret store that contains the login.
            let launch = Launch::new(spec.clone(), environment.clone()).recorded();
            let secrets = Box::pin(launch.log_in(secrets)).await?;
            run::detached(&environment, spec, &secrets, true, debug, form).await.map(drop)
        };
        let restores = !again && matches.get_flag(INTERRUPTED);
        let one = async |name: String| {
            let started = Box::pin(one(name.clone())).await;
            if started.is_err() && restores {
                // The next start tries this again.
                let _ = workloads.mark_interrupted(&name);
            }
            started
        };
        Ok(Box::pin(workload_args::for_each_workload(names, one)).await)
    })
}
