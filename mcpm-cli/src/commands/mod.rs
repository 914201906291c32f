//! The commands, one file each. A new command is a file and a line in [`ALL`].

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use mcpm::Result;

pub(crate) mod completion;
pub(crate) mod man;
pub(crate) mod proxy;
pub(crate) mod run;

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
    Entry { name: "completion", command: completion::command, run: completion::run },
    Entry { name: "man", command: man::command, run: man::run },
];
