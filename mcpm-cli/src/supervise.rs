//! The process that a detached workload leaves behind: this program again, told over a pipe what to run.
//!
//! The resolved workload, secrets included, goes over the supervisor's standard input: never over arguments,
//! environment or disk. What happens comes back over its standard output as one JSON document a line, until the
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
    auth::{exchange::ClientSecret, incoming::IncomingSpec},
    options::{OptionSet as _, Secret},
    secrets::{GIVEN_PREFIX, SecretValues},
    state::Store,
    workload::{EventStream, Launch, RunningWorkload, WorkloadEvent, WorkloadSpec},
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
};

use crate::{executor, logging, signals};

/// The argument that makes this program a supervisor; for mcpm's own use.
pub(crate) const SUPERVISE_COMMAND: &str = "__supervise";
/// Variables with secrets, which a supervisor is told in another way.
const SECRET_VARIABLES: [&str; 3] =
    ["MCPM_SECRETS_PASSWORD", "MCPM_OIDC_CLIENT_SECRET", "MCPM_TOKEN_EXCHANGE_CLIENT_SECRET"];
/// How long a server may take to end by itself.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(10);

/// What a supervisor is told.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SupervisorInput {
    spec: WorkloadSpec,
    /// Values of its secrets, by name: this pipe is the only way they take, so the spec cannot hold them.
    secrets: BTreeMap<String, String>,
    /// The same of secrets among the options: the name of each option, and what a user would write.
    options: Vec<(String, String)>,
    /// Whether the workload is on record already.
    recorded: bool,
    debug: bool,
}

/// What a supervisor says.
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

/// Leaves a supervisor behind and waits until its workload is ready; events before that go to `on_event`.
pub(crate) async fn spawn(
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
    if spec.proxy.incoming.as_ref().is_some_and(IncomingSpec::uses_secret)
        && spec.asked.oidc_client_secret.is_none()
    {
        // It is not on record.
        spec.asked.oidc_client_secret = Environment::from_process().oidc_client_secret;
    }
    if spec.proxy.exchange.as_ref().is_some_and(|exchange| exchange.client_secret == ClientSecret::Given)
        && spec.asked.token_exchange_client_secret.is_none()
    {
        spec.asked.token_exchange_client_secret = Environment::from_process().token_exchange_client_secret;
    }
    let given = spec.asked.secrets().into_iter();
    let options = given.map(|(name, value)| (name.to_owned(), value.expose().to_owned())).collect();
    let order = serde_json::to_vec(&SupervisorInput { spec, secrets, options, recorded, debug })
        .map_err(|error| Error::new(ErrorKind::Internal, "cannot write the workload down").source(error))?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    // The supervisor lives long, and whoever may look at its environment would find there what it was told here.
    for name in std::env::vars_os().map(|(name, _)| name) {
        if SECRET_VARIABLES.iter().any(|told| name == *told)
            || name.to_string_lossy().starts_with(GIVEN_PREFIX)
        {
            command.env_remove(name);
        }
    }
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
    let lost = || Error::new(ErrorKind::Internal, "the supervisor ended without a word");
    let mut reports = BufReader::new(child.stdout.take().ok_or_else(lost)?).lines();
    let outcome = async {
        while let Some(line) = reports.next_line().await.map_err(failed)? {
            let report = serde_json::from_str(&line).map_err(|error| {
                Error::new(ErrorKind::Internal, "the supervisor is of another build").source(error)
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
            if let Some(process) = child.id() {
                // It undoes what it has begun.
                signals::terminate(process);
                let _ = child.wait().await;
            }
            Err(Error::new(ErrorKind::Interrupted, "interrupted"))
        }
    }
}

/// Is the supervisor.
pub(crate) fn main() -> Result<()> {
    // The terminal's signals are for the program that started this one. A session of its own is no error.
    let _ = rustix::process::setsid();
    let mut order = Vec::new();
    io::stdin()
        .read_to_end(&mut order)
        .map_err(|error| Error::new(ErrorKind::Io, "cannot read the workload").source(error))?;
    let mut order: SupervisorInput = serde_json::from_slice(&order).map_err(|error| {
        Error::new(ErrorKind::InvalidOption, "this command is for mcpm's own use").source(error)
    })?;
    for (name, text) in std::mem::take(&mut order.options) {
        order.spec.asked.set(&name, &text)?;
    }
    let environment = Environment::from_process();
    // A workload does not keep the folder it was started from in use. Every path it has is absolute.
    let _ = std::env::set_current_dir("/");
    logging::to_file(Store::new(&environment.state_dir).log_path(&order.spec.name), order.debug);
    // The port is open while the workload starts.
    let _log = logging::start_background_writer();
    executor::run(supervise(order, environment))
}

async fn supervise(order: SupervisorInput, environment: Environment) -> Result<()> {
    let secrets = order.secrets.into_iter().map(|(name, value)| (name, Secret::from(value)));
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
    tracing::info!(name = running.name(), url = running.url(), "ready");
    let ended = tokio::select! {
        exit = running.wait() => exit,
        () = stop.recv() => None,
    };
    tracing::info!(?ended, "ending");
    running.stop(STOP_GRACE).await
}

/// Starts the workload and passes on what happens meanwhile.
async fn start_and_report(launch: Launch, mut events: EventStream) -> Result<RunningWorkload> {
    let starting = launch.start();
    tokio::pin!(starting);
    loop {
        tokio::select! {
            biased;
            Some(event) = events.next() => report(&SupervisorMessage::Event(event)),
            started = &mut starting => {
                // What was told in the same breath is still there.
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
        // Whoever asked may have gone; the workload is wanted all the same.
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}
