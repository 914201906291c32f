//! `mcpm proxy`: starts a transparent HTTP proxy in front of an MCP server.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use mcpm::{
    Error, ErrorKind, Result,
    options::{OptionSet as _, ProxyOptions},
};

use crate::args;

pub(crate) fn command() -> Command {
    Command::new("proxy")
        .about("Start a transparent HTTP proxy in front of an MCP server")
        .defer(args::add::<ProxyOptions>)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    args::options::<ProxyOptions>(matches)?.check()?;
    Err(Error::new(
        ErrorKind::Unsupported,
        "this build reads the options of `proxy` but does not start proxies",
    ))
}
