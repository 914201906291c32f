//! `mcpm proxy`: starts a transparent HTTP proxy in front of an MCP server.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use mcpm::{Error, ErrorKind, ProxyBuilder, Result, options::ProxyOptions};

use super::{proxy_stdio, proxy_tunnel};
use crate::{
    args, executor, logging,
    output::{self, JSON, TEXT},
    signals::StopSignals,
    terminal,
};

pub(crate) fn command() -> Command {
    Command::new("proxy")
        .about("Start a transparent HTTP proxy in front of an MCP server")
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .subcommands([proxy_stdio::command(), proxy_tunnel::command()])
        .defer(|command| args::add::<ProxyOptions>(command).arg(output::arg(&[TEXT, JSON])))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    match matches.subcommand() {
        Some(("stdio", matches)) => return proxy_stdio::run(matches),
        Some(("tunnel", matches)) => return proxy_tunnel::run(matches),
        _ => {}
    }
    let options = args::options::<ProxyOptions>(matches)?;
    let proxy = ProxyBuilder::from(options).environment(terminal::environment()).build()?;
    executor::run(async {
        // Once the URL is printed, a stop signal must be handled.
        let mut stop = StopSignals::listen()?;
        let running = tokio::select! {
            running = Box::pin(proxy.start()) => running?,
            () = stop.recv() => return Err(Error::new(ErrorKind::Interrupted, "interrupted")),
        };
        match output::format(matches) {
            JSON => output::json(&serde_json::json!({ "name": running.name(), "url": running.url() }))?,
            _ => output::line(format!("{}  {}", running.name(), running.url()))?,
        }
        let _log = logging::start_background_writer();
        let check = async {
            // The target may be started later.
            let warning = running.check().await.unwrap_or_else(|error| Some(error.to_string()));
            if let Some(warning) = warning {
                tracing::warn!("{warning}");
            }
            std::future::pending().await
        };
        tokio::select! {
            () = stop.recv() => {}
            () = check => {}
        }
        running.stop().await;
        Ok(ExitCode::SUCCESS)
    })
}
