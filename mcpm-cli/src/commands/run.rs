//! `mcpm run`: starts an MCP server as a managed workload.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use mcpm::{
    Error, ErrorKind, Result,
    options::{OptionSet as _, WorkloadOptions},
};

use crate::args;

const EXAMPLES: &str = "\
Forms:
  mcpm run SERVER-NAME [-- ARGS...]       a server of the registry, with its predefined settings
  mcpm run IMAGE [-- ARGS...]             a container image
  mcpm run uvx://PACKAGE [-- ARGS...]     a Python package, run by uv
  mcpm run npx://PACKAGE [-- ARGS...]     a Node.js package
  mcpm run go://PACKAGE [-- ARGS...]      a Go package, or a local project as go://./path
  mcpm run URL [--name NAME]              a remote server
  mcpm run --from-config FILE             a workload that was exported";

pub(crate) fn command() -> Command {
    Command::new("run")
        .about("Run an MCP server as a managed workload")
        .override_usage(
            "mcpm run [OPTIONS] SERVER_OR_IMAGE_OR_PROTOCOL [-- ARGS...]\n       mcpm run [OPTIONS] --from-config FILE",
        )
        .defer(|command| args::add::<WorkloadOptions>(command).after_help(EXAMPLES))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    args::options::<WorkloadOptions>(matches)?.check()?;
    Err(Error::new(
        ErrorKind::Unsupported,
        "this build reads the options of `run` but does not start workloads",
    ))
}
