//! Exports the recorded workloads of this machine to Python and Swift.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::TryStreamExt as _;
use mcpm::{
    Environment, Result,
    options::Transport,
    runtime::LogStream,
    state::{LoginState, WorkloadState},
    workload::Logs,
};

use crate::{
    Events, McpmError, UserPrompt, Workload, events, executor, user_prompt, workload_handle::WorkloadHandle,
};

/// The recorded workloads of this machine, whichever process runs them. The environment variables of this process
/// determine where the records are, as for the command line.
#[derive(Debug, uniffi::Object)]
pub struct Workloads(mcpm::workload::Workloads);

/// The status of a recorded workload.
#[derive(Debug, uniffi::Record)]
pub struct WorkloadInfo {
    /// The name.
    pub name: String,
    /// The phase.
    pub status: WorkloadState,
    /// The reason for the phase, if there is one.
    pub reason: Option<String>,
    /// The URL for clients, if the workload has one.
    pub url: Option<String>,
    /// The image; none for a remote server.
    pub image: Option<String>,
    /// The package that the image was built for.
    pub package: Option<String>,
    /// The verified signer of the image.
    pub signer: Option<String>,
    /// The runtime of the container, `docker`, `podman` or `builtin`; none for a remote server.
    pub runtime: Option<String>,
    /// Whether the container runs without control groups, so that nothing limits its memory and processor time. Always
    /// false with an engine.
    pub lacks_control_groups: bool,
    /// The URL of a remote server, without its query.
    pub remote: Option<String>,
    /// The transport of the server.
    pub transport: Option<Transport>,
    /// The group.
    pub group: Option<String>,
    /// How often the server was restarted.
    pub restarts: u32,
    /// The state of the login to the remote server, if there is one.
    pub login: Option<LoginState>,
    /// The exit code of the server's last run.
    pub exit_code: Option<i64>,
    /// When the workload was created (RFC 3339).
    pub created_at: Option<String>,
}

impl From<mcpm::workload::WorkloadInfo> for WorkloadInfo {
    fn from(info: mcpm::workload::WorkloadInfo) -> Self {
        let mcpm::workload::WorkloadInfo {
            name,
            status,
            reason,
            url,
            image,
            package,
            verified,
            runtime,
            lacks_control_groups,
            remote,
            transport,
            group,
            restart: _,
            restarts,
            login,
            exit_code,
            created_at,
        } = info;
        let package = package.map(|package| package.to_string());
        let signer = verified.map(|verified| verified.signer.to_string());
        Self {
            name,
            status,
            reason,
            url,
            image,
            package,
            signer,
            runtime: runtime.map(|runtime| runtime.to_string()),
            lacks_control_groups,
            remote,
            transport,
            group,
            restarts,
            login,
            exit_code,
            created_at,
        }
    }
}

#[uniffi::export]
impl Workloads {
    /// Opens the records.
    #[uniffi::constructor]
    pub fn new() -> Arc<Self> {
        Arc::new(Self(mcpm::workload::Workloads::new(Environment::from_process())))
    }

    /// Returns the status of all workloads in the order of their names. If an engine does not respond, the status says
    /// so.
    pub async fn list(&self) -> Result<Vec<WorkloadInfo>, McpmError> {
        let workloads = self.0.clone();
        let listed = executor::spawn_cancellable(async move { workloads.list().await })?;
        Ok(listed.join_or_abort().await?.into_iter().map(WorkloadInfo::from).collect())
    }

    /// Returns the status of one workload.
    pub async fn info(&self, name: String) -> Result<WorkloadInfo, McpmError> {
        let workloads = self.0.clone();
        let info = executor::spawn_cancellable(async move { workloads.info(&name).await })?;
        Ok(info.join_or_abort().await?.into())
    }

    /// Starts a workload again, with its recorded options, and returns once clients can connect. If a killed process of
    /// mcpm has left the container running, the container is stopped first. Fails with `NameTaken` if the workload is
    /// running.
    ///
    /// `events`, `prompt` and `in_process_only` have the same meaning as for `Workload.start`. A start that is
    /// cancelled does not change the record.
    #[uniffi::method(default(events = None, prompt = None, in_process_only = false))]
    pub async fn start(
        &self,
        name: String,
        events: Option<Arc<Events>>,
        prompt: Option<Arc<dyn UserPrompt>>,
        in_process_only: bool,
    ) -> Result<Arc<Workload>, McpmError> {
        let (listen, prompt) = (events::listener(events)?, user_prompt::adapt(prompt));
        let started =
            async move { WorkloadHandle::start_recorded(&name, in_process_only, prompt, listen).await };
        Ok(Workload::new(executor::spawn_cancellable(started)?.join_or_abort().await?))
    }

    /// Stops a workload, whichever process runs it. A server that has not exited after `grace` is killed. Does nothing
    /// if it has stopped already. If the caller is cancelled, stopping continues.
    pub async fn stop(&self, name: String, grace: Duration) -> Result<(), McpmError> {
        let workloads = self.0.clone();
        let stopped = executor::spawn_to_completion(async move { workloads.stop(&name, grace).await })?;
        Ok(stopped.join().await?)
    }

    /// Stops a workload, and removes its containers and its record. If the caller is cancelled, removing continues.
    pub async fn remove(&self, name: String, grace: Duration) -> Result<(), McpmError> {
        let workloads = self.0.clone();
        let removed = executor::spawn_to_completion(async move { workloads.remove(&name, grace).await })?;
        Ok(removed.join().await?)
    }

    /// Returns the output of a workload's server: the last `tail` lines or all, and with `follow` also the output that
    /// the server writes until it exits.
    #[uniffi::method(default(follow = false, tail = None))]
    pub async fn logs(
        &self,
        name: String,
        follow: bool,
        tail: Option<u64>,
    ) -> Result<Arc<LogReader>, McpmError> {
        let workloads = self.0.clone();
        let tail = tail.map(|lines| usize::try_from(lines).unwrap_or(usize::MAX));
        let logs = executor::spawn_cancellable(async move { workloads.logs(&name, follow, tail).await })?;
        Ok(Arc::new(LogReader::new(logs.join_or_abort().await?)))
    }

    /// Writes the options of a workload to a file for the option `from_config`. Secrets are omitted.
    pub fn export_to(&self, name: &str, path: PathBuf) -> Result<(), McpmError> {
        Ok(self.0.export(name, &path)?)
    }

    /// Accepts the current ignore files of a folder that servers could write to. Files that are no longer ignored are
    /// visible to servers after their next start. Returns the ignore files whose text has changed.
    pub fn accept_ignore_files(&self, folder: PathBuf) -> Result<Vec<PathBuf>, McpmError> {
        Ok(self.0.accept_ignore_files(Path::new(&folder))?)
    }
}

/// The output of a server. `next` returns it in parts, oldest first.
#[derive(uniffi::Object)]
pub struct LogReader(Arc<tokio::sync::Mutex<Logs>>);

/// A part of a server's output.
#[derive(Debug, uniffi::Record)]
pub struct LogChunk {
    /// The stream that the part was written to.
    pub stream: LogStream,
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl LogReader {
    fn new(logs: Logs) -> Self {
        Self(Arc::new(tokio::sync::Mutex::new(logs)))
    }
}

impl fmt::Debug for LogReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogReader").finish_non_exhaustive()
    }
}

#[uniffi::export]
impl LogReader {
    /// Waits for the next part; returns none at the end of the output.
    pub async fn next(&self) -> Result<Option<LogChunk>, McpmError> {
        let logs = Arc::clone(&self.0);
        let chunk = executor::spawn_cancellable(async move { logs.lock().await.try_next().await })?;
        let chunk = chunk.join_or_abort().await?;
        Ok(chunk.map(|chunk| LogChunk { stream: chunk.stream, bytes: chunk.bytes.into() }))
    }
}
