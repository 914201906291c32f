//! `mcpm group`: creates, lists and removes groups of workloads.

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use mcpm::{Environment, Error, ErrorKind, Result, workload::Workloads};

use crate::{
    completion, executor,
    output::{self, JSON, TEXT},
    supervise::STOP_GRACE,
};

const NAME: &str = "name";
const WITH_WORKLOADS: &str = "with-workloads";

pub(crate) fn command() -> Command {
    let name = || Arg::new(NAME).value_name("NAME").required(true).help("Name of the group");
    Command::new("group")
        .about("Manage groups of workloads")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            Command::new("create").about("Create a group").arg(name()).arg(output::arg(&[TEXT, JSON])),
            Command::new("list").visible_alias("ls").about("List groups").arg(output::arg(&[TEXT, JSON])),
            Command::new("rm")
                .about("Remove a group")
                .arg(name().add(completion::groups()))
                .arg(
                    Arg::new(WITH_WORKLOADS)
                        .long(WITH_WORKLOADS)
                        .action(ArgAction::SetTrue)
                        .help("Also remove the workloads of the group; otherwise, the group must be empty"),
                )
                .arg(output::arg(&[TEXT, JSON])),
        ])
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let workloads = Workloads::new(Environment::from_process());
    let name = |matches: &ArgMatches| matches.get_one::<String>(NAME).cloned().unwrap_or_default();
    match matches.subcommand() {
        Some(("create", matches)) => {
            workloads.groups().create(&name(matches))?;
            output::name(matches, &name(matches))?;
        }
        Some(("list", matches)) => {
            let groups = workloads.groups().list()?;
            match output::format(matches) {
                JSON => output::json(&groups)?,
                _ => groups.iter().try_for_each(output::line)?,
            }
            if groups.is_empty() {
                output::hint("there are no groups; `mcpm group create NAME` creates one");
            }
        }
        Some(("rm", matches)) => {
            remove(&workloads, &name(matches), matches.get_flag(WITH_WORKLOADS))?;
            output::name(matches, &name(matches))?;
        }
        _ => {
            return Err(Error::new(
                ErrorKind::InvalidOption,
                "`create`, `list` or `rm` is missing after `mcpm group`",
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(workloads: &Workloads, group: &str, with_workloads: bool) -> Result<()> {
    executor::run(async {
        let all = workloads.list().await?;
        let members = all.into_iter().filter(|one| one.group.as_deref() == Some(group)).map(|one| one.name);
        let members: Vec<String> = members.collect();
        if !members.is_empty() && !with_workloads {
            let message = format!("the group `{group}` has workloads: {}", members.join(", "));
            return Err(Error::new(ErrorKind::InvalidOption, message)
                .hint("remove them as well with `--with-workloads`"));
        }
        for member in members {
            workloads.remove(&member, STOP_GRACE).await?;
        }
        workloads.groups().remove(group)
    })
}
