//! Provides the workload handle of the bindings, which any thread can use, even after the workload has ended.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use mcpm::{
    Error, ErrorKind, Result, RunningWorkload, WorkloadBuilder,
    options::{Secret, WorkloadOptions},
    state::{LoginState, Phase, Status},
    stdio_bridge::ConnectOptions,
    user_prompt::UserPrompt,
    workload::{EventStream, WorkloadEvent, Workloads},
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{connection_handle::ConnectionHandle, prompt_bridge::environment};

/// Grace period of servers at a shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// The workloads that a shutdown stops.
static RUNNING: Mutex<Vec<Weak<WorkloadHandle>>> = Mutex::new(Vec::new());

/// A started workload. Dropping it kills it if it is still running.
#[derive(Debug)]
pub(crate) struct WorkloadHandle {
    name: String,
    url: String,
    state: Mutex<HandleState>,
    /// Cancelled once the workload has ended.
    ended: CancellationToken,
}

#[derive(Debug)]
enum HandleState {
    Running(Box<RunningWorkload>),
    /// Stopping or ended.
    Ended(StatusSnapshot),
}

/// The status of a workload.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "capi", derive(serde::Serialize))]
pub(crate) struct StatusSnapshot {
    pub(crate) phase: Phase,
    pub(crate) reason: Option<String>,
    pub(crate) restarts: u32,
    pub(crate) exit_code: Option<i64>,
    pub(crate) login: Option<LoginState>,
}

impl StatusSnapshot {
    fn of(workload: &RunningWorkload) -> Self {
        let Status { phase, reason, restarts, exit_code, login, .. } = workload.status();
        Self { phase, reason, restarts, exit_code, login }
    }

    /// Sets the phase, unless the workload has failed before.
    fn set_phase(&mut self, phase: Phase) {
        if self.phase != Phase::Failed {
            self.phase = phase;
            self.reason = None;
        }
    }
}

impl WorkloadHandle {
    /// Starts a workload and returns once clients can connect; `listen` receives its events from the beginning.
    pub(crate) async fn start(
        options: WorkloadOptions,
        in_process_only: bool,
        prompt: Option<Arc<dyn UserPrompt>>,
        listen: impl FnOnce(EventStream),
    ) -> Result<Arc<Self>> {
        let mut builder = WorkloadBuilder::from(options).environment(environment(prompt));
        if in_process_only {
            builder = builder.in_process_only();
        }
        let workload = builder.build()?;
        listen(workload.events());
        Ok(Self::register(Box::pin(workload.start()).await?))
    }

    /// Starts a workload again from its record, and returns once clients can connect; `listen` receives its events from
    /// the beginning.
    pub(crate) async fn start_recorded(
        name: &str,
        in_process_only: bool,
        prompt: Option<Arc<dyn UserPrompt>>,
        listen: impl FnOnce(EventStream),
    ) -> Result<Arc<Self>> {
        let mut launch = Box::pin(Workloads::new(environment(prompt)).launch(name)).await?;
        if in_process_only {
            launch = launch.in_process_only();
        }
        listen(launch.events());
        Ok(Self::register(Box::pin(launch.start()).await?))
    }

    /// Returns the handle of a workload, which a shutdown stops.
    fn register(running: RunningWorkload) -> Arc<Self> {
        let handle = Arc::new(Self {
            name: running.name().to_owned(),
            url: running.url().to_owned(),
            state: Mutex::new(HandleState::Running(Box::new(running))),
            ended: CancellationToken::new(),
        });
        let mut all = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&handle));
        handle
    }

    /// Returns the name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the URL for clients.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the status.
    pub(crate) fn status(&self) -> StatusSnapshot {
        match &*self.state() {
            HandleState::Running(workload) => StatusSnapshot::of(workload),
            HandleState::Ended(condition) => condition.clone(),
        }
    }

    /// Connects to the server. Must be called on the executor.
    ///
    /// # Errors
    /// `Upstream` after the end; `InvalidOption` for a token that is not valid in a header.
    pub(crate) fn connect(&self, bearer_token: Option<Secret>) -> Result<Arc<ConnectionHandle>> {
        let HandleState::Running(workload) = &*self.state() else {
            return Err(Error::new(ErrorKind::Upstream, format!("the workload `{}` has stopped", self.name)));
        };
        let options = ConnectOptions { bearer_token, ..ConnectOptions::default() };
        Ok(ConnectionHandle::new(workload.connect_with(options)?))
    }

    /// Waits until the server has exited and is not restarted, or the workload was stopped.
    pub(crate) async fn wait(&self) {
        // The phase is read after the subscription, so that the end cannot be missed.
        if let Some(mut events) = self.events()
            && self.status().phase != Phase::Failed
        {
            while events.next().await.is_some_and(|event| !matches!(event, WorkloadEvent::Ended { .. })) {}
        }
        if matches!(*self.state(), HandleState::Ended(_)) {
            self.ended.cancelled().await;
        }
    }

    /// Subscribes to the events from now on; `None` after the end.
    pub(crate) fn events(&self) -> Option<EventStream> {
        match &*self.state() {
            HandleState::Running(workload) => Some(workload.events()),
            HandleState::Ended(_) => None,
        }
    }

    /// Stops the workload. If another caller is stopping it already, waits until that has finished.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) async fn stop(&self, grace: Duration) -> Result<()> {
        let Some(workload) = self.take_running() else {
            self.ended.cancelled().await;
            return Ok(());
        };
        // Releases other callers that wait, however this task ends.
        let _over = self.ended.clone().drop_guard();
        let outcome = workload.stop(grace).await;
        if let HandleState::Ended(condition) = &mut *self.state() {
            condition.set_phase(Phase::Stopped);
        }
        outcome
    }

    /// Takes the workload out, once.
    fn take_running(&self) -> Option<Box<RunningWorkload>> {
        let mut state = self.state();
        let HandleState::Running(workload) = &*state else { return None };
        let mut condition = StatusSnapshot::of(workload);
        condition.set_phase(Phase::Stopping);
        match mem::replace(&mut *state, HandleState::Ended(condition)) {
            HandleState::Running(workload) => Some(workload),
            HandleState::Ended(_) => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, HandleState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stops all running workloads concurrently.
///
/// # Errors
/// The first failure.
pub(crate) async fn stop_all() -> Result<()> {
    let all = mem::take(&mut *RUNNING.lock().unwrap_or_else(PoisonError::into_inner));
    let mut stops: JoinSet<Result<()>> = JoinSet::new();
    for workload in all.into_iter().filter_map(|workload| workload.upgrade()) {
        stops.spawn(async move { workload.stop(SHUTDOWN_GRACE).await });
    }
    let mut outcome = Ok(());
    while let Some(stopped) = stops.join_next().await {
        // A stop that panicked has no error to report.
        outcome = outcome.and(stopped.unwrap_or(Ok(())));
    }
    outcome
}
