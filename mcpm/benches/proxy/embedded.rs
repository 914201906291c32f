//! Measures calls through a proxy in the program's own process, over a port and over a connection without a port.
//!
//! rmcp is the client that a Rust program would use. The other clients do as little as possible, so their figures show
//! the cost of mcpm.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use mcpm::Proxy;
use rmcp::{
    RoleClient, ServiceExt as _, model::CallToolRequestParams, service::RunningService,
    transport::StreamableHttpClientTransport,
};

use super::load::{Bound, Outcome, Session};

/// The ways to connect to the proxy: the arguments of the role, and their names in the table.
const WAYS: [(&str, &str); 5] = [
    ("rmcp-http", "rmcp, the port"),
    ("rmcp-connect", "rmcp, `connect()`"),
    ("http", "bare HTTP, the port"),
    ("bridge", "bare lines, the port through a bridge"),
    ("connect", "bare lines, `connect()`"),
];
const CALLS: u64 = 2000;

/// A client, after its handshake.
enum Client {
    Bare(Session),
    Rmcp(RunningService<RoleClient, ()>),
}

impl Client {
    async fn call(&mut self) -> Outcome<()> {
        match self {
            Self::Bare(session) => session.call().await,
            Self::Rmcp(client) => {
                let mut request = CallToolRequestParams::new("echo");
                let arguments = serde_json::json!({ "text": TEXT });
                request.arguments = arguments.as_object().cloned();
                let result = client.call_tool(request).await?;
                let answer = serde_json::to_string(&result.content)?;
                if answer.contains(TEXT) { Ok(()) } else { Err(answer.into()) }
            }
        }
    }
}

/// As long as the text of the other clients.
const TEXT: &str = "0000-00000000000";

/// Makes this number of calls through a proxy in this process, and prints the median duration: `WAY CALLS TARGET`.
pub(super) async fn play(argument: &str) -> Outcome<()> {
    let [way, calls, target] = argument.split(' ').collect::<Vec<_>>()[..] else {
        return Err(format!("`{argument}` is not `WAY CALLS TARGET`").into());
    };
    let builder = Proxy::builder("bench", target);
    let builder = if way.ends_with("connect") { builder.in_process_only() } else { builder };
    let proxy = builder.build()?.start().await?;
    let mut client = match way {
        "rmcp-http" => {
            let transport = StreamableHttpClientTransport::from_uri(proxy.url());
            Client::Rmcp(().serve(transport).await?)
        }
        "rmcp-connect" => Client::Rmcp(().serve(proxy.connect()?).await?),
        "connect" => Client::Bare(Session::of_lines(proxy.connect()?).await?),
        "bridge" => {
            let (ours, theirs) = tokio::io::duplex(64 << 10);
            let bridge = mcpm::StdioBridge::builder(proxy.url()).build()?;
            let (input, output) = tokio::io::split(theirs);
            tokio::spawn(bridge.serve(input, output));
            Client::Bare(Session::of_lines(ours).await?)
        }
        _ => {
            let port = proxy.address().ok_or("it has no port")?.port();
            Client::Bare(Session::open(port, 0, None).await?)
        }
    };
    let mut times = Vec::new();
    let bound = Bound::calls(calls.parse()?);
    while bound.allows(times.len() as u64) {
        let begin = Instant::now();
        client.call().await?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    let half = times.get(times.len() / 2).copied().unwrap_or(Duration::ZERO);
    super::servers::print(half.as_micros())?;
    proxy.stop().await;
    Ok(())
}

/// Compares the ways; `target` is the URL of the server.
pub(super) fn compare(own: &Path, folder: &Path, target: &str) -> Outcome<String> {
    let mut table = String::from("| way | p50 µs | instructions per call |\n|---|---|---|\n");
    for (way, name) in WAYS {
        let once = count(own, folder, way, CALLS, target)?;
        let twice = count(own, folder, way, 2 * CALLS, target)?;
        let half = run(&mut Command::new(own), way, 4 * CALLS, target)?;
        table += &format!("| {name} | {half} | {} |\n", twice.saturating_sub(once) / CALLS);
    }
    Ok(table)
}

fn run(command: &mut Command, way: &str, calls: u64, target: &str) -> Outcome<String> {
    let output = command.args(["--role", "embedded", &format!("{way} {calls} {target}")]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Returns the number of instructions of a process that makes this number of calls.
fn count(own: &Path, folder: &Path, way: &str, calls: u64, target: &str) -> Outcome<u64> {
    let file = folder.join("callgrind");
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind"]);
    command.arg(format!("--callgrind-out-file={}", file.display())).arg(own);
    run(&mut command, way, calls, target)?;
    super::process::total(&file)
}
