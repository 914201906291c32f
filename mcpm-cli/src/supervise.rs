//! Starts and runs the supervisor process of a detached workload: this program, with its input on a pipe.
//!
//! The resolved workload, including its secrets, is sent to the supervisor's standard input, never in arguments,
//! environment variables or files. Events come back on its standard output, one JSON document per line, until the
//! workload is ready or has failed.

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Write as _},
    process::Stdio,
    time::Duration,
};

use futures_util::FutureExt as _;
use mcpm::{
    Environment, Error, ErrorKind, Result,
    auth::{SecretSource, incoming::IncomingSpec},
    options::{OptionSet as _, Secret},
    secrets::{GIVEN_PREFIX, SecretValues},
    state::Store,
    workload::{EventStream, Launch, RunningWorkload, WorkloadEvent, WorkloadSpec, Workloads},
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
};

use crate::{executor, logging, signals};

/// The hidden command that runs the supervisor.
pub(crate) const SUPERVISE_COMMAND: &str = "__supervise";
/// Variables with secrets, which the supervisor receives on its standard input instead.
const SECRET_VARIABLES: [&str; 5] = [
    "MCPM_SECRETS_PASSWORD",
    "MCPM_OIDC_CLIENT_SECRET",
    "MCPM_TOKEN_EXCHANGE_CLIENT_SECRET",
    "MCPM_REMOTE_OAUTH_CLIENT_SECRET",
    "MCPM_REMOTE_AUTH_BEARER_TOKEN",
];
/// Grace period before the server is killed.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(10);

/// The supervisor's input.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SupervisorInput {
    spec: WorkloadSpec,
    /// Secret values by name, which the spec does not contain.
    secrets: BTreeMap<String, String>,
    /// The names of secret options, with their values in text form.
    options: Vec<(String, String)>,
    /// The password of the secret store, for a remote server whose renewed login is stored there.
    store_password: Option<String>,
    /// Whether the workload is already recorded.
    recorded: bool,
    debug: bool,
}

/// A message from the supervisor.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SupervisorMessage {
    Event(WorkloadEvent),
    Failed { kind: String, message: String },
}

/// A workload that is ready.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Ready {
    pub(crate) name: String,
    pub(crate) url: String,
}

/// Starts a supervisor and waits until its workload is ready; earlier events are passed to `on_event`.
pub(crate) async fn spawn(
    environment: &Environment,
    spec: WorkloadSpec,
    secrets: &SecretValues,
    recorded: bool,
    debug: bool,
    on_event: &dyn Fn(&WorkloadEvent),
) -> Result<Ready> {
    let failed =
        |error: io::Error| Error::new(ErrorKind::Internal, "cannot start the supervisor").source(error);
    let secrets =
        secrets.expose().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut spec = spec;
    // Secrets from environment variables are not recorded.
    let (proxy, asked) = (&spec.proxy, &mut spec.asked);
    let is_given = |source: &SecretSource| *source == SecretSource::Given;
    let fill = |asked: &mut Option<Secret>, uses: bool, found: &Option<Secret>| {
        if uses && asked.is_none() {
            asked.clone_from(found);
        }
    };
    let introspects = proxy.incoming.as_ref().is_some_and(IncomingSpec::uses_secret);
    fill(&mut asked.oidc_client_secret, introspects, &environment.oidc_client_secret);
    let exchanges = proxy.exchange.as_ref().is_some_and(|exchange| is_given(&exchange.client_secret));
    fill(&mut asked.token_exchange_client_secret, exchanges, &environment.token_exchange_client_secret);
    let outgoing = proxy.outgoing.as_ref();
    let has_client = outgoing.is_some_and(|outgoing| is_given(&outgoing.client_secret));
    fill(&mut asked.remote_auth_client_secret, has_client, &environment.remote_client_secret);
    let has_token = outgoing.is_some_and(|outgoing| is_given(&outgoing.bearer_token));
    fill(&mut asked.remote_auth_bearer_token, has_token, &environment.remote_bearer_token);
    // The supervisor renews logins, and cannot prompt for the password of the store that contains them.
    let password = environment.secrets.known_password().filter(|_| spec.container().is_none());
    let store_password = password.map(|password| password.expose().to_owned());
    let option_secrets = spec.asked.secrets().into_iter();
    let options = option_secrets.map(|(name, value)| (name.to_owned(), value.expose().to_owned())).collect();
    let order =
        serde_json::to_vec(&SupervisorInput { spec, secrets, options, store_password, recorded, debug })
            .map_err(|error| {
                Error::new(ErrorKind::Internal, "cannot serialize the workload").source(error)
            })?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    // The supervisor is long-lived, and other processes of the user can read its environment.
    for name in std::env::vars_os().map(|(name, _)| name) {
        if SECRET_VARIABLES.iter().any(|variable| name == *variable)
            || name.to_string_lossy().starts_with(GIVEN_PREFIX)
        {
            command.env_remove(name);
        }
    }
    // This has the effect of `setsid` on Unix.
    #[cfg(windows)]
    command.creation_flags(DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP);
    let mut stop = signals::StopSignals::listen()?;
    let mut child = command
        .arg(SUPERVISE_COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(&order).await.map_err(failed)?;
    }
    let lost = || Error::new(ErrorKind::Internal, "the supervisor exited before it reported a result");
    let mut reports = BufReader::new(child.stdout.take().ok_or_else(lost)?).lines();
    let outcome = async {
        while let Some(line) = reports.next_line().await.map_err(failed)? {
            let report = serde_json::from_str(&line).map_err(|error| {
                Error::new(ErrorKind::Internal, "the supervisor is from another build of mcpm").source(error)
            })?;
            match report {
                SupervisorMessage::Event(WorkloadEvent::Ready { name, url }) => {
                    return Ok(Ready { name, url });
                }
                SupervisorMessage::Event(event) => on_event(&event),
                SupervisorMessage::Failed { kind, message } => {
                    return Err(Error::new(
                        ErrorKind::from_name(&kind).unwrap_or(ErrorKind::Internal),
                        message,
                    ));
                }
            }
        }
        Err(lost())
    };
    tokio::select! {
        outcome = outcome => outcome,
        () = stop.recv() => {
            // The supervisor rolls back the start.
            signals::terminate(&mut child);
            let _ = child.wait().await;
            Err(Error::new(ErrorKind::Interrupted, "interrupted"))
        }
    }
}

/// Creation flags for a process without a console, which gets no events of the console (`CreateProcess`).
#[cfg(windows)]
const DETACHED_PROCESS: u32 = 0x8;
#[cfg(windows)]
const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;

/// Runs the supervisor.
pub(crate) fn main() -> Result<()> {
    // Only the parent should get signals of the terminal. The call fails if this process already has its own session.
    #[cfg(unix)]
    let _ = rustix::process::setsid();
    let mut order = Vec::new();
    io::stdin()
        .read_to_end(&mut order)
        .map_err(|error| Error::new(ErrorKind::Io, "cannot read the workload").source(error))?;
    let mut order: SupervisorInput = serde_json::from_slice(&order).map_err(|error| {
        Error::new(ErrorKind::InvalidOption, "this command is internal to mcpm").source(error)
    })?;
    for (name, text) in std::mem::take(&mut order.options) {
        order.spec.asked.set(&name, &text)?;
    }
    let mut environment = Environment::from_process();
    environment.secrets.password = order.store_password.take().map(Secret::from);
    // Releases the current folder. All paths of the workload are absolute.
    let _ = std::env::set_current_dir("/");
    logging::to_file(Store::new(&environment.state_dir).log_path(&order.spec.name), order.debug);
    // The port is open while the workload starts.
    let _log = logging::start_background_writer();
    executor::run(supervise(order, environment))
}

async fn supervise(order: SupervisorInput, environment: Environment) -> Result<()> {
    let secrets = order.secrets.into_iter().map(|(name, value)| (name, Secret::from(value)));
    let workloads = Workloads::new(environment.clone());
    let launch = Launch::new(order.spec, environment).secrets(secrets.collect());
    let launch = if order.recorded { launch.recorded() } else { launch };
    let events = launch.events();
    let mut stop = signals::StopSignals::listen()?;
    let running = tokio::select! {
        started = start_and_report(launch, events) => started,
        () = stop.recv() => Err(Error::new(ErrorKind::Interrupted, "stopped while starting")),
    };
    let running = running.inspect_err(|error| {
        tracing::error!(%error, "the workload did not start");
        report(&SupervisorMessage::Failed {
            kind: error.kind().as_str().to_owned(),
            message: error.to_string(),
        });
    })?;
    tokio::select! {
        ended = running.wait() => {
            tracing::info!(?ended, "ending, because the server has exited");
            return running.stop(STOP_GRACE).await;
        }
        () = stop.recv() => {}
    }
    match workloads.requested_grace(running.name()) {
        Some(grace) => {
            tracing::info!("ending, as mcpm was told to stop the workload");
            running.stop(grace).await
        }
        None => {
            tracing::info!("ending, because of a signal from another program");
            running.interrupt(STOP_GRACE).await
        }
    }
}

/// Starts the workload and reports events meanwhile.
async fn start_and_report(launch: Launch, mut events: EventStream) -> Result<RunningWorkload> {
    let starting = launch.start();
    tokio::pin!(starting);
    loop {
        tokio::select! {
            biased;
            Some(event) = events.next() => {
                report(&SupervisorMessage::Event(event));
            }
            started = &mut starting => {
                // Events that were sent right before the result are still queued.
                while let Some(Some(event)) = events.next().now_or_never() {
                    report(&SupervisorMessage::Event(event));
                }
                if let Ok(running) = &started {
                    let (name, url) = (running.name().to_owned(), running.url().to_owned());
                    report(&SupervisorMessage::Event(WorkloadEvent::Ready { name, url }));
                }
                return started;
            }
        }
    }
}

fn report(report: &SupervisorMessage) {
    if let Ok(mut line) = serde_json::to_vec(report) {
        line.push(b'\n');
        let mut out = io::stdout().lock();
        // The parent may have exited; the workload continues nevertheless.
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}
