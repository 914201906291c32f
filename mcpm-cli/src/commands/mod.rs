//! Lists the commands, which the other files of this folder implement. A new command needs an entry in [`ALL`].

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use mcpm::Result;

pub(crate) mod call;
pub(crate) mod client;
mod client_import;
pub(crate) mod completion;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod group;
pub(crate) mod ignore;
pub(crate) mod image;
pub(crate) mod inspect;
pub(crate) mod list;
pub(crate) mod lists;
mod login;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod proxy;
mod proxy_stdio;
mod proxy_tunnel;
pub(crate) mod registry;
pub(crate) mod rm;
pub(crate) mod run;
pub(crate) mod secret;
pub(crate) mod server_args;
pub(crate) mod service;
pub(crate) mod start;
pub(crate) mod status;
pub(crate) mod stop;
mod workload_args;

/// A command.
pub(crate) struct CommandEntry {
    /// The name of the command.
    pub(crate) name: &'static str,
    /// Returns the parser; its arguments are added by `defer`.
    pub(crate) command: fn() -> Command,
    /// Runs the command.
    pub(crate) run: fn(&ArgMatches) -> Result<ExitCode>,
}

/// All commands, in the order of the help text.
pub(crate) const ALL: &[CommandEntry] = &[
    CommandEntry { name: "run", command: run::command, run: run::run },
    CommandEntry { name: "proxy", command: proxy::command, run: proxy::run },
    CommandEntry { name: "list", command: list::command, run: list::run },
    CommandEntry { name: "status", command: status::command, run: status::run },
    CommandEntry { name: "stop", command: stop::command, run: stop::run },
    CommandEntry { name: "start", command: start::start_command, run: start::start },
    CommandEntry { name: "restart", command: start::restart_command, run: start::restart },
    CommandEntry { name: "login", command: login::login_command, run: login::login },
    CommandEntry { name: "logout", command: login::logout_command, run: login::logout },
    CommandEntry { name: "rm", command: rm::command, run: rm::run },
    CommandEntry { name: "logs", command: logs::command, run: logs::run },
    CommandEntry { name: "events", command: events::command, run: events::run },
    CommandEntry { name: "inspect", command: inspect::command, run: inspect::run },
    CommandEntry { name: "tools", command: lists::tools_command, run: lists::tools },
    CommandEntry { name: "prompts", command: lists::prompts_command, run: lists::prompts },
    CommandEntry { name: "resources", command: lists::resources_command, run: lists::resources },
    CommandEntry { name: "call", command: call::command, run: call::run },
    CommandEntry { name: "explain", command: explain::command, run: explain::run },
    CommandEntry { name: "doctor", command: doctor::command, run: doctor::run },
    CommandEntry { name: "export", command: export::command, run: export::run },
    CommandEntry { name: "client", command: client::command, run: client::run },
    CommandEntry { name: "group", command: group::command, run: group::run },
    CommandEntry { name: "ignore", command: ignore::command, run: ignore::run },
    CommandEntry { name: "image", command: image::command, run: image::run },
    CommandEntry { name: "secret", command: secret::command, run: secret::run },
    CommandEntry { name: "service", command: service::command, run: service::run },
    CommandEntry { name: "search", command: registry::search_command, run: registry::search },
    CommandEntry { name: "registry", command: registry::command, run: registry::run },
    CommandEntry { name: "completion", command: completion::command, run: completion::run },
    CommandEntry { name: "man", command: man::command, run: man::run },
];
