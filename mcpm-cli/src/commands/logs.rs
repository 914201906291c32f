//! `mcpm logs`: prints the output of a server, its messages, or the log of its proxy.

use std::{
    borrow::Cow,
    io::{self, IsTerminal as _},
    process::ExitCode,
    time::{Duration, SystemTime},
};

use clap::{Arg, ArgAction, ArgMatches, Command};
use futures_util::StreamExt as _;
use mcpm::{
    Environment, Result,
    runtime::LogChunk,
    workload::{ServerLogOptions, Workloads},
};

use crate::{args::whole_number, commands::workload_args, executor, output, signals::StopSignals};

pub(crate) const FOLLOW: &str = "follow";
const TAIL: &str = "tail";
pub(crate) const SINCE: &str = "since";
const TIMESTAMPS: &str = "timestamps";
const PROTOCOL: &str = "protocol";
const PROXY: &str = "proxy";

pub(crate) fn command() -> Command {
    Command::new("logs").about("Show the output of a server").defer(|command| {
        command
            .arg(workload_args::name_arg())
            .arg(follow("Follow the output, across restarts, until the workload is stopped or fails"))
            .arg(
                Arg::new(TAIL)
                    .long(TAIL)
                    .value_name("LINES")
                    .value_parser(whole_number(u64::MAX))
                    .help("Number of lines to show from the end"),
            )
            .arg(since("Show only output that was written since this time"))
            .arg(
                Arg::new(TIMESTAMPS)
                    .long(TIMESTAMPS)
                    .short('t')
                    .action(ArgAction::SetTrue)
                    .help("Show when each line was written"),
            )
            .arg(
                Arg::new(PROTOCOL)
                    .long(PROTOCOL)
                    .action(ArgAction::SetTrue)
                    .requires(FOLLOW)
                    .conflicts_with_all([TAIL, SINCE])
                    .help("Show the messages that a stdio server sends from now on; mcpm does not keep them"),
            )
            .arg(
                Arg::new(PROXY)
                    .long(PROXY)
                    .action(ArgAction::SetTrue)
                    .conflicts_with_all([TAIL, SINCE, TIMESTAMPS, PROTOCOL])
                    .help("Show the log of the workload's proxy instead: starts, exits, restarts and errors"),
            )
    })
}

/// Returns the `--follow` argument.
pub(crate) fn follow(help: &'static str) -> Arg {
    Arg::new(FOLLOW).long(FOLLOW).short('f').action(ArgAction::SetTrue).help(help)
}

/// Returns the argument for a point in time.
pub(crate) fn since(help: &'static str) -> Arg {
    Arg::new(SINCE)
        .long(SINCE)
        .value_name("TIME")
        .value_parser(point_in_time)
        .help(format!("{help}: a time in RFC 3339, or how long ago, such as `10m`"))
}

fn point_in_time(text: &str) -> std::result::Result<SystemTime, &'static str> {
    let ago = |duration: Duration| SystemTime::now().checked_sub(duration);
    let ago = humantime::parse_duration(text).ok().and_then(ago);
    ago.or_else(|| humantime::parse_rfc3339(text).ok())
        .ok_or("expected a time such as `2026-01-31T12:00:00Z`, or a duration such as `10m`")
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let workloads = Workloads::new(Environment::from_process());
    let name = workload_args::name_of(matches);
    let follow = matches.get_flag(FOLLOW);
    executor::run(async {
        let mut printer = LinePrinter { timestamps: matches.get_flag(TIMESTAMPS), in_line: false };
        let mut stop = StopSignals::listen()?;
        if matches.get_flag(PROXY) {
            let mut log = workloads.proxy_log(name, follow)?;
            while let Some(text) = executor::until_stopped(&mut stop, log.next()).await.flatten() {
                printer.print(&text?, None)?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let options = ServerLogOptions {
            follow,
            tail: matches.get_one::<u64>(TAIL).map(|lines| usize::try_from(*lines).unwrap_or(usize::MAX)),
            since: matches.get_one(SINCE).copied(),
            protocol: matches.get_flag(PROTOCOL),
        };
        let mut logs = workloads.logs_with(name, options).await?;
        while let Some(chunk) = executor::until_stopped(&mut stop, logs.next()).await.flatten() {
            let LogChunk { bytes, time, .. } = chunk?;
            printer.print(&bytes, time)?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Prints output that arrives in parts, which may end within a line.
struct LinePrinter {
    timestamps: bool,
    /// Whether the last line is incomplete.
    in_line: bool,
}

impl LinePrinter {
    fn print(&mut self, bytes: &[u8], time: Option<SystemTime>) -> Result<()> {
        // Text of a server must not control the terminal.
        let bytes = match io::stdout().is_terminal() {
            true => Cow::Owned(output::escape_text(&String::from_utf8_lossy(bytes)).into_bytes()),
            false => Cow::Borrowed(bytes),
        };
        output::write(&self.stamp(&bytes, time))
    }

    fn stamp<'a>(&mut self, bytes: &'a [u8], time: Option<SystemTime>) -> Cow<'a, [u8]> {
        let Some(time) = time.filter(|_| self.timestamps) else { return bytes.into() };
        let time = humantime::format_rfc3339_millis(time);
        let mut stamped = Vec::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !self.in_line {
                stamped.extend_from_slice(format!("{time} ").as_bytes());
            }
            stamped.extend_from_slice(line);
            self.in_line = !line.ends_with(b"\n");
        }
        stamped.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_gets_the_time_of_its_beginning() {
        let mut printer = LinePrinter { timestamps: true, in_line: false };
        let at = |seconds| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let text = [("one\ntw", 0), ("o\n", 1), ("\nthree", 2)]
            .map(|(text, time)| printer.stamp(text.as_bytes(), at(time)).into_owned())
            .concat();
        let expected = "1970-01-01T00:00:00.000Z one\n1970-01-01T00:00:00.000Z two\n\
                        1970-01-01T00:00:02.000Z \n1970-01-01T00:00:02.000Z three";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn a_point_in_time_is_a_time_or_how_long_ago_it_was() {
        assert_eq!(
            point_in_time("1970-01-01T00:00:01Z"),
            Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(1))
        );
        assert!(point_in_time("1h 5m").unwrap() < SystemTime::now() - Duration::from_secs(3600));
        for text in ["", "yesterday", "-5m"] {
            assert!(point_in_time(text).is_err(), "{text}");
        }
    }
}
