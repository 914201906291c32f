//! `mcpm proxy stdio`: serves a workload or a URL on standard input and output.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, builder::PossibleValuesParser};
use mcpm::{Error, ErrorKind, Result, StdioBridge, options::ProxyMode, workload::Workloads};

use crate::{args, executor, logging, signals::StopSignals, standard_streams, terminal};

const TARGET: &str = "target";
const TRANSPORT: &str = "transport";
pub(crate) fn command() -> Command {
    Command::new("stdio")
        .about("Serve a workload or a URL on standard input and output")
        .long_about(
            "Serve a workload or a URL on standard input and output\n\n\
             It is for clients that only start commands: set the command `mcpm` with the arguments `proxy stdio \
             NAME`. Standard output carries messages only; the log goes to standard error.",
        )
        .defer(|command| {
            let modes = ProxyMode::WORDS.iter().map(|word| word.text);
            command
                .arg(
                    Arg::new(TARGET)
                        .value_name("NAME_OR_URL")
                        .required(true)
                        .help("Name of a running workload, or URL of an MCP server"),
                )
                .arg(
                    Arg::new(TRANSPORT)
                        .long(TRANSPORT)
                        .value_name("TRANSPORT")
                        .value_parser(PossibleValuesParser::new(modes))
                        .help(
                            "Transport of the server; `sse` is deprecated [default: that of the workload, \
                             otherwise `streamable-http`]",
                        ),
                )
                .args(StdioBridge::option_specs().map(args::arg))
        })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let target = matches.get_one::<String>(TARGET).map_or("", String::as_str);
    let mode = matches.get_one::<String>(TRANSPORT).map(|text| text.parse::<ProxyMode>()).transpose()?;
    let mut environment = terminal::environment();
    executor::run(async {
        let mut stop = StopSignals::listen()?;
        let mut bridge = if target.contains("://") {
            StdioBridge::builder(target)
        } else {
            // The token of the variable is for a remote server.
            environment.remote_bearer_token = None;
            let workloads = Workloads::new(environment.clone());
            tokio::select! {
                bridge = workloads.stdio_bridge(target) => bridge?,
                () = stop.recv() => return Err(Error::new(ErrorKind::Interrupted, "interrupted")),
            }
        };
        if let Some(mode) = mode {
            bridge = bridge.mode(mode);
        }
        for spec in StdioBridge::option_specs() {
            for text in matches.get_many::<String>(spec.name).into_iter().flatten() {
                bridge = bridge.set(spec.name, text)?;
            }
        }
        let bridge = bridge.environment(environment).build()?;
        let _log = logging::start_background_writer();
        let input = standard_streams::input()?;
        let (output, _written) = standard_streams::output()?;
        bridge.serve_until(input, output, stop.recv()).await?;
        Ok(ExitCode::SUCCESS)
    })
}
