//! `mcpm events`: shows the recorded events of workloads.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use futures_util::StreamExt as _;
use mcpm::{
    Environment, Result,
    workload::{RecordedEvent, Workloads},
};

use crate::{
    commands::logs,
    executor,
    follower::Follower,
    output::{self, JSON, TEXT},
};

const NAMES: &str = "names";

pub(crate) fn command() -> Command {
    Command::new("events")
        .about("Show events of workloads, such as starts, exits, restarts and denials")
        .defer(|command| {
            let names = Arg::new(NAMES).value_name("NAME").action(ArgAction::Append);
            command
                .arg(names.help("Names of the workloads; by default, all workloads"))
                .arg(logs::follow("Continue with new events as they happen"))
                .arg(output::arg(&[TEXT, JSON]).help("Output format; JSON has a line for each event"))
        })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let workloads = Workloads::new(Environment::from_process());
    let names: Vec<&String> = matches.get_many(NAMES).into_iter().flatten().collect();
    let form = output::format(matches);
    executor::run(async {
        let mut follower = Follower::start()?;
        let mut events = workloads.events(&names, matches.get_flag(logs::FOLLOW))?;
        while let Some(event) = follower.next(events.next()).await.flatten() {
            let event = event?;
            let line = match form {
                JSON => output::to_json_line(&event)?,
                _ => text(&event) + "\n",
            };
            let Some(written) = follower.write(line.as_bytes()).await else { break };
            written?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn text(event: &RecordedEvent) -> String {
    let RecordedEvent { time, workload, message, refusal, .. } = event;
    let refusal = refusal.as_ref().map(|id| format!(" (`mcpm explain {id}`)")).unwrap_or_default();
    // Messages contain output of servers.
    output::escape_control(&format!("{time}  {workload}  {}  {message}{refusal}", event.event.as_str()))
}
