//! `mcpm call`: calls a tool.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use mcpm::{
    Error, ErrorKind, Result,
    mcp_client::{JsonObject, McpClient, arguments},
};
use serde_json::Value;

use super::server_args;
use crate::{
    completion, exit,
    output::{self, JSON, TEXT, escape_control},
    tool_names,
};

const TOOL: &str = "tool";
const ARGUMENTS: &str = "arguments";
const ARGUMENTS_JSON: &str = "json";

pub(crate) fn command() -> Command {
    Command::new("call")
        .about("Call a tool of a server")
        .long_about(
            "Call a tool of a server\n\n\
             Each value is converted to the type that the input schema of the tool requires: `mcpm call time \
             convert_time source_timezone=UTC time=12:00 target_timezone=Asia/Tokyo`. The values of a repeated \
             key become the items of an array. If the tool returns an error, the exit code is 1.",
        )
        .defer(|command| {
            server_args::add(command)
                .arg(
                    Arg::new(TOOL)
                        .value_name("TOOL")
                        .required(true)
                        .help("Name of the tool")
                        .add(completion::tools()),
                )
                .arg(
                    Arg::new(ARGUMENTS)
                        .value_name("KEY=VALUE")
                        .num_args(0..)
                        .conflicts_with(ARGUMENTS_JSON)
                        .help("Arguments of the tool"),
                )
                .arg(
                    Arg::new(ARGUMENTS_JSON)
                        .long(ARGUMENTS_JSON)
                        .value_name("JSON")
                        .help("Arguments of the tool as a JSON object"),
                )
                .arg(output::arg(&[TEXT, JSON]))
        })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let on_progress = Some(server_args::progress_on_stderr());
    let result = server_args::with_client(matches, on_progress, async |client| call(client, matches).await)?;
    match output::format(matches) {
        JSON => output::json(&result)?,
        _ => output::text(&shown(&result))?,
    }
    let failed = result.get("isError").is_some_and(|failed| *failed == true);
    Ok(if failed { ExitCode::from(exit::FAILURE) } else { ExitCode::SUCCESS })
}

async fn call(client: &McpClient, matches: &ArgMatches) -> Result<JsonObject> {
    let name = matches.get_one::<String>(TOOL).map_or("", String::as_str);
    let arguments = match matches.get_one::<String>(ARGUMENTS_JSON) {
        Some(text) => serde_json::from_str(text).map_err(|error| {
            Error::new(ErrorKind::InvalidOption, "the value of `--json` is not a JSON object").source(error)
        })?,
        None => JsonObject::new(),
    };
    let tools = client.tools().await?;
    tool_names::save(server_args::target(matches), &tools);
    let tool = tools.iter().find(|tool| tool.get("name").is_some_and(|known| *known == name));
    let schema = match tool {
        Some(tool) => tool.get("inputSchema").and_then(Value::as_object).cloned().unwrap_or_default(),
        None => {
            let known = tools.iter().filter_map(|tool| tool.get("name")?.as_str());
            let known: Vec<String> = known.map(|name| format!("`{name}`")).collect();
            let message = format!("the server has no tool `{}`", escape_control(name));
            return Err(Error::new(ErrorKind::NotFound, message).hint(match &known[..] {
                [] => "it has no tools".to_owned(),
                _ => format!("its tools are {}", known.join(", ")),
            }));
        }
    };
    let arguments = if matches.contains_id(ARGUMENTS_JSON) {
        arguments::check_required(&schema, &arguments)?;
        arguments
    } else {
        let pairs: Vec<&String> = matches.get_many(ARGUMENTS).into_iter().flatten().collect();
        arguments::parse(&schema, &pairs)?
    };
    client.call(name, arguments).await
}

/// Returns the content of a result as text; content that is not text is replaced by its kind.
fn shown(result: &JsonObject) -> String {
    let content = result.get("content").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut lines: Vec<String> = content.iter().map(block).collect();
    if let Some(structured) = result.get("structuredContent").filter(|_| lines.is_empty()) {
        lines.push(format!("{structured:#}"));
    }
    lines.join("\n")
}

fn block(block: &Value) -> String {
    let of = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
    match block["type"].as_str() {
        Some("text") => of("text"),
        Some("resource") => match block["resource"]["text"].as_str() {
            Some(text) => text.to_owned(),
            None => format!("[resource {}]", block["resource"]["uri"].as_str().unwrap_or_default()),
        },
        Some("resource_link") => format!("[resource {}]", of("uri")),
        Some(kind) => format!("[{kind} {}, {} characters in base64]", of("mimeType"), of("data").len()),
        None => block.to_string(),
    }
}
