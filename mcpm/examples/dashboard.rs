//! Runs servers without ports, shows their state, and calls their tools.
//!
//!     cargo run --example dashboard -- SERVER...
//!
//! The input line `NAME TOOL [JSON]` calls a tool of the server NAME, with its arguments in JSON. The end of the input
//! or Ctrl-C stops the servers. On a terminal, the state is drawn anew on each change; otherwise each change is a line.

use std::{
    error::Error,
    io::{self, IsTerminal as _, Write as _},
    thread,
    time::Duration,
};

use mcpm::{RunningWorkload, Workload, state::Phase};
use rmcp::{
    RoleClient, ServiceExt as _,
    model::CallToolRequestParams,
    service::{Peer, RunningService},
};
use tokio::{sync::mpsc, task::JoinSet};

/// A server with a client.
struct Server {
    workload: RunningWorkload,
    client: RunningService<RoleClient, ()>,
    tools: usize,
}

/// Shows a line; on a terminal, below the state of the servers.
fn show(servers: &[Server], line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if !out.is_terminal() {
        return writeln!(out, "{line}");
    }
    // Clears the screen and begins at its top.
    write!(out, "\x1b[2J\x1b[H")?;
    for server in servers {
        let status = server.workload.status();
        let mark = if status.phase == Phase::Running { "\x1b[32m●\x1b[0m" } else { "○" };
        let name = server.workload.name();
        writeln!(
            out,
            "{mark} {name:24} {:?}, {} tools, {} restarts",
            status.phase, server.tools, status.restarts
        )?;
    }
    write!(out, "\n{line}\n> ")?;
    out.flush()
}

/// Starts a server, and a client that needs no port.
async fn start(server: String) -> Result<Server, Box<dyn Error + Send + Sync>> {
    let workload = Workload::builder(server).in_process_only().build()?.start().await?;
    let client = ().serve(workload.connect()?).await?;
    let tools = client.list_all_tools().await?.len();
    Ok(Server { workload, client, tools })
}

/// Finds the server and the call that a line names.
fn read(servers: &[Server], line: &str) -> Result<(Peer<RoleClient>, CallToolRequestParams), Box<dyn Error>> {
    let mut words = line.splitn(3, ' ');
    let (name, tool) = words.next().zip(words.next()).ok_or("expected NAME TOOL [JSON]")?;
    let server = servers.iter().find(|server| server.workload.name() == name);
    let server = server.ok_or_else(|| format!("there is no server `{name}`"))?;
    let mut request = CallToolRequestParams::new(tool.to_owned());
    request.arguments = words.next().map(serde_json::from_str).transpose()?;
    Ok((server.client.peer().clone(), request))
}

/// Calls a tool. The result is shown as JSON.
async fn call(server: Peer<RoleClient>, request: CallToolRequestParams) -> String {
    match server.call_tool(request).await {
        Ok(result) => {
            serde_json::to_string(&result.content).unwrap_or_else(|error| format!("error: {error}"))
        }
        Err(error) => format!("error: {error}"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut servers = Vec::new();
    let mut starts: JoinSet<_> = std::env::args().skip(1).map(start).collect();
    let mut events = JoinSet::new();
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        // If one fails or the user interrupts, the set is dropped, which rolls the others back.
        let started = tokio::select! {
            started = starts.join_next() => started,
            _ = &mut interrupted => return Ok(()),
        };
        let Some(started) = started else { break };
        let server = started?.map_err(|error| error.to_string())?;
        let (name, mut stream) = (server.workload.name().to_owned(), server.workload.events());
        events.spawn(async move { (stream.next().await, name, stream) });
        let ready = format!("{}: {} tools", server.workload.name(), server.tools);
        servers.push(server);
        show(&servers, &ready)?;
    }

    // A thread of tokio's would be waited for at the end, until the user presses Enter.
    let (sender, mut lines) = mpsc::channel(1);
    thread::spawn(move || {
        let lines = io::stdin().lines().map_while(Result::ok);
        lines.map(|line| sender.blocking_send(line)).take_while(Result::is_ok).for_each(drop);
    });
    let mut calls = JoinSet::new();
    loop {
        tokio::select! {
            line = lines.recv() => match line {
                Some(line) => match read(&servers, &line) {
                    Ok((server, request)) => drop(calls.spawn(call(server, request))),
                    Err(error) => show(&servers, &format!("error: {error}"))?,
                },
                None => break,
            },
            Some(result) = calls.join_next() => show(&servers, &result?)?,
            Some(event) = events.join_next() => {
                let (event, name, mut stream) = event?;
                let Some(event) = event else { continue };
                show(&servers, &format!("{name}: {event:?}"))?;
                events.spawn(async move { (stream.next().await, name, stream) });
            }
            _ = &mut interrupted => {
                calls.abort_all();
                break;
            }
        }
    }
    while let Some(Ok(result)) = calls.join_next().await {
        show(&servers, &result)?;
    }
    for server in servers {
        server.client.cancel().await?;
        server.workload.stop(Duration::from_secs(10)).await?;
    }
    Ok(())
}
