//! `mcpm list`: lists workloads and their status.

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
    time::{Duration, SystemTime},
};

use clap::{Arg, ArgAction, ArgMatches, Command};
use futures_util::StreamExt as _;
use mcpm::{
    Environment, Error, ErrorKind, Result,
    options::Transport,
    runtime::EngineName,
    state::LoginState,
    workload::{WorkloadInfo, Workloads},
};

use crate::{
    commands::workload_args,
    completion, executor,
    follower::Follower,
    output::{self, JSON, TEXT},
    progress,
};

const GROUP: &str = "group";
const WATCH: &str = "watch";
const MCP_JSON: &str = "mcp-json";
/// The displayed status of a removed workload.
const REMOVED: &str = "removed";
/// How long to wait for a change before the list is redrawn, because it shows how long ago each workload was created.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);
/// Moves the cursor to the first row of a terminal and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

pub(crate) fn command() -> Command {
    Command::new("list").visible_alias("ls").about("List workloads and their status").defer(|command| {
        let group = Arg::new(GROUP)
            .long(GROUP)
            .value_name("GROUP")
            .help("Only workloads of this group")
            .add(completion::groups());
        let watch =
            Arg::new(WATCH).long(WATCH).short('w').action(ArgAction::SetTrue).help(
                "Watch for changes: redraw the list on a terminal, otherwise print a line for each change",
            );
        let output = output::arg(&[TEXT, JSON, MCP_JSON])
            .help("Output format; `mcp-json` is a configuration for MCP clients");
        command.arg(group).arg(watch).arg(output)
    })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let workloads = Workloads::new(Environment::from_process());
    let group = matches.get_one::<String>(GROUP);
    let form = output::format(matches);
    if let Some(group) = group {
        workload_args::check_group(&workloads, group)?;
    }
    if matches.get_flag(WATCH) {
        return executor::run(watch(&workloads, group, form));
    }
    let all = progress::waiting("waiting for the container engine", None, workloads.list());
    let all = of_group(executor::run(all)?, group);
    match form {
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

fn of_group(mut all: Vec<WorkloadInfo>, group: Option<&String>) -> Vec<WorkloadInfo> {
    all.retain(|workload| group.is_none_or(|group| workload.group.as_ref() == Some(group)));
    all
}

/// Shows changes until the command is stopped.
async fn watch(workloads: &Workloads, group: Option<&String>, form: &str) -> Result<ExitCode> {
    if form == MCP_JSON {
        let message = "`--watch` cannot be used with `--output mcp-json`";
        return Err(Error::new(ErrorKind::InvalidOption, message));
    }
    let draws = form == TEXT && io::stdout().is_terminal();
    let mut follower = Follower::start()?;
    let mut changes = workloads.watch();
    let mut shown: Vec<WorkloadInfo> = Vec::new();
    loop {
        let next = async {
            match draws {
                true => tokio::time::timeout(REDRAW_INTERVAL, changes.next()).await.ok(),
                false => Some(changes.next().await),
            }
        };
        let Some(next) = follower.next(next).await else { return Ok(ExitCode::SUCCESS) };
        let all = match next {
            Some(Some(all)) => of_group(all?, group),
            Some(None) => return Ok(ExitCode::SUCCESS),
            None => shown.clone(),
        };
        let text = match draws {
            true => CLEAR.to_owned() + &output::list_text(&rows(&all)),
            false => changed_lines(&shown, &all, form)?,
        };
        let Some(written) = follower.write(text.as_bytes()).await else { return Ok(ExitCode::SUCCESS) };
        written?;
        shown = all;
    }
}

/// Returns a line for each workload that is new, has changed or was removed.
fn changed_lines(before: &[WorkloadInfo], now: &[WorkloadInfo], form: &str) -> Result<String> {
    let time = humantime::format_rfc3339_seconds(SystemTime::now());
    let text = |name: &str, status: &str, more: Option<&str>| {
        let more = more.map(|more| format!("  {more}")).unwrap_or_default();
        output::escape_control(&format!("{time}  {name}  {status}{more}")) + "\n"
    };
    let mut lines = String::new();
    for one in now.iter().filter(|one| !before.contains(one)) {
        lines += &match form {
            JSON => output::to_json_line(one)?,
            _ => text(&one.name, one.status.as_str(), one.url.as_deref().or(one.reason.as_deref())),
        };
    }
    for one in before.iter().filter(|one| now.iter().all(|other| other.name != one.name)) {
        lines += &match form {
            JSON => output::to_json_line(&serde_json::json!({ "name": one.name, "status": REMOVED }))?,
            _ => text(&one.name, REMOVED, None),
        };
    }
    Ok(lines)
}

fn rows(all: &[WorkloadInfo]) -> Vec<Vec<String>> {
    let mut head = ["NAME", "SERVER", "STATUS", "URL", "GROUP", "CREATED"].map(str::to_owned).to_vec();
    // If all workloads run on engines, the column for the runtime is omitted.
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

/// Returns the server as the user wrote it, because the image name of a package is generated.
fn server(one: &WorkloadInfo) -> Option<String> {
    let package = one.package.as_ref().map(|package| package.reference.clone());
    package.or_else(|| one.image.clone()).or_else(|| one.remote.clone())
}

/// Prints the configuration for MCP clients.
fn client_configuration(all: &[WorkloadInfo]) -> serde_json::Value {
    let servers = all.iter().filter_map(|workload| {
        let url = workload.url.as_ref()?;
        let sse = url.ends_with("/sse") || workload.transport == Some(Transport::Sse);
        let kind = if sse { "sse" } else { "http" };
        Some((workload.name.clone(), serde_json::json!({ "type": kind, "url": url })))
    });
    serde_json::json!({ "mcpServers": servers.collect::<serde_json::Map<_, _>>() })
}
