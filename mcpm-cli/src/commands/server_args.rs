//! Defines the arguments of commands that connect to an MCP server (a workload or a URL, and how to connect), and opens
//! the connection.

use std::{cell::RefCell, sync::Arc, time::Duration};

use clap::{Arg, ArgMatches, Command, builder::PossibleValuesParser};
use futures_util::future::join_all;
use mcpm::{
    Error, ErrorKind, Result, StdioBridge,
    mcp_client::{ClientOptions, McpClient, OnProgress},
    options::ProxyMode,
    workload::Workloads,
};

use crate::{args, completion, executor, signals::StopSignals, terminal};

/// Maximum time to wait for the end of a session.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);
const TARGET: &str = "target";
const TRANSPORT: &str = "transport";

/// Adds the arguments.
pub(super) fn add(command: Command) -> Command {
    let modes = ProxyMode::WORDS.iter().map(|word| word.text);
    command
        .arg(
            Arg::new(TARGET)
                .value_name("NAME_OR_URL")
                .required(true)
                .help("Name of a running workload, or URL of an MCP server")
                .add(completion::workloads()),
        )
        .arg(
            Arg::new(TRANSPORT)
                .long(TRANSPORT)
                .value_name("TRANSPORT")
                .value_parser(PossibleValuesParser::new(modes))
                .help(
                    "Transport to connect with; `sse` is deprecated [default: for a workload, the transport of its \
                     URL; otherwise `streamable-http`]",
                ),
        )
        .args(StdioBridge::option_specs().map(args::arg_of_many))
}

/// Returns the name or the URL of the server.
pub(crate) fn target(matches: &ArgMatches) -> &str {
    matches.get_one::<String>(TARGET).map_or("", String::as_str)
}

/// Builds a bridge to the server.
pub(super) async fn bridge(matches: &ArgMatches) -> Result<StdioBridge> {
    let target = target(matches);
    let mode = matches.get_one::<String>(TRANSPORT).map(|text| text.parse::<ProxyMode>()).transpose()?;
    let mut environment = terminal::environment();
    let mut bridge = if target.contains("://") {
        StdioBridge::builder(target)
    } else {
        // The token in this variable is for a remote server.
        environment.remote_bearer_token = None;
        Workloads::new(environment.clone()).stdio_bridge(target).await?
    };
    if let Some(mode) = mode {
        bridge = bridge.mode(mode);
    }
    for spec in StdioBridge::option_specs() {
        for text in matches.get_many::<String>(spec.name).into_iter().flatten() {
            bridge = bridge.set(spec.name, text)?;
        }
    }
    bridge.environment(environment).build()
}

/// Connects a client, runs `work` with it, and closes its session. A signal cancels all of this.
pub(super) fn with_client<T>(
    matches: &ArgMatches,
    on_progress: Option<OnProgress>,
    work: impl AsyncFnOnce(&McpClient) -> Result<T>,
) -> Result<T> {
    executor::run(async {
        let mut stop = StopSignals::listen()?;
        let working = async {
            let ends = RefCell::new(Vec::new());
            let connect = async || {
                let connection = bridge(matches).await?.connect();
                ends.borrow_mut().push(connection.ended());
                Ok(connection)
            };
            let user_prompt = terminal::environment().user_prompt;
            let client = McpClient::connect(connect, ClientOptions { user_prompt, on_progress }).await?;
            let outcome = work(&client).await;
            client.close().await;
            // If the process ended earlier, the session would be left on the server.
            let ended = join_all(ends.into_inner());
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, ended).await;
            outcome
        };
        tokio::select! {
            outcome = working => outcome,
            () = stop.recv() => Err(Error::new(ErrorKind::Interrupted, "interrupted")),
        }
    })
}

/// Shows the progress of a call on a line of standard error.
pub(super) fn progress_on_stderr() -> OnProgress {
    Arc::new(|progress| {
        let total = progress.total.map(|total| format!(" of {total}")).unwrap_or_default();
        let message = progress.message.map(|message| format!(": {message}")).unwrap_or_default();
        let line = crate::output::escape_control(&format!("{}{total}{message}", progress.done));
        // Standard error may be closed.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("progress: {line}\n").as_bytes());
    })
}
