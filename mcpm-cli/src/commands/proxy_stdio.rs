//! `mcpm proxy stdio`: serves a workload or a URL on standard input and output.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command, builder::PossibleValuesParser};
use mcpm::{
    Error, ErrorKind, Result, StdioBridge,
    options::{Header, OptionSet as _, OptionSpec, ProxyMode, ProxyOptions},
    secrets,
    workload::Workloads,
};

use crate::{args, executor, logging, signals::StopSignals, standard_streams, terminal};

const TARGET: &str = "target";
const TRANSPORT: &str = "transport";
/// The options of `mcpm proxy` that it has as well, and their help.
const SHARED: [(&str, &str); 3] = [
    ("remote_forward_headers", "Header added to requests to the server"),
    (
        "remote_forward_headers_secret",
        "Header added to requests to the server, with its value from the secrets manager",
    ),
    ("mcpm_ca_bundle", "CA certificate bundle that is trusted in addition to the system's"),
];

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
                .args(shared().map(|(spec, help)| args::arg(spec).help(help).help_heading(None)))
        })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let mut options = ProxyOptions::default();
    for (spec, _) in shared() {
        for text in matches.get_many::<String>(spec.name).into_iter().flatten() {
            options.set(spec.name, text)?;
        }
    }
    let target = matches.get_one::<String>(TARGET).map_or("", String::as_str);
    let mode = matches.get_one::<String>(TRANSPORT).map(|text| text.parse::<ProxyMode>()).transpose()?;
    let environment = terminal::environment();
    executor::run(async {
        let mut stop = StopSignals::listen()?;
        let mut bridge = match target.contains("://") {
            true => StdioBridge::builder(target),
            false => Workloads::new(environment.clone()).stdio_bridge(target).await?,
        };
        if let Some(mode) = mode {
            bridge = bridge.mode(mode);
        }
        if let Some(bundle) = options.mcpm_ca_bundle {
            bridge = bridge.ca_bundle(environment.working_dir.join(bundle));
        }
        for header in options.remote_forward_headers {
            bridge = bridge.header(header);
        }
        let names: Vec<String> =
            options.remote_forward_headers_secret.iter().map(|header| header.secret.clone()).collect();
        let values = secrets::read(&names, &environment).await?;
        for header in options.remote_forward_headers_secret {
            let lost = || Error::new(ErrorKind::NotFound, format!("there is no secret `{}`", header.secret));
            let value = values.get(&header.secret).cloned().ok_or_else(lost)?;
            bridge = bridge.header(Header::from((header.name, value)));
        }
        let bridge = bridge.build()?;
        let _log = logging::start_background_writer();
        let input = standard_streams::input()?;
        let (output, _written) = standard_streams::output()?;
        bridge.serve_until(input, output, stop.recv()).await?;
        Ok(ExitCode::SUCCESS)
    })
}

fn shared() -> impl Iterator<Item = (&'static OptionSpec, &'static str)> {
    let find = |name| ProxyOptions::SPECS.iter().find(|spec| spec.name == name);
    SHARED.iter().filter_map(move |(name, help)| Some((find(*name)?, *help)))
}
