//! `mcpm list`: lists workloads and their status.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use mcpm::{
    Environment, Result,
    options::Transport,
    runtime::EngineName,
    state::LoginState,
    workload::{WorkloadInfo, Workloads},
};

use crate::{
    commands::workload_args,
    completion, executor,
    output::{self, JSON, TEXT},
};

const GROUP: &str = "group";
const MCP_JSON: &str = "mcp-json";

pub(crate) fn command() -> Command {
    Command::new("list").visible_alias("ls").about("List workloads and their status").defer(|command| {
        let group = Arg::new(GROUP)
            .long(GROUP)
            .value_name("GROUP")
            .help("Only workloads of this group")
            .add(completion::groups());
        command.arg(group).arg(output::arg(&[TEXT, JSON, MCP_JSON]))
    })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let workloads = Workloads::new(Environment::from_process());
    let mut all = executor::run(workloads.list())?;
    let group = matches.get_one::<String>(GROUP);
    if let Some(group) = group {
        workload_args::check_group(&workloads, group)?;
        all.retain(|workload| workload.group.as_ref() == Some(group));
    }
    match output::format(matches) {
        JSON => output::json(&all)?,
        MCP_JSON => output::json(&client_configuration(&all))?,
        _ if all.is_empty() => {
            workload_args::hint_of_none(group);
            output::list(&rows(&all))?;
        }
        _ => output::list(&rows(&all))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn rows(all: &[WorkloadInfo]) -> Vec<Vec<String>> {
    let mut head = ["NAME", "SERVER", "STATUS", "URL", "GROUP", "CREATED"].map(str::to_owned).to_vec();
    // With engines alone, it says nothing new.
    let shows_runtimes = all.iter().any(|one| one.runtime == Some(EngineName::Builtin));
    head.extend(shows_runtimes.then(|| "RUNTIME".to_owned()));
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let row = |one: &WorkloadInfo| {
        let mut status = one.status.as_str().to_owned();
        if one.login == Some(LoginState::NeedsLogin) {
            status += " (needs login)";
        }
        let runtime = one.runtime.map(|runtime| runtime.to_string());
        let mut cells = vec![
            one.name.clone(),
            text(&server(one)),
            status,
            text(&one.url),
            text(&one.group),
            one.created_at.as_deref().map_or_else(|| "-".to_owned(), output::ago),
        ];
        cells.extend(shows_runtimes.then(|| text(&runtime)));
        cells
    };
    std::iter::once(head).chain(all.iter().map(row)).collect()
}

/// The server as the user wrote it: the image name of a package is generated.
fn server(one: &WorkloadInfo) -> Option<String> {
    let package = one.package.as_ref().map(|package| package.reference.clone());
    package.or_else(|| one.image.clone()).or_else(|| one.remote.clone())
}

/// The configuration for MCP clients.
fn client_configuration(all: &[WorkloadInfo]) -> serde_json::Value {
    let servers = all.iter().filter_map(|workload| {
        let url = workload.url.as_ref()?;
        let sse = url.ends_with("/sse") || workload.transport == Some(Transport::Sse);
        let kind = if sse { "sse" } else { "http" };
        Some((workload.name.clone(), serde_json::json!({ "type": kind, "url": url })))
    });
    serde_json::json!({ "mcpServers": servers.collect::<serde_json::Map<_, _>>() })
}
