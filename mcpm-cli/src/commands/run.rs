//! `mcpm run`: starts an MCP server as a managed workload.

use std::{
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
    time::{Duration, SystemTime},
};

use clap::{Arg, ArgAction, ArgMatches, Command};
use futures_util::StreamExt as _;
use mcpm::{
    Environment, Error, ErrorKind, Result, WorkloadBuilder,
    clients::EntryOptions,
    options::WorkloadOptions,
    runtime::LogChunk,
    secrets::SecretValues,
    stdio::RestartPolicy,
    workload::{Launch, Logs, ServerLogOptions, WorkloadSpec, Workloads},
};

use crate::{
    args,
    commands::client,
    completion, executor, exit, flag_names, logging,
    output::{self, EscapedText, JSON, TEXT},
    progress::Progress,
    signals::StopSignals,
    supervise::{self, Ready, STOP_GRACE},
    terminal,
};

const PLAN: &str = "plan";
const CLIENT: &str = "client";
/// Maximum time to wait for the remaining output of a foreground server after its exit.
const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(2);
/// Describes what a command waits for while it resolves the options and finds an image.
const PREPARING: &str = "preparing the server";
const ABOUT: &str = "Run an MCP server as a managed workload";
const FORMS: &str = "\
Forms:
  mcpm run SERVER-NAME [-- ARGS...]       a server of the registry, with its predefined settings
  mcpm run IMAGE [-- ARGS...]             a container image
  mcpm run uvx://PACKAGE [-- ARGS...]     a Python package, installed with uv
  mcpm run npx://PACKAGE [-- ARGS...]     a Node.js package
  mcpm run go://PACKAGE [-- ARGS...]      a Go package
  mcpm run ./SCRIPT [-- ARGS...]          a local script: .py, .js, .mjs, .cjs, .ts, .mts or .cts
  mcpm run ./FOLDER [-- ARGS...]          a local project of Python, Node.js or Go
  mcpm run ./FILE.mcpb [--config K=V]     an MCP bundle
  mcpm run URL [--name NAME]              a remote server
  mcpm run --from-config FILE             a workload that was exported";
const EXAMPLES: &str = "\
Examples:
  mcpm run uvx://mcp-server-time --client claude-code
  mcpm run mcp/filesystem --volume ~/notes:/notes:ro -- /notes
  mcpm run ghcr.io/github/github-mcp-server --secret github,target=GITHUB_PERSONAL_ACCESS_TOKEN
  mcpm run uvx://mcp-server-fetch --isolate-network --permission-profile profile.json
  mcpm run https://mcp.example.com/mcp --remote-auth";

pub(crate) fn command() -> Command {
    Command::new("run")
        .about(ABOUT)
        .long_about(format!("{ABOUT}\n\n{FORMS}\n\n{EXAMPLES}"))
        .override_usage(
            "mcpm run [OPTIONS] SERVER_OR_IMAGE_OR_PROTOCOL [-- ARGS...]\n       mcpm run [OPTIONS] --from-config FILE",
        )
        .defer(|command| {
            let plan = Arg::new(PLAN)
                .long(PLAN)
                .action(ArgAction::SetTrue)
                .help("Show what would be started, without starting it")
                .long_help("Show what would be started and the origin of each value, without starting it");
            let client = Arg::new(CLIENT)
                .long(CLIENT)
                .value_name("CLIENT")
                .action(ArgAction::Append)
                .add(completion::clients())
                .help("MCP client to add the workload to; `mcpm client status` lists the clients");
            let command = args::add::<WorkloadOptions>(command).arg(plan).arg(client);
            let more = "Forms, examples and all options: mcpm run --help";
            command.arg(output::arg(&[TEXT, JSON])).after_help(more).after_long_help("")
        })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let options = args::options::<WorkloadOptions>(matches)?;
    let debug = args::debug(matches);
    let environment = terminal::environment();
    let workload = WorkloadBuilder::from(options).environment(environment.clone()).build()?;
    let form = output::format(matches);
    executor::run(async {
        if matches.get_flag(PLAN) {
            let plan = workload.plan().await?;
            match form {
                JSON => output::json(&plan)?,
                _ => output::write(flag_names::with_flags(&plan.to_string()).as_bytes())?,
            }
            return Ok(ExitCode::SUCCESS);
        }
        let workloads = Workloads::new(environment.clone());
        let names: Vec<String> = matches.get_many(CLIENT).into_iter().flatten().cloned().collect();
        let given = workload.options().name;
        for client in &names {
            workloads.clients().check(client, given.as_deref(), &EntryOptions::default())?;
        }
        let suggest = !output::is_quiet() && form == TEXT;
        let clients = ClientEntries { workloads, clients: names, suggest };
        let secrets = workload.secrets().await?;
        let foreground = workload.options().foreground.unwrap_or(false);
        let progress = Progress::default();
        loop {
            let spec = progress.during(PREPARING, workload.events(), workload.resolve()).await?;
            let secrets = workload.with_prompted_secrets(&spec, secrets.clone());
            if workload.options().print_resolved_overlays.unwrap_or(false) {
                for overlay in spec.container().into_iter().flat_map(|container| &container.overlays) {
                    let _ = writeln!(io::stderr(), "overlay: {}", overlay.target);
                }
            }
            let started = if foreground {
                let launch = Launch::new(spec.clone(), environment.clone()).secrets(secrets);
                Box::pin(in_foreground(launch.ephemeral(), &spec, form, Some(&clients))).await
            } else {
                // The supervisor cannot ask the user.
                let launch = Launch::new(spec.clone(), environment.clone());
                let secrets = Box::pin(launch.log_in(secrets)).await?;
                let started = detached(&environment, spec.clone(), &secrets, false, debug, form).await;
                if let Ok(ready) = &started {
                    if given.is_none() {
                        note_second(&clients.workloads, &spec);
                    }
                    return clients.write(&ready.name).await.map(|()| ExitCode::SUCCESS);
                }
                started.map(|_| ExitCode::SUCCESS)
            };
            match started {
                // A concurrent `mcpm run` has taken the same generated name.
                Err(error) if error.kind() == ErrorKind::NameTaken && workload.would_rename(&spec)? => {}
                outcome => return outcome,
            }
        }
    })
}

/// Prints that a workload of the same server exists, and that the new workload therefore gets another name.
fn note_second(workloads: &Workloads, spec: &WorkloadSpec) {
    let name = spec.name.to_string();
    let Some((first, number)) = name.rsplit_once('-') else { return };
    let is_same = |other: WorkloadSpec| other.asked.server == spec.asked.server;
    if number.parse::<u32>().is_ok() && workloads.spec(first).is_ok_and(is_same) {
        output::hint(format!("note: `{first}` runs the same server; the new workload is `{name}`"));
    }
}

/// The clients whose configurations get an entry for a new workload.
pub(crate) struct ClientEntries {
    workloads: Workloads,
    clients: Vec<String>,
    suggest: bool,
}

impl ClientEntries {
    /// Adds a running workload to the configurations of these clients.
    async fn write(&self, name: &str) -> Result<()> {
        for client in &self.clients {
            client::enter(&self.workloads, client, name, &EntryOptions::default()).await?;
        }
        if self.suggest {
            client::suggest(&self.workloads, name);
        }
        Ok(())
    }
}

/// Starts a workload in the background from options.
pub(crate) async fn start_in_background(
    options: WorkloadOptions,
    environment: &Environment,
    debug: bool,
    form: &str,
) -> Result<Ready> {
    let workload = WorkloadBuilder::from(options).environment(environment.clone()).build()?;
    let secrets = workload.secrets().await?;
    let progress = Progress::default();
    let spec = progress.during(PREPARING, workload.events(), workload.resolve()).await?;
    let secrets = workload.with_prompted_secrets(&spec, secrets);
    // The supervisor cannot ask the user.
    let secrets = Box::pin(Launch::new(spec.clone(), environment.clone()).log_in(secrets)).await?;
    detached(environment, spec, &secrets, false, debug, form).await
}

/// Starts a supervisor in the background and prints the URL of the server.
pub(crate) async fn detached(
    environment: &Environment,
    spec: WorkloadSpec,
    secrets: &SecretValues,
    recorded: bool,
    debug: bool,
    form: &str,
) -> Result<Ready> {
    let progress = Progress::of_start(spec.start_timeout());
    let ready =
        supervise::spawn(environment, spec, secrets, recorded, debug, &|event| progress.show(event)).await;
    progress.clear();
    let ready = ready?;
    print(&ready, form)?;
    Ok(ready)
}

/// Runs in this process until the server exits or a signal arrives; returns the server's exit code.
pub(crate) async fn in_foreground(
    launch: Launch,
    spec: &WorkloadSpec,
    form: &str,
    clients: Option<&ClientEntries>,
) -> Result<ExitCode> {
    // In the foreground, the user sees that the server exits.
    let launch = launch.restarts(spec.asked.restart.map_or(RestartPolicy::NEVER, RestartPolicy::from));
    let progress = Progress::of_start(spec.start_timeout());
    let begin = SystemTime::now();
    let events = launch.events();
    let mut stop = StopSignals::listen()?;
    let running = tokio::select! {
        running = progress.during("starting the server", events, launch.start()) => running?,
        () = stop.recv() => return Err(Error::new(ErrorKind::Interrupted, "interrupted")),
    };
    print(&Ready { name: running.name().to_owned(), url: running.url().to_owned() }, form)?;
    if let Some(clients) = clients
        && let Err(error) = clients.write(running.name()).await
    {
        // The workload can serve other clients, so this failure does not end it.
        let _ = writeln!(io::stderr(), "error: {}", output::escape_text(&error.to_string()));
    }
    let log = logging::start_background_writer();
    // A remote server has no output. Earlier runs of a recorded workload may have left output, too.
    let output = ServerLogOptions { follow: true, since: Some(begin), ..ServerLogOptions::default() };
    let shown = match Workloads::new(terminal::environment()).logs_with(running.name(), output).await {
        Ok(logs) => Some(tokio::spawn(show_output(logs))),
        Err(_) => None,
    };
    let ended = tokio::select! {
        ended = running.wait() => ended,
        () = stop.recv() => {
            running.stop(STOP_GRACE).await?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    running.stop(STOP_GRACE).await?;
    if let Some(shown) = shown {
        // The last lines often contain the cause of the exit.
        let _ = tokio::time::timeout(LAST_OUTPUT_TIMEOUT, shown).await;
    }
    drop(log);
    // Exit codes of servers and of mcpm overlap, so a message distinguishes them.
    let how = match ended {
        Some(exit) => format!("exited with code {}", exit.code),
        None => "exited with an unknown code".to_owned(),
    };
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "the server {how}");
    Ok(exit::of_server(ended))
}

/// Writes the output of a server to standard error, in the format of `mcpm logs`.
async fn show_output(mut logs: Logs) {
    let mut escaped = io::stderr().is_terminal().then(EscapedText::default);
    while let Some(Ok(LogChunk { bytes, .. })) = logs.next().await {
        // Standard error may be closed.
        let _ = match &mut escaped {
            Some(escaped) => io::stderr().write_all(escaped.push(&bytes).as_bytes()),
            None => io::stderr().write_all(&bytes),
        };
    }
}

/// Prints the URL of a workload.
pub(crate) fn print(ready: &Ready, form: &str) -> Result<()> {
    match form {
        JSON => output::json(ready),
        _ => output::line(format!("{}  {}", ready.name, ready.url)),
    }
}
