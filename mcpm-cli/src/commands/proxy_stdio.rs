//! `mcpm proxy stdio`: serves a workload or a URL on standard input and output.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use mcpm::{Error, ErrorKind, Result};

use super::server_args;
use crate::{executor, logging, signals::StopSignals, standard_streams};

pub(crate) fn command() -> Command {
    Command::new("stdio")
        .about("Serve a workload or a URL on standard input and output")
        .long_about(
            "Serve a workload or a URL on standard input and output\n\n\
             For clients that only support stdio: configure the command `mcpm` with the arguments `proxy stdio NAME`. \
             Only messages are written to standard output; the log is written to standard error.",
        )
        .defer(server_args::add)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    executor::run(async {
        let mut stop = StopSignals::listen()?;
        let bridge = tokio::select! {
            bridge = server_args::bridge(matches) => bridge?,
            () = stop.recv() => return Err(Error::new(ErrorKind::Interrupted, "interrupted")),
        };
        let _log = logging::start_background_writer();
        let input = standard_streams::input()?;
        let (output, _written) = standard_streams::output()?;
        bridge.serve_until(input, output, stop.recv()).await?;
        Ok(ExitCode::SUCCESS)
    })
}
