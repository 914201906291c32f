//! The commands, one file each. A new command is a file and a line in [`ALL`].

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use mcpm::Result;

pub(crate) mod completion;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod group;
pub(crate) mod ignore;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod man;
mod names;
pub(crate) mod proxy;
pub(crate) mod registry;
pub(crate) mod rm;
pub(crate) mod run;
pub(crate) mod secret;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod stop;

/// One command.
pub(crate) struct Entry {
    /// What a user types.
    pub(crate) name: &'static str,
    /// Returns how it is read; its arguments are added by `defer`.
    pub(crate) command: fn() -> Command,
    /// Does it.
    pub(crate) run: fn(&ArgMatches) -> Result<ExitCode>,
}

/// Every command, in the order of the help text.
pub(crate) const ALL: &[Entry] = &[
    Entry { name: "run", command: run::command, run: run::run },
    Entry { name: "proxy", command: proxy::command, run: proxy::run },
    Entry { name: "list", command: list::command, run: list::run },
    Entry { name: "status", command: status::command, run: status::run },
    Entry { name: "stop", command: stop::command, run: stop::run },
    Entry { name: "start", command: start::start_command, run: start::start },
    Entry { name: "restart", command: start::restart_command, run: start::restart },
    Entry { name: "rm", command: rm::command, run: rm::run },
    Entry { name: "logs", command: logs::command, run: logs::run },
    Entry { name: "explain", command: explain::command, run: explain::run },
    Entry { name: "export", command: export::command, run: export::run },
    Entry { name: "group", command: group::command, run: group::run },
    Entry { name: "ignore", command: ignore::command, run: ignore::run },
    Entry { name: "secret", command: secret::command, run: secret::run },
    Entry { name: "registry", command: registry::command, run: registry::run },
    Entry { name: "completion", command: completion::command, run: completion::run },
    Entry { name: "man", command: man::command, run: man::run },
];
