//! Completes names in shells. A shell's completion script calls this program with [`VARIABLE`] set, and this module
//! finds the names.
//!
//! Completion does not prompt, unlock a secret store or connect to anything: names come from this program, its
//! environment and files on this machine. Names that contain special characters of a shell are omitted, because servers
//! and registries can choose any names. File names may contain such characters: [`shells`] makes completion of file
//! names safe in each shell.

use std::{
    env,
    ffi::{OsStr, OsString},
    process::ExitCode,
};

use clap::Command;
use clap_complete::{
    ArgValueCompleter, CompleteEnv, CompletionCandidate, PathCompleter, engine::ValueCompleter as _,
};
use mcpm::{
    Environment, Error, ErrorKind, Result,
    clients::Clients,
    registry::{Registry, RegistrySource},
    state::Store,
    workload::Workloads,
};

use crate::{commands::server_args, executor, exit, shells, tool_names, topics};

/// The variable that a shell sets when it requests completions.
pub(crate) const VARIABLE: &str = "MCPM_COMPLETE";

/// Responds to a shell that requests completions; `None` if the program was started normally.
pub(crate) fn answer(arguments: &[OsString]) -> Option<ExitCode> {
    env::var_os(VARIABLE)?;
    let folder = env::current_dir().ok();
    let completed = CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .shells(shells::ALL)
        .completer("mcpm")
        .try_complete(arguments, folder.as_deref());
    match completed {
        Ok(is_answered) => is_answered.then_some(ExitCode::SUCCESS),
        Err(error) => {
            // The reader may have closed the pipe.
            let _ = error.print();
            Some(exit::of_usage(&error))
        }
    }
}

/// Returns the command line with the topics of `help` as commands; the normal parser does not know them.
fn command() -> Command {
    let mut command = crate::command();
    // Clap adds its own `help`.
    command.build();
    command.mut_subcommand("help", |help| help.subcommands(topics::commands()))
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
    completer(|| Ok(Clients::names().into_iter().map(str::to_owned).collect()))
}

/// Completes secrets of the environment provider. Listing the secrets of a store may unlock it, or derive a key.
pub(crate) fn secrets() -> ArgValueCompleter {
    completer(|| Ok(Environment::from_process().secrets.overrides.into_keys().collect()))
}

/// Completes servers of the registry, if the registry is built in or a file on this machine.
pub(crate) fn servers() -> ArgValueCompleter {
    completer(registry_names)
}

/// Completes the argument of `run`: servers of the registry, and paths of scripts and projects.
pub(crate) fn servers_and_paths() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let is_path = current.to_string_lossy().starts_with(['.', '/', '~']);
        if is_path { PathCompleter::any().complete(current) } else { matching(registry_names(), current) }
    })
}

/// Completes the tools that the last `mcpm tools` or `mcpm call` listed, if the command names a workload.
pub(crate) fn tools() -> ArgValueCompleter {
    completer(|| {
        let words = env::args_os().skip_while(|word| word != "--").skip(1);
        // The last word is still being typed.
        let matches = crate::command().ignore_errors(true).try_get_matches_from(words);
        let target = matches.ok().and_then(|matches| {
            let (_, matches) = matches.subcommand()?;
            Some(server_args::target(matches).to_owned())
        });
        let target = target.ok_or_else(|| Error::new(ErrorKind::NotFound, "no workload is named"))?;
        tool_names::load(&target)
    })
}

fn registry_names() -> Result<Vec<String>> {
    let registry = Registry::open(&Environment::from_process(), None)?;
    if !matches!(registry.source(), RegistrySource::Embedded | RegistrySource::File(_)) {
        return Ok(Vec::new());
    }
    let entries = executor::run(registry.list(&|_| {}))?;
    Ok(entries.into_iter().map(|entry| entry.name).collect())
}

fn completer(names: impl Fn() -> Result<Vec<String>> + Send + Sync + 'static) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| matching(names(), current))
}

/// Returns the names that begin with the typed text; none if they cannot be found.
fn matching(names: Result<Vec<String>>, current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    let names = names.unwrap_or_default().into_iter();
    let names = names.filter(|name| name.starts_with(current) && is_plain(name));
    names.map(CompletionCandidate::new).collect()
}

/// Returns whether every shell reads a name as one word.
fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-./:@+".contains(c))
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
