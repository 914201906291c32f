//! `mcpm logs`: prints the output of a server, or the log of its proxy.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use clap::{Arg, ArgAction, ArgMatches, Command};
use futures_util::StreamExt as _;
use mcpm::{Environment, Error, ErrorKind, Result, runtime::LogStream, workload::Workloads};

use crate::{args::whole_number, commands::workload_args, executor, output, signals::StopSignals};

const FOLLOW: &str = "follow";
const TAIL: &str = "tail";
const PROXY: &str = "proxy";
/// How often the log of a proxy is looked at for new lines.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) fn command() -> Command {
    Command::new("logs").about("Show the output of a server").defer(|command| {
        command
            .arg(workload_args::name_arg())
            .arg(
                Arg::new(FOLLOW)
                    .long(FOLLOW)
                    .short('f')
                    .action(ArgAction::SetTrue)
                    .help("Follow until the server exits; with `--proxy`, until the workload ends"),
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
                    .conflicts_with(TAIL)
                    .help("Show the log of the workload's proxy instead: starts, exits, restarts and errors"),
            )
    })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let workloads = Workloads::new(Environment::from_process());
    let name = workload_args::name_of(matches);
    if matches.get_flag(PROXY) {
        return show_proxy_log(&workloads, name, matches.get_flag(FOLLOW));
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

fn show_proxy_log(workloads: &Workloads, name: &str, follow: bool) -> Result<ExitCode> {
    let path = workloads.log_path(name)?;
    let mut log = GrowingFile::default();
    if !follow {
        output::write(&log.read(&path)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    executor::run(async {
        let mut stop = StopSignals::listen()?;
        loop {
            // Queried first, so that the last lines are read.
            let is_supervised = workloads.is_supervised(name).unwrap_or(false);
            output::write(&log.read(&path)?)?;
            if !is_supervised {
                return Ok(ExitCode::SUCCESS);
            }
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = stop.recv() => return Ok(ExitCode::SUCCESS),
            }
        }
    })
}

/// A file that grows, and that another one may replace.
#[derive(Debug, Default)]
struct GrowingFile {
    file: Option<File>,
    /// How much was read.
    size: u64,
}

impl GrowingFile {
    /// Returns what was added.
    fn read(&mut self, path: &Path) -> Result<Vec<u8>> {
        let failed = |error: io::Error| {
            Error::new(ErrorKind::Io, format!("cannot read `{}`", path.display())).source(error)
        };
        let mut added = Vec::new();
        if let Some(file) = &mut self.file {
            self.size += file.read_to_end(&mut added).map_err(failed)? as u64;
        }
        // A file that is smaller is another one: the log is never cut.
        let is_same = self.file.is_some() && path.metadata().is_ok_and(|now| now.len() >= self.size);
        if !is_same {
            (self.file, self.size) = match File::open(path) {
                Ok(file) => (Some(file), 0),
                Err(error) if error.kind() == io::ErrorKind::NotFound => (None, 0),
                Err(error) => return Err(failed(error)),
            };
            if let Some(file) = &mut self.file {
                self.size = file.read_to_end(&mut added).map_err(failed)? as u64;
            }
        }
        Ok(added)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_added_is_read_also_from_the_next_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let mut log = GrowingFile::default();
        let mut added = || String::from_utf8(log.read(&path).expect("a file")).expect("text");
        assert_eq!(added(), "");
        fs::write(&path, "one\n").expect("a file");
        assert_eq!(added(), "one\n");
        assert_eq!(added(), "");
        let mut file = fs::OpenOptions::new().append(true).open(&path).expect("a file");
        file.write_all(b"two\nlast\n").expect("room");
        fs::rename(&path, folder.path().join("log.1")).expect("a file");
        fs::write(&path, "three\n").expect("a file");
        assert_eq!(added(), "two\nlast\nthree\n");
        assert_eq!(added(), "");
    }
}
