//! `mcpm inspect`: shows the name, version and capabilities of a server, and how fast it responds.

use std::{process::ExitCode, time::Instant};

use clap::{ArgMatches, Command};
use mcpm::{
    Result,
    mcp_client::{McpClient, ServerSummary},
};
use serde::Serialize;

use super::server_args;
use crate::{
    output::{self, JSON, TEXT},
    progress,
};

pub(crate) fn command() -> Command {
    Command::new("inspect")
        .about("Show the name, version and capabilities of a server, and how fast it responds")
        .defer(|command| server_args::add(command).arg(output::arg(&[TEXT, JSON])))
}

/// The result of the inspection.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Inspection {
    #[serde(flatten)]
    server: ServerSummary,
    tools: usize,
    prompts: usize,
    resources: usize,
    /// The durations of the list requests, in milliseconds.
    lists_ms: u64,
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let found = server_args::with_client(matches, None, async |client| {
        progress::waiting("waiting for the server to respond", None, inspect(client)).await
    })?;
    if output::format(matches) == JSON {
        output::json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Inspection { server, tools, prompts, resources, lists_ms } = found;
    let sessions = if server.is_stateless { "stateless" } else { "with a session" };
    let capabilities: Vec<String> = server.capabilities.keys().cloned().collect();
    let rows = [
        ("server", server.name),
        ("version", server.version),
        ("protocol", Some(format!("{}, {sessions}", server.protocol_version))),
        ("capabilities", Some(capabilities.join(", "))),
        ("instructions", server.instructions),
        ("tools", Some(tools.to_string())),
        ("prompts", Some(prompts.to_string())),
        ("resources", Some(resources.to_string())),
        ("handshake", Some(format!("{} ms", server.handshake_ms))),
        ("lists", Some(format!("{lists_ms} ms"))),
    ];
    let rows = rows.into_iter().filter_map(|(name, value)| value.map(|value| vec![name.to_owned(), value]));
    output::table(&rows.collect::<Vec<_>>())?;
    Ok(ExitCode::SUCCESS)
}

async fn inspect(client: &McpClient) -> Result<Inspection> {
    let begin = Instant::now();
    let tools = client.tools().await?.len();
    let prompts = client.prompts().await?.len();
    let resources = client.resources().await?.len();
    let lists_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(Inspection { server: client.server(), tools, prompts, resources, lists_ms })
}
