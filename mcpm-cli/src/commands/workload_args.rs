//! Defines the arguments that select workloads, and applies operations to the selected workloads.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command};
use mcpm::{Error, ErrorKind, Result, workload::Workloads};

use crate::{completion, exit, flag_names, output};

const NAME: &str = "name";
const ALL: &str = "all";
const GROUP: &str = "group";
/// The group of arguments of which one is required.
pub(crate) const WHICH: &str = "which";

/// Returns the argument for one name.
pub(crate) fn name_arg() -> Arg {
    Arg::new(NAME).value_name("NAME").required(true).help("Name of the workload").add(completion::workloads())
}

/// Returns the value of [`name_arg`].
pub(crate) fn name_of(matches: &ArgMatches) -> &str {
    matches.get_one::<String>(NAME).map_or("", String::as_str)
}

/// Returns the arguments for names, for all workloads, or for the workloads of a group.
pub(crate) fn name_args(command: Command) -> Command {
    command
        .arg(
            Arg::new(NAME)
                .value_name("NAME")
                .action(ArgAction::Append)
                .num_args(1..)
                .help("Names of the workloads")
                .add(completion::workloads()),
        )
        .arg(Arg::new(ALL).long(ALL).action(ArgAction::SetTrue).help("All workloads"))
        .arg(
            Arg::new(GROUP)
                .long(GROUP)
                .value_name("GROUP")
                .help("All workloads of a group")
                .add(completion::groups()),
        )
        .group(ArgGroup::new(WHICH).args([NAME, ALL, GROUP]).required(true))
}

/// Returns the names that [`name_args`] selects.
pub(crate) async fn names_of(matches: &ArgMatches, workloads: &Workloads) -> Result<Vec<String>> {
    if let Some(names) = matches.get_many::<String>(NAME) {
        return Ok(names.cloned().collect());
    }
    let group = matches.get_one::<String>(GROUP);
    group.map_or(Ok(()), |group| check_group(workloads, group))?;
    let all = workloads.list().await?;
    let selected = all.into_iter().filter(|one| group.is_none_or(|group| one.group.as_ref() == Some(group)));
    let names: Vec<String> = selected.map(|one| one.name).collect();
    if names.is_empty() {
        hint_of_none(group);
    }
    Ok(names)
}

/// Prints a hint if there are no workloads.
pub(crate) fn hint_of_none(group: Option<&String>) {
    output::hint(match group {
        Some(group) => format!("no workloads are in the group `{group}`"),
        None => "there are no workloads; `mcpm run SERVER` starts one".to_owned(),
    });
}

/// Fails if the group does not exist.
pub(crate) fn check_group(workloads: &Workloads, group: &str) -> Result<()> {
    if workloads.groups().exists(group)? {
        return Ok(());
    }
    Err(Error::new(ErrorKind::NotFound, format!("no group is named `{group}`"))
        .hint("`mcpm group list` lists the groups"))
}

/// Applies an operation to each name, reports failures, and returns the exit code of the first one.
pub(crate) async fn for_each_workload(
    names: Vec<String>,
    work: impl AsyncFn(String) -> Result<()>,
) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for name in names {
        if let Err(error) = work(name).await {
            let text = output::escape_text(&flag_names::with_flags(&error.to_string()));
            let _ = writeln!(io::stderr(), "error: {text}");
            if code == ExitCode::SUCCESS {
                code = exit::of_error(error.kind());
            }
        }
    }
    code
}
