//! `mcpm tools`, `mcpm prompts` and `mcpm resources`: list what a server offers.

use std::process::ExitCode;

use clap::{ArgMatches, Command};
use mcpm::{
    Result,
    mcp_client::{JsonObject, arguments},
};
use serde_json::Value;

use super::server_args;
use crate::{
    output::{self, JSON, TEXT},
    progress, tool_names,
};

/// Maximum number of characters of a description in a table.
const MAX_DESCRIPTION_CHARS: usize = 60;

/// Shows on a terminal that the command waits for the server.
async fn waiting<T>(answer: impl Future<Output = T>) -> T {
    progress::waiting("waiting for the server to respond", None, answer).await
}

pub(crate) fn tools_command() -> Command {
    command("tools", "List the tools of a server, as a client sees them")
}

pub(crate) fn prompts_command() -> Command {
    command("prompts", "List the prompts of a server")
}

pub(crate) fn resources_command() -> Command {
    command("resources", "List the resources of a server")
}

fn command(name: &'static str, about: &'static str) -> Command {
    let command = Command::new(name).about(about);
    command.defer(|command| server_args::add(command).arg(output::arg(&[TEXT, JSON])))
}

pub(crate) fn tools(matches: &ArgMatches) -> Result<ExitCode> {
    let tools = server_args::with_client(matches, None, async |client| waiting(client.tools()).await)?;
    tool_names::save(server_args::target(matches), &tools);
    show(matches, &tools, ["NAME", "ARGUMENTS", "DESCRIPTION"], |tool| {
        [text(tool, "name"), input(tool), description(tool)]
    })
}

pub(crate) fn prompts(matches: &ArgMatches) -> Result<ExitCode> {
    let prompts = server_args::with_client(matches, None, async |client| waiting(client.prompts()).await)?;
    show(matches, &prompts, ["NAME", "ARGUMENTS", "DESCRIPTION"], |prompt| {
        let arguments = prompt.get("arguments").and_then(Value::as_array).into_iter().flatten();
        let arguments = arguments.map(|argument| {
            let name = argument["name"].as_str().unwrap_or_default();
            marked(name, argument["required"] == true)
        });
        [text(prompt, "name"), arguments.collect::<Vec<_>>().join(" "), description(prompt)]
    })
}

pub(crate) fn resources(matches: &ArgMatches) -> Result<ExitCode> {
    let resources =
        server_args::with_client(matches, None, async |client| waiting(client.resources()).await)?;
    show(matches, &resources, ["URI", "NAME", "TYPE"], |resource| {
        [text(resource, "uri"), text(resource, "name"), text(resource, "mimeType")]
    })
}

fn show<const N: usize>(
    matches: &ArgMatches,
    all: &[JsonObject],
    headings: [&str; N],
    row: impl Fn(&JsonObject) -> [String; N],
) -> Result<ExitCode> {
    if all.is_empty() {
        output::hint("the list is empty; `mcpm inspect` shows what the server offers");
    }
    match output::format(matches) {
        JSON => output::json(&all)?,
        _ => {
            let head = headings.map(str::to_owned).to_vec();
            let rows: Vec<_> = std::iter::once(head).chain(all.iter().map(|one| row(one).to_vec())).collect();
            output::list(&rows)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn text(object: &JsonObject, key: &str) -> String {
    object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the first line of a description, or a part of that line.
fn description(object: &JsonObject) -> String {
    let text = text(object, "description");
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    output::shorten(line, MAX_DESCRIPTION_CHARS).into_owned()
}

/// Returns the arguments of a tool with their types; optional arguments are in brackets.
fn input(tool: &JsonObject) -> String {
    let Some(schema) = tool.get("inputSchema").and_then(Value::as_object) else { return String::new() };
    let required = arguments::required(schema);
    let fields = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let shown = fields.map(|(name, field)| {
        let kind = arguments::expected(field);
        marked(&format!("{name}={}", kind.replace(' ', "-")), required.contains(&name.as_str()))
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn marked(argument: &str, is_required: bool) -> String {
    if is_required { argument.to_owned() } else { format!("[{argument}]") }
}
