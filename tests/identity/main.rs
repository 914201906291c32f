//! Tests authentication of callers and logins to remote servers with real identity providers and real clients.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what fails here fails its test")]
#![expect(clippy::print_stderr, reason = "the last line of a case that is shown is the one that failed")]

mod audit;
mod bindings;
mod certificate_authority;
mod denials;
mod exchange;
mod exchange_provider;
mod kept_logins;
mod keycloak;
mod login;
mod outages;
mod outgoing;
mod outgoing_commands;
mod outgoing_refusals;
mod policies;
#[path = "../bindings/programs.rs"]
mod programs;
mod protected_server;
mod provider;
mod provider_connections;
#[path = "../cases/rust.rs"]
mod rust_case;
mod sessions;
#[expect(dead_code, unused_imports, reason = "shared with the tests of the command line")]
#[path = "../cli/support/mod.rs"]
mod support;
mod tokens;
