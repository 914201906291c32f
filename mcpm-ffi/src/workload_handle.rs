//! A workload handle for the bindings: usable from any thread, and after the end of the workload.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use mcpm::{
    Result, RunningWorkload, WorkloadBuilder,
    options::WorkloadOptions,
    state::{LoginState, Phase, Status},
    user_prompt::UserPrompt,
    workload::EventStream,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::prompt_bridge::environment;

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
pub(crate) struct StatusSnapshot {
    pub(crate) phase: Phase,
    pub(crate) reason: Option<String>,
    #[cfg_attr(not(feature = "uniffi"), expect(dead_code, reason = "C is not told it"))]
    pub(crate) restarts: u32,
    #[cfg_attr(not(feature = "uniffi"), expect(dead_code, reason = "C is not told it"))]
    pub(crate) exit_code: Option<i64>,
    #[cfg_attr(not(feature = "uniffi"), expect(dead_code, reason = "C is not told it"))]
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
        prompt: Option<Arc<dyn UserPrompt>>,
        listen: impl FnOnce(EventStream),
    ) -> Result<Arc<Self>> {
        let workload = WorkloadBuilder::from(options).environment(environment(prompt)).build()?;
        listen(workload.events());
        let running = Box::pin(workload.start()).await?;
        let handle = Arc::new(Self {
            name: running.name().to_owned(),
            url: running.url().to_owned(),
            state: Mutex::new(HandleState::Running(Box::new(running))),
            ended: CancellationToken::new(),
        });
        let mut all = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&handle));
        Ok(handle)
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

    /// Subscribes to the events from now on; `None` after the end.
    #[cfg(feature = "uniffi")]
    pub(crate) fn events(&self) -> Option<EventStream> {
        match &*self.state() {
            HandleState::Running(workload) => Some(workload.events()),
            HandleState::Ended(_) => None,
        }
    }

    /// Stops the workload. If another caller is doing so, waits until that is done.
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
