//! `mcpm logs`: prints the output of a server, or the log of its proxy.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Arg, ArgAction, ArgMatches, Command};
use futures_util::StreamExt as _;
use mcpm::{Environment, Error, ErrorKind, Result, runtime::LogStream, workload::Workloads};

use crate::{args::whole_number, commands::workload_args, executor, output, signals::StopSignals};

const FOLLOW: &str = "follow";
const TAIL: &str = "tail";
const PROXY: &str = "proxy";

pub(crate) fn command() -> Command {
    Command::new("logs").about("Show the output of a server").defer(|command| {
        command
            .arg(workload_args::name_arg())
            .arg(
                Arg::new(FOLLOW)
                    .long(FOLLOW)
                    .short('f')
                    .action(ArgAction::SetTrue)
                    .help("Follow until the server exits"),
            )
            .arg(
                Arg::new(TAIL)
                    .long(TAIL)
                    .value_name("LINES")
                    .value_parser(whole_number(u64::MAX))
                    .help("Number of lines to show from the end"),
            )
            .arg(
                Arg::new(PROXY)
                    .long(PROXY)
                    .action(ArgAction::SetTrue)
                    .conflicts_with_all([FOLLOW, TAIL])
                    .help("Show the log of the workload's proxy instead"),
            )
    })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let workloads = Workloads::new(Environment::from_process());
    let name = workload_args::name_of(matches);
    if matches.get_flag(PROXY) {
        let path = workloads.log_path(name)?;
        let log = match std::fs::read(&path) {
            Ok(log) => log,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                let message = format!("cannot read `{}`", path.display());
                return Err(Error::new(ErrorKind::Io, message).source(error));
            }
        };
        output::write(&log)?;
        return Ok(ExitCode::SUCCESS);
    }
    executor::run(async {
        let tail = matches.get_one::<u64>(TAIL).map(|lines| usize::try_from(*lines).unwrap_or(usize::MAX));
        let mut logs = workloads.logs(name, matches.get_flag(FOLLOW), tail).await?;
        let mut stop = StopSignals::listen()?;
        loop {
            let chunk = tokio::select! {
                chunk = logs.next() => chunk,
                () = stop.recv() => return Ok(ExitCode::SUCCESS),
            };
            match chunk.transpose()? {
                None => return Ok(ExitCode::SUCCESS),
                Some(chunk) if chunk.stream == LogStream::Stdout => output::write(&chunk.bytes)?,
                Some(chunk) => {
                    // Errors are ignored: a reader that closed the pipe needs no more.
                    let _ = io::stderr().write_all(&chunk.bytes);
                }
            }
        }
    })
}
