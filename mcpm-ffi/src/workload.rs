//! Exports workloads to Python and Swift.

use std::{sync::Arc, time::Duration};

use mcpm::{
    options::{Secret, WorkloadOptions},
    state::{LoginState, Phase},
};

use crate::{
    Connection, Events, McpmError, UserPrompt, events, executor, user_prompt,
    workload_handle::{StatusSnapshot, WorkloadHandle},
};

/// A running workload: an MCP server in a container, or a remote MCP server, behind its own proxy.
///
/// It runs as long as this object and this process exist, so keep a reference; at the end of either, the server is
/// killed. Call `stop` to let the server exit by itself.
#[derive(Debug, uniffi::Object)]
pub struct Workload(Arc<WorkloadHandle>);

/// The status of a workload.
#[derive(Debug, uniffi::Record)]
pub struct WorkloadStatus {
    /// The phase of the life cycle.
    pub phase: Phase,
    /// The reason for the phase, if it is not obvious.
    pub reason: Option<String>,
    /// How often the server was restarted.
    pub restarts: u32,
    /// The exit code of the server's last run.
    pub exit_code: Option<i64>,
    /// The state of the login to the remote server, if there is one.
    pub login: Option<LoginState>,
}

impl From<StatusSnapshot> for WorkloadStatus {
    fn from(StatusSnapshot { phase, reason, restarts, exit_code, login }: StatusSnapshot) -> Self {
        Self { phase, reason, restarts, exit_code, login }
    }
}

impl Workload {
    pub(crate) fn new(handle: Arc<WorkloadHandle>) -> Arc<Self> {
        Arc::new(Self(handle))
    }
}

#[uniffi::export]
impl Workload {
    /// Starts a workload and returns once clients can connect. The environment variables of this process determine
    /// where the record is and which engine is used, as for the command line.
    ///
    /// `events` receives the events from the beginning of the start, including those of the image pull. A start that is
    /// cancelled is rolled back; its name is free again after the rollback.
    ///
    /// `prompt` prompts the user at the start and later, for example to log in to a remote server; without it, the user
    /// cannot be prompted.
    ///
    /// With `in_process_only`, the proxy opens no port: only `connect` can connect to the server.
    #[uniffi::constructor(default(events = None, prompt = None, in_process_only = false))]
    pub async fn start(
        options: WorkloadOptions,
        events: Option<Arc<Events>>,
        prompt: Option<Arc<dyn UserPrompt>>,
        in_process_only: bool,
    ) -> Result<Arc<Self>, McpmError> {
        let listen = events::listener(events)?;
        let started = WorkloadHandle::start(options, in_process_only, user_prompt::adapt(prompt), listen);
        Ok(Self::new(executor::spawn_cancellable(started)?.join_or_abort().await?))
    }

    /// Returns the name.
    pub fn name(&self) -> String {
        self.0.name().to_owned()
    }

    /// Returns the URL for clients; empty without a port.
    pub fn url(&self) -> String {
        self.0.url().to_owned()
    }

    /// Returns the status.
    pub fn status(&self) -> WorkloadStatus {
        self.0.status().into()
    }

    /// Connects to the server from this process, without a port. Requests pass through all layers of the proxy;
    /// `bearer_token` is the access token of the caller, if the workload authenticates callers.
    #[uniffi::method(default(bearer_token = None))]
    pub async fn connect(&self, bearer_token: Option<Secret>) -> Result<Arc<Connection>, McpmError> {
        let handle = Arc::clone(&self.0);
        let connected = executor::spawn_cancellable(async move { handle.connect(bearer_token) })?;
        Ok(Connection::new(connected.join_or_abort().await?))
    }

    /// Waits until the server has exited and will not be restarted, or until the workload was stopped. Returns the
    /// status.
    // Needs none of mcpm's threads: the sender wakes the waiting task.
    pub async fn wait(&self) -> WorkloadStatus {
        self.0.wait().await;
        self.status()
    }

    /// Subscribes to the events from now on.
    pub fn events(&self) -> Arc<Events> {
        Arc::new(self.0.events().map_or_else(Events::ended, Events::from))
    }

    /// Stops the workload. A server that has not exited after `grace` is killed. The container and the record remain,
    /// so that `Workloads.start` and the command line can start the workload again. Stopping twice is allowed; if the
    /// caller is cancelled, stopping continues.
    pub async fn stop(&self, grace: Duration) -> Result<(), McpmError> {
        let handle = Arc::clone(&self.0);
        Ok(executor::spawn_to_completion(async move { handle.stop(grace).await })?.join().await?)
    }
}

/// Stops all workloads and proxies of this process, and mcpm's threads. Call this function before the process exits;
/// the Python package does so by itself.
#[uniffi::export]
pub fn shutdown() -> Result<(), McpmError> {
    Ok(executor::shutdown()?)
}

/// Returns the version of mcpm.
#[uniffi::export]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}
