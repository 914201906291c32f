//! Completion of names in shells. The script of a shell calls this program with `COMPLETE` set, and this finds the names.
//!
//! Nothing is asked, and nothing takes longer than [`TIMEOUT`]. Names with characters that mean something to a shell are
//! not offered, since servers and registries choose names of their own.

use std::{
    env,
    ffi::{OsStr, OsString},
    time::Duration,
};

use clap_complete::{
    ArgValueCompleter, CompleteEnv, CompletionCandidate, PathCompleter, engine::ValueCompleter as _,
};
use mcpm::{
    Environment, Error, ErrorKind, Result,
    mcp_client::{ClientOptions, McpClient},
    registry::{Registry, RegistrySource},
    secrets::Secrets,
    state::Store,
    workload::Workloads,
};

use crate::{commands::server_args, executor};

/// The variable that a shell sets when it asks for completions.
pub(crate) const VARIABLE: &str = "COMPLETE";
/// How long names are looked for.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Answers a shell that asks for completions; `false` if none does.
pub(crate) fn answer(arguments: &[OsString]) -> bool {
    if env::var_os(VARIABLE).is_none() {
        return false;
    }
    let folder = env::current_dir().ok();
    // The shell shows no messages.
    CompleteEnv::with_factory(crate::command)
        .completer("mcpm")
        .try_complete(arguments, folder.as_deref())
        .unwrap_or(true)
}

/// Completes workloads.
pub(crate) fn workloads() -> ArgValueCompleter {
    completer(|| {
        let names = Store::new(&Environment::from_process().state_dir).names()?;
        Ok(names.into_iter().map(|name| name.to_string()).collect())
    })
}

/// Completes groups.
pub(crate) fn groups() -> ArgValueCompleter {
    completer(|| Workloads::new(Environment::from_process()).groups().list())
}

/// Completes MCP clients.
pub(crate) fn clients() -> ArgValueCompleter {
    completer(|| {
        let clients = Workloads::new(Environment::from_process()).clients().status()?;
        Ok(clients.into_iter().map(|client| client.client.to_owned()).collect())
    })
}

/// Completes secrets, as far as no password is needed to list them.
pub(crate) fn secrets() -> ArgValueCompleter {
    completer(|| {
        let all = in_time(async { Secrets::open(&Environment::from_process())?.list().await })?;
        Ok(all.into_iter().map(|secret| secret.name).collect())
    })
}

/// Completes servers of the registry, if that is on this machine.
pub(crate) fn servers() -> ArgValueCompleter {
    completer(registry_names)
}

/// Completes what `run` starts: servers of the registry, and paths of scripts and projects.
pub(crate) fn servers_and_paths() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let is_path = current.to_string_lossy().starts_with(['.', '/', '~']);
        if is_path { PathCompleter::any().complete(current) } else { matching(registry_names(), current) }
    })
}

/// Completes the tools of the server that the command names, if it is a workload.
pub(crate) fn tools() -> ArgValueCompleter {
    completer(|| {
        let words = env::args_os().skip_while(|word| word != "--").skip(1);
        // The last word is not complete yet.
        let matches = crate::command().ignore_errors(true).try_get_matches_from(words);
        let target = matches.ok().and_then(|matches| {
            let (_, matches) = matches.subcommand()?;
            Some(server_args::target(matches).to_owned())
        });
        let target = target.filter(|target| !target.contains("://"));
        let target = target.ok_or_else(|| Error::new(ErrorKind::NotFound, "no workload is named"))?;
        let tools = in_time(async {
            // It has no prompt.
            let environment = Environment::from_process();
            let connect = async || {
                let bridge = Workloads::new(environment.clone()).stdio_bridge(&target).await?;
                Ok(bridge.environment(environment.clone()).build()?.connect())
            };
            let client = McpClient::connect(connect, ClientOptions::default()).await?;
            let tools = client.tools().await;
            client.close().await;
            tools
        })?;
        let name = |tool: &mcpm::mcp_client::JsonObject| Some(tool.get("name")?.as_str()?.to_owned());
        Ok(tools.iter().filter_map(name).collect())
    })
}

fn registry_names() -> Result<Vec<String>> {
    let registry = Registry::open(&Environment::from_process(), None)?;
    if !matches!(registry.source(), RegistrySource::Embedded | RegistrySource::File(_)) {
        return Ok(Vec::new());
    }
    let entries = in_time(registry.list(&|_| {}))?;
    Ok(entries.into_iter().map(|entry| entry.name).collect())
}

fn completer(names: impl Fn() -> Result<Vec<String>> + Send + Sync + 'static) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| matching(names(), current))
}

/// The names that begin with what was typed; none if they cannot be found.
fn matching(names: Result<Vec<String>>, current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let names = names.unwrap_or_default().into_iter();
    let names = names.filter(|name| name.starts_with(current) && is_plain(name));
    names.map(CompletionCandidate::new).collect()
}

/// Whether a name is one word to every shell.
fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-./:@+".contains(c))
}

fn in_time<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    executor::run(async {
        let elapsed = |_| Error::new(ErrorKind::Interrupted, "the names were not found in time");
        tokio::time::timeout(TIMEOUT, work).await.map_err(elapsed)?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_no_shell_interprets_are_offered() {
        let names = ["echo", "echo_all", "echo $(id)", "echo;id", "echo\nid", "echo\u{1b}[2J", "other"];
        let found = matching(Ok(names.map(str::to_owned).to_vec()), OsStr::new("ec"));
        let found: Vec<_> = found.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect();
        assert_eq!(found, ["echo", "echo_all"]);
        assert!(is_plain("io.github.example/time") && !is_plain("-rf") && !is_plain(""));
    }
}
