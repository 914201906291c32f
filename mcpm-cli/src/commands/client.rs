//! `mcpm client`: adds workloads to the configurations of MCP clients, removes, lists and imports entries, and shows
//! the supported clients.

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, ValueHint};
use mcpm::{
    Environment, Error, ErrorKind, Result,
    clients::{Clients, EntryOptions, WrittenEntry},
    workload::Workloads,
};
use serde_json::json;

use crate::{
    commands::{client_import, workload_args},
    completion, executor,
    output::{self, JSON, TEXT},
};

const CLIENT: &str = "client";
const NAME: &str = "name";
const GROUP: &str = "group";
const PROJECT: &str = "project";
const TOKEN_VARIABLE: &str = "token-env";

pub(crate) fn command() -> Command {
    Command::new("client")
        .about("Manage the entries for workloads in the configurations of MCP clients")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            Command::new("add").about("Add workloads to the configuration of a client").defer(|command| {
                let token = Arg::new(TOKEN_VARIABLE)
                    .long(TOKEN_VARIABLE)
                    .value_name("VARIABLE")
                    .help("Environment variable from which the client reads a bearer token for the workload");
                selection(command).arg(token)
            }),
            Command::new("remove")
                .visible_alias("rm")
                .about("Remove workloads from the configuration of a client")
                .defer(selection),
            client_import::command(),
            Command::new("list")
                .visible_alias("ls")
                .about("List the entries that mcpm has written to client configurations")
                .defer(|command| command.arg(optional_client()).arg(output::arg(&[TEXT, JSON]))),
            Command::new("status")
                .about("Show the clients, their configuration files and the workloads in them")
                .defer(|command| command.arg(optional_client()).arg(output::arg(&[TEXT, JSON]))),
        ])
}

/// The argument for a client.
pub(crate) fn client_arg() -> Arg {
    Arg::new(CLIENT).value_name("CLIENT").required(true).help(CLIENT_HELP).add(completion::clients())
}

/// The argument for a project.
pub(crate) fn project_arg() -> Arg {
    Arg::new(PROJECT)
        .long(PROJECT)
        .value_name("FOLDER")
        .value_hint(ValueHint::DirPath)
        .help("Use the client's configuration in this project folder instead of the user's configuration")
}

/// Adds the arguments that `add` and `remove` share: the client, the workloads, the project and the output format.
fn selection(command: Command) -> Command {
    let usage = format!("mcpm client {} [OPTIONS] CLIENT <NAME...|--group GROUP>", command.get_name());
    command
        .override_usage(usage)
        .arg(client_arg())
        .arg(
            Arg::new(NAME)
                .value_name("NAME")
                .action(ArgAction::Append)
                .help("Names of the workloads")
                .add(completion::workloads()),
        )
        .arg(
            Arg::new(GROUP)
                .long(GROUP)
                .value_name("GROUP")
                .help("All workloads of a group")
                .add(completion::groups()),
        )
        .arg(project_arg())
        .arg(output::arg(&[TEXT, JSON]))
        .group(ArgGroup::new("which").args([NAME, GROUP]).required(true))
}

const CLIENT_HELP: &str = "Name of the client, such as `claude-code`; `mcpm client status` lists the clients";

fn optional_client() -> Arg {
    Arg::new(CLIENT).value_name("CLIENT").help("Only this client").add(completion::clients())
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    match matches.subcommand() {
        Some(("add", matches)) => add(matches),
        Some(("remove", matches)) => remove(matches),
        Some(("import", matches)) => client_import::run(matches),
        Some(("list", matches)) => list(matches),
        Some(("status", matches)) => status(matches),
        _ => Err(Error::new(
            ErrorKind::InvalidOption,
            "`add`, `remove`, `import`, `list` or `status` is missing after `mcpm client`",
        )),
    }
}

/// Gives access to the configurations of clients. Entries with a command start this program.
pub(crate) fn clients(workloads: &Workloads) -> Clients {
    workloads.clients().program(program())
}

/// Writes the entry of a running workload, and prints that it was written.
pub(crate) async fn enter(
    workloads: &Workloads,
    client: &str,
    name: &str,
    options: &EntryOptions,
) -> Result<WrittenEntry> {
    let target = workloads.client_target(name).await?;
    let written = clients(workloads).add(client, &target, options)?;
    let WrittenEntry { workload, name, file, notes, .. } = &written;
    output::note(format!("added `{workload}` to {name}: {}", file.display()));
    for note in notes {
        output::note(format!("note: {note}"));
    }
    Ok(written)
}

/// Shows on a terminal how to add a new workload to a client; scripts do not get this hint.
pub(crate) fn suggest(workloads: &Workloads, name: &str) {
    if !io::stdout().is_terminal() || !io::stderr().is_terminal() {
        return;
    }
    let Ok(all) = workloads.clients().status() else { return };
    if all.iter().any(|client| client.workloads.iter().any(|workload| workload == name)) {
        return;
    }
    if let Some(client) = all.iter().find(|client| client.installed) {
        let _ = writeln!(io::stderr(), "next: mcpm client add {} {name}", client.client);
    }
}

fn add(matches: &ArgMatches) -> Result<ExitCode> {
    let workloads = Workloads::new(Environment::from_process());
    let client = client_of(matches);
    let options = EntryOptions {
        project: project(matches).map(Path::to_owned),
        token_variable: matches.get_one::<String>(TOKEN_VARIABLE).cloned(),
    };
    clients(&workloads).check(client, None, &options)?;
    executor::run(async {
        let names = workload_args::names_of(matches, &workloads).await?;
        let enter = async |name: String| {
            let written = enter(&workloads, client, &name, &options).await?;
            if output::format(matches) == JSON { output::json(&written) } else { Ok(()) }
        };
        Ok(workload_args::for_each_workload(names, enter).await)
    })
}

fn remove(matches: &ArgMatches) -> Result<ExitCode> {
    let workloads = Workloads::new(Environment::from_process());
    let client = client_of(matches);
    executor::run(async {
        let mut names = workload_args::names_of(matches, &workloads).await?;
        if matches.contains_id(GROUP) {
            let entries = workloads.clients().entries()?;
            names
                .retain(|name| entries.iter().any(|entry| entry.client == client && entry.workload == *name));
        }
        let remove = async |name: String| {
            let file = clients(&workloads).remove(client, &name, project(matches))?;
            output::note(format!("removed `{name}` from {}", file.display()));
            if output::format(matches) == JSON {
                return output::json(
                    &json!({ "workload": name, "client": client, "file": file.to_string_lossy() }),
                );
            }
            Ok(())
        };
        Ok(workload_args::for_each_workload(names, remove).await)
    })
}

fn list(matches: &ArgMatches) -> Result<ExitCode> {
    let mut entries = Clients::new(Environment::from_process()).entries()?;
    if let Some(client) = matches.get_one::<String>(CLIENT) {
        entries.retain(|entry| entry.client == client);
    }
    if entries.is_empty() {
        output::hint("there are no entries that mcpm has written; `mcpm client add CLIENT NAME` writes one");
    }
    if output::format(matches) == JSON {
        output::json(&entries)?;
        return Ok(ExitCode::SUCCESS);
    }
    let head = ["NAME", "CLIENT", "STATE", "URL", "FILE"].map(str::to_owned).to_vec();
    let rows = entries.into_iter().map(|entry| {
        let url = entry.url.unwrap_or_else(|| "-".to_owned());
        let file = entry.file.display().to_string();
        vec![entry.workload, entry.client.to_owned(), entry.state.as_str().to_owned(), url, file]
    });
    output::list(&std::iter::once(head).chain(rows).collect::<Vec<_>>())?;
    Ok(ExitCode::SUCCESS)
}

fn status(matches: &ArgMatches) -> Result<ExitCode> {
    let clients = Clients::new(Environment::from_process());
    let mut all = clients.status()?;
    if let Some(client) = matches.get_one::<String>(CLIENT) {
        all.retain(|status| status.client == client);
        if all.is_empty() {
            // The message contains the names of the known clients.
            clients.check(client, None, &EntryOptions::default())?;
        }
    }
    if output::format(matches) == JSON {
        output::json(&all)?;
        return Ok(ExitCode::SUCCESS);
    }
    let head = ["CLIENT", "INSTALLED", "WORKLOADS", "FILE"].map(str::to_owned).to_vec();
    let rows = all.into_iter().map(|status| {
        let installed = if status.installed { "yes" } else { "no" };
        let workloads =
            if status.workloads.is_empty() { "-".to_owned() } else { status.workloads.join(", ") };
        let file = status.file.map_or_else(|| "-".to_owned(), |file| file.display().to_string());
        let file = status.problem.unwrap_or(file);
        vec![status.client.to_owned(), installed.to_owned(), workloads, file]
    });
    output::list(&std::iter::once(head).chain(rows).collect::<Vec<_>>())?;
    Ok(ExitCode::SUCCESS)
}

/// The value of [`client_arg`].
pub(crate) fn client_of(matches: &ArgMatches) -> &str {
    text(matches, CLIENT)
}

fn text<'a>(matches: &'a ArgMatches, id: &str) -> &'a str {
    matches.get_one::<String>(id).map_or("", String::as_str)
}

/// The value of [`project_arg`].
pub(crate) fn project(matches: &ArgMatches) -> Option<&Path> {
    matches.get_one::<String>(PROJECT).map(Path::new)
}

/// Returns the path of this program. A path in `PATH` that leads to this program is preferred, because that path stays
/// the same after an update.
fn program() -> PathBuf {
    let Ok(own) = std::env::current_exe() else { return PathBuf::from("mcpm") };
    let real = own.canonicalize().unwrap_or_else(|_| own.clone());
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(format!("mcpm{}", std::env::consts::EXE_SUFFIX)))
        .find(|candidate| candidate.canonicalize().is_ok_and(|candidate| candidate == real))
        .unwrap_or(own)
}
