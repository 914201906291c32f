//! `mcpm client import`: turns the entries in a client's configuration into workloads.

use std::{collections::BTreeMap, process::ExitCode};

use clap::{Arg, ArgAction, ArgMatches, Command};
use mcpm::{
    Environment, Error, ErrorKind, Result,
    clients::{ImportCandidate, ImportedEntry, ImportedServer},
    options::{OptionSet as _, Secret, WorkloadOptions},
    secrets::Secrets,
    workload::Workloads,
};
use serde_json::json;

use crate::{
    args,
    commands::{client, run, workload_args},
    executor,
    output::{self, JSON, TEXT},
    supervise::STOP_GRACE,
    terminal,
};

const ENTRY: &str = "entry";
const PLAN: &str = "plan";
const UNDO: &str = "undo";
const PROFILE: &str = "permission_profile";
const NO_ENTRIES: &str =
    "the client has no entries to import; `mcpm client list` shows the entries that mcpm has written";

pub(crate) fn command() -> Command {
    Command::new("import")
        .about("Turn entries in a client's configuration into workloads that the client uses")
        .long_about(
            "Turn entries in a client's configuration into workloads that the client uses\n\n\
             mcpm can import entries with a URL, and entries with the command `npx`, `bunx`, `uvx`, `uv tool run`, \
             `docker run` or `podman run`. Secrets in an entry are moved to the secret store. `--undo` restores the \
             original entries, and removes the workloads and the secrets.",
        )
        .defer(|command| {
            let profile = WorkloadOptions::SPECS.iter().find(|spec| spec.name == PROFILE).map(args::arg);
            command
                .arg(client::client_arg())
                .arg(
                    Arg::new(ENTRY)
                        .value_name("ENTRY")
                        .action(ArgAction::Append)
                        .help(
                            "Names of the entries; by default, all that can be imported or, with `--undo`, all that \
                             were imported",
                        ),
                )
                .arg(client::project_arg())
                .args(profile.map(|profile| profile.help_heading(None::<&str>)))
                .arg(
                    Arg::new(PLAN)
                        .long(PLAN)
                        .action(ArgAction::SetTrue)
                        .help("Show what would be started, without changing anything"),
                )
                .arg(
                    Arg::new(UNDO)
                        .long(UNDO)
                        .action(ArgAction::SetTrue)
                        .conflicts_with_all([PLAN, PROFILE])
                        .help("Restore imported entries, and remove their workloads and secrets"),
                )
                .arg(output::arg(&[TEXT, JSON]))
        })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let environment = terminal::environment();
    let import = Import { matches, workloads: Workloads::new(environment.clone()), environment };
    if matches.get_flag(UNDO) {
        return import.undo();
    }
    let candidates = import.candidates()?;
    if matches.get_flag(PLAN) {
        show(&candidates, output::format(matches))?;
        return Ok(ExitCode::SUCCESS);
    }
    import.all(candidates)
}

struct Import<'a> {
    matches: &'a ArgMatches,
    workloads: Workloads,
    environment: Environment,
}

impl Import<'_> {
    /// Returns the entries that were named, or all entries.
    fn candidates(&self) -> Result<Vec<ImportCandidate>> {
        let client = client::client_of(self.matches);
        let mut all =
            client::clients(&self.workloads).import_candidates(client, client::project(self.matches))?;
        let names: Vec<&String> = self.matches.get_many(ENTRY).into_iter().flatten().collect();
        if let Some(unknown) = names.iter().find(|name| all.iter().all(|one| one.entry != ***name)) {
            let message = format!("the client has no entry `{unknown}` to import");
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        all.retain(|one| names.is_empty() || names.contains(&&one.entry));
        if let Some(profile) = self.matches.get_one::<String>(PROFILE) {
            for server in all.iter_mut().filter_map(|one| one.server.as_mut().ok()) {
                server.options.push((PROFILE, profile.clone()));
            }
        }
        Ok(all)
    }

    fn all(&self, candidates: Vec<ImportCandidate>) -> Result<ExitCode> {
        if candidates.is_empty() {
            output::hint(NO_ENTRIES);
        }
        executor::run(async {
            let mut code = ExitCode::SUCCESS;
            for ImportCandidate { entry, server } in candidates {
                match server {
                    Ok(server) => {
                        let one = async |entry: String| Box::pin(self.one(&entry, &server)).await;
                        let ended = workload_args::for_each_workload(vec![entry], one).await;
                        if code == ExitCode::SUCCESS {
                            code = ended;
                        }
                    }
                    Err(reason) => {
                        output::note(format!("`{entry}` was not imported: {reason}"));
                    }
                }
            }
            Ok(code)
        })
    }

    /// Imports one entry; if that fails, nothing is left behind.
    async fn one(&self, entry: &str, server: &ImportedServer) -> Result<()> {
        let client = client::client_of(self.matches);
        let mut options = WorkloadOptions::default();
        for (name, text) in &server.options {
            options.set(name, text)?;
        }
        self.store(&server.secrets).await?;
        let (debug, form) = (args::debug(self.matches), output::format(self.matches));
        let starting = run::start_in_background(options, &self.environment, debug, form);
        let started = Box::pin(starting).await;
        if let Err(error) = started {
            self.discard(server.secrets.keys()).await;
            return Err(error);
        }
        let taken = async {
            let target = self.workloads.client_target(&server.name).await?;
            let project = client::project(self.matches);
            client::clients(&self.workloads).take_over(client, entry, server, &target, project)
        };
        match taken.await {
            Ok(written) => {
                output::note(format!("replaced `{entry}` in {}: {}", written.name, written.file.display()));
                for note in written.notes {
                    output::note(format!("note: {note}"));
                }
                Ok(())
            }
            Err(error) => {
                if let Err(left) = self.workloads.remove(&server.name, STOP_GRACE).await {
                    let name = &server.name;
                    output::warning(&format!("the workload `{name}` was not removed: {left}"));
                }
                self.discard(server.secrets.keys()).await;
                Err(error)
            }
        }
    }

    /// Stores the secrets; if one of the names is taken already or cannot be stored, stores none and returns an error.
    async fn store(&self, secrets: &BTreeMap<String, Secret>) -> Result<()> {
        if secrets.is_empty() {
            return Ok(());
        }
        let store = Secrets::open(&self.environment)?;
        let stored = store.list().await?;
        if let Some(taken) = secrets.keys().find(|name| stored.iter().any(|one| one.name == **name)) {
            return Err(Error::new(ErrorKind::NameTaken, format!("a secret named `{taken}` exists already"))
                .hint(format!("remove it with `mcpm secret rm {taken}`")));
        }
        for (number, (name, value)) in secrets.iter().enumerate() {
            if let Err(error) = store.set(name, value).await {
                self.discard(secrets.keys().take(number)).await;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes the secrets that this command has stored.
    async fn discard(&self, names: impl IntoIterator<Item = &String>) {
        for name in names {
            let removed = match Secrets::open(&self.environment) {
                Ok(store) => store.remove(name).await,
                Err(error) => Err(error),
            };
            if let Err(error) = removed {
                output::warning(&format!("the secret `{name}` was not removed: {error}"));
            }
        }
    }

    fn undo(&self) -> Result<ExitCode> {
        let client = client::client_of(self.matches);
        let project = client::project(self.matches);
        let clients = client::clients(&self.workloads);
        let mut imported = clients.imported(client, project)?;
        if let Some(names) = self.matches.get_many::<String>(ENTRY) {
            let names: Vec<&String> = names.collect();
            imported.retain(|one| names.contains(&&one.entry));
        }
        executor::run(async {
            let undo = async |workload: String| {
                let Some(ImportedEntry { entry, secrets, .. }) =
                    imported.iter().find(|one| one.workload == workload)
                else {
                    return Ok(());
                };
                let mut values = BTreeMap::new();
                if !secrets.is_empty() {
                    let store = Secrets::open(&self.environment)?;
                    for name in secrets {
                        values.insert(name.clone(), store.get(name).await?);
                    }
                }
                let file = clients.put_back(client, &workload, &values, project)?;
                output::note(format!("restored `{entry}` in {}", file.display()));
                match self.workloads.remove(&workload, STOP_GRACE).await {
                    // The workload was removed meanwhile.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    removed => removed?,
                }
                self.discard(secrets).await;
                match output::format(self.matches) {
                    JSON => output::json(
                        &json!({ "entry": entry, "workload": workload, "file": file.to_string_lossy() }),
                    ),
                    _ => Ok(()),
                }
            };
            if imported.is_empty() {
                output::hint(
                    "found no imported entry to restore; `mcpm client list` shows the entries that mcpm has \
                     written",
                );
            }
            let names = imported.iter().map(|one| one.workload.clone()).collect();
            Ok(workload_args::for_each_workload(names, undo).await)
        })
    }
}

/// Shows the workloads that would be started.
fn show(candidates: &[ImportCandidate], form: &str) -> Result<()> {
    if form == JSON {
        let shown = candidates.iter().map(|one| match &one.server {
            Ok(server) => json!({
                "entry": one.entry,
                "workload": server.name,
                "command": command_line(server),
                "secrets": server.secrets.keys().collect::<Vec<_>>(),
            }),
            Err(reason) => json!({ "entry": one.entry, "reason": reason }),
        });
        return output::json(&shown.collect::<Vec<_>>());
    }
    if candidates.is_empty() {
        output::hint(NO_ENTRIES);
    }
    let head = ["ENTRY", "WORKLOAD", "COMMAND"].map(str::to_owned).to_vec();
    let rows = candidates.iter().map(|one| match &one.server {
        Ok(server) => vec![one.entry.clone(), server.name.clone(), command_line(server)],
        Err(reason) => vec![one.entry.clone(), "-".to_owned(), format!("not imported: {reason}")],
    });
    output::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
}

/// Returns the command that would start a workload.
fn command_line(server: &ImportedServer) -> String {
    let quoted = |text: &str| {
        let is_plain =
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c));
        if is_plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
    };
    let (mut words, mut args) = (vec!["mcpm".to_owned(), "run".to_owned()], Vec::new());
    for (name, text) in &server.options {
        match *name {
            "server" => words.insert(2, quoted(text)),
            "args" => args.push(quoted(text)),
            _ => words.extend([format!("--{}", name.replace('_', "-")), quoted(text)]),
        }
    }
    if !args.is_empty() {
        words.push("--".to_owned());
        words.extend(args);
    }
    words.join(" ")
}
