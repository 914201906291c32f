//! `mcpm logs`: prints the output of a server, its messages, or the log of its proxy.

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use clap::{Arg, ArgAction, ArgMatches, Command};
use futures_util::{StreamExt as _, TryStreamExt as _};
use mcpm::{
    Environment, Result,
    runtime::{LogChunk, LogStream},
    workload::{ServerLogOptions, Workloads},
};
use serde::Serialize;

use crate::{
    args::whole_number,
    commands::workload_args,
    executor,
    follower::Follower,
    output::{self, EscapedText, JSON, TEXT},
};

pub(crate) const FOLLOW: &str = "follow";
const TAIL: &str = "tail";
pub(crate) const SINCE: &str = "since";
const TIMESTAMPS: &str = "timestamps";
const PROTOCOL: &str = "protocol";
const PROXY: &str = "proxy";
/// Length at which a line is split in JSON, in bytes.
const MAX_LINE_BYTES: usize = 64 << 10;

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
                    .help("Number of lines to show from the end; by default, all lines"),
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
                    .help(
                        "With `--follow`, show the messages that a stdio server sends; mcpm does not store them",
                    ),
            )
            .arg(
                Arg::new(PROXY)
                    .long(PROXY)
                    .action(ArgAction::SetTrue)
                    .conflicts_with_all([TAIL, SINCE, TIMESTAMPS, PROTOCOL])
                    .help("Show the log of the workload's proxy instead: starts, exits, restarts and errors"),
            )
            .arg(output::arg(&[TEXT, JSON]).help("Output format; JSON has a document for each line"))
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
    let mut printer: Box<dyn Printer> = match output::format(matches) {
        JSON => Box::new(JsonPrinter::default()),
        _ => Box::new(TextPrinter::new(matches.get_flag(TIMESTAMPS))),
    };
    executor::run(async {
        let mut follower = Follower::start()?;
        let mut chunks = if matches.get_flag(PROXY) {
            let log = workloads.proxy_log(name, follow)?;
            log.map_ok(|text| Chunk { bytes: text.into(), time: None, stream: None }).boxed()
        } else {
            let options = ServerLogOptions {
                follow,
                tail: matches.get_one::<u64>(TAIL).map(|lines| usize::try_from(*lines).unwrap_or(usize::MAX)),
                since: matches.get_one(SINCE).copied(),
                protocol: matches.get_flag(PROTOCOL),
            };
            workloads.logs_with(name, options).await?.map_ok(Chunk::from).boxed()
        };
        while let Some(chunk) = follower.next(chunks.next()).await.flatten() {
            let Some(written) = follower.write(&printer.print(&chunk?)).await else {
                return Ok(ExitCode::SUCCESS);
            };
            written?;
        }
        follower.write(&printer.end()).await.unwrap_or(Ok(()))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// A part of a log, which may end in the middle of a line.
struct Chunk {
    bytes: Bytes,
    time: Option<SystemTime>,
    /// `None` for the log of a proxy.
    stream: Option<LogStream>,
}

impl Chunk {
    /// 1 for standard output, 0 for everything else.
    fn index(&self) -> usize {
        usize::from(self.stream == Some(LogStream::Stdout))
    }
}

impl From<LogChunk> for Chunk {
    fn from(LogChunk { bytes, time, stream }: LogChunk) -> Self {
        Self { bytes, time, stream: Some(stream) }
    }
}

/// Turns parts of a log into output.
trait Printer {
    fn print(&mut self, chunk: &Chunk) -> Vec<u8>;

    /// Returns the rest of the output after the last part.
    fn end(&mut self) -> Vec<u8> {
        Vec::new()
    }
}

struct TextPrinter {
    timestamps: bool,
    /// Whether the last line is not complete.
    in_line: bool,
    /// Escapes the server's text on a terminal: one for standard output, and one for everything else. `None` if the
    /// output is not a terminal.
    escaped: Option<[EscapedText; 2]>,
}

impl TextPrinter {
    fn new(timestamps: bool) -> Self {
        let escaped = io::stdout().is_terminal().then(Default::default);
        Self { timestamps, in_line: false, escaped }
    }
}

impl Printer for TextPrinter {
    fn print(&mut self, chunk: &Chunk) -> Vec<u8> {
        let bytes = match &mut self.escaped {
            Some(escaped) => escaped[chunk.index()].push(&chunk.bytes).into_bytes(),
            None => chunk.bytes.to_vec(),
        };
        let Some(time) = chunk.time.filter(|_| self.timestamps) else { return bytes };
        let time = rfc3339(time);
        let mut stamped = Vec::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if !self.in_line {
                stamped.extend_from_slice(format!("{time} ").as_bytes());
            }
            stamped.extend_from_slice(line);
            self.in_line = !line.ends_with(b"\n");
        }
        stamped
    }

    fn end(&mut self) -> Vec<u8> {
        self.escaped.iter_mut().flatten().map(EscapedText::finish).collect::<String>().into_bytes()
    }
}

/// Prints a JSON document for each line.
#[derive(Default)]
struct JsonPrinter {
    /// The incomplete lines: of standard error or the proxy's log, and of standard output.
    lines: [JsonLine; 2],
}

/// The documented form of a line (`docs/reference/output/logs.schema.json`).
#[derive(Debug, Default, Serialize)]
struct JsonLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<&'static str>,
    text: String,
    /// The bytes of the text.
    #[serde(skip)]
    bytes: Vec<u8>,
}

impl JsonLine {
    /// Records when the line began.
    fn begin(&mut self, chunk: &Chunk) {
        if self.time.is_none() {
            self.time = chunk.time.map(rfc3339);
            self.stream = chunk.stream.map(|_| ["stderr", "stdout"][chunk.index()]);
        }
    }

    fn finish(&mut self) -> String {
        let mut line = std::mem::take(self);
        if line.bytes.ends_with(b"\r") {
            line.bytes.pop();
        }
        line.text = String::from_utf8_lossy(&line.bytes).into_owned();
        // Text can always be written as JSON.
        output::to_json_line(&line).unwrap_or_default()
    }
}

impl Printer for JsonPrinter {
    fn print(&mut self, chunk: &Chunk) -> Vec<u8> {
        let line = &mut self.lines[chunk.index()];
        let mut text = String::new();
        for part in chunk.bytes.split_inclusive(|byte| *byte == b'\n') {
            line.begin(chunk);
            line.bytes.extend_from_slice(part.strip_suffix(b"\n").unwrap_or(part));
            while line.bytes.len() > MAX_LINE_BYTES {
                let length = MAX_LINE_BYTES - output::incomplete_bytes(&line.bytes[..MAX_LINE_BYTES]);
                let rest = line.bytes.split_off(length);
                text.push_str(&line.finish());
                line.begin(chunk);
                line.bytes = rest;
            }
            if part.ends_with(b"\n") {
                text.push_str(&line.finish());
            }
        }
        text.into_bytes()
    }

    fn end(&mut self) -> Vec<u8> {
        let lines = self.lines.iter_mut().filter(|line| !line.bytes.is_empty());
        lines.map(JsonLine::finish).collect::<String>().into_bytes()
    }
}

fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(text: &[u8], seconds: u64, stream: Option<LogStream>) -> Chunk {
        let time = stream.map(|_| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        Chunk { bytes: Bytes::copy_from_slice(text), time, stream }
    }

    fn printed(mut printer: impl Printer, chunks: &[Chunk]) -> String {
        let mut text: Vec<u8> = chunks.iter().flat_map(|chunk| printer.print(chunk)).collect();
        text.extend(printer.end());
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn each_line_gets_the_time_of_its_beginning() {
        let printer = TextPrinter { timestamps: true, in_line: false, escaped: None };
        let chunks = [("one\ntw", 0), ("o\n", 1), ("\nthree", 2)]
            .map(|(text, time)| chunk(text.as_bytes(), time, STDERR));
        let expected = "1970-01-01T00:00:00.000Z one\n1970-01-01T00:00:00.000Z two\n\
                        1970-01-01T00:00:02.000Z \n1970-01-01T00:00:02.000Z three";
        assert_eq!(printed(printer, &chunks), expected);
    }

    const STDERR: Option<LogStream> = Some(LogStream::Stderr);

    #[test]
    fn a_character_in_two_parts_is_shown_on_a_terminal() {
        let escaped = Some(Default::default());
        let printer = TextPrinter { timestamps: false, in_line: false, escaped };
        let parts: [&[u8]; 6] = [b"\xC3", b"\xA9 \xF0\x9F", b"\x98", b"\x80\x1B \xFF", b"\xE2\x82", b"."];
        let expected = "é 😀\\u{1b} \u{FFFD}\u{FFFD}.";
        assert_eq!(printed(printer, &parts.map(|part| chunk(part, 0, STDERR))), expected);
    }

    #[test]
    fn json_has_a_document_for_each_line_of_each_stream() {
        let stdout = Some(LogStream::Stdout);
        let chunks = [
            chunk(b"one\r\ntw", 0, STDERR),
            chunk(b"{}\n", 1, stdout),
            chunk(b"o\n\nthree\xFF\xC2\x9B", 2, STDERR),
        ];
        let expected = r#"{"time":"1970-01-01T00:00:00.000Z","stream":"stderr","text":"one"}
{"time":"1970-01-01T00:00:01.000Z","stream":"stdout","text":"{}"}
{"time":"1970-01-01T00:00:00.000Z","stream":"stderr","text":"two"}
{"time":"1970-01-01T00:00:02.000Z","stream":"stderr","text":""}
{"time":"1970-01-01T00:00:02.000Z","stream":"stderr","text":"three�\u009b"}
"#;
        assert_eq!(printed(JsonPrinter::default(), &chunks), expected);
        // A long line is split between two characters.
        let x = "x".repeat(MAX_LINE_BYTES - 1);
        for (line, parts) in [
            (format!("{x}é"), vec![x.clone(), "é".to_owned()]),
            (format!("{x}y"), vec![format!("{x}y")]),
            (format!("{x}yz"), vec![format!("{x}y"), "z".to_owned()]),
        ] {
            let lines = printed(JsonPrinter::default(), &[chunk((line + "\n").as_bytes(), 0, None)]);
            let expected: String = parts.iter().map(|part| format!("{{\"text\":\"{part}\"}}\n")).collect();
            assert!(lines == expected);
        }
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
