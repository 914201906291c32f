//! A workload as a foreign handle holds it: usable from any thread, and after its end.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use mcpm::{
    Result, RunningWorkload, WorkloadBuilder,
    options::WorkloadOptions,
    state::{Phase, Status},
    workload::EventStream,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// How long servers have to end by themselves at a shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// The workloads that a shutdown ends.
static RUNNING: Mutex<Vec<Weak<WorkloadHandle>>> = Mutex::new(Vec::new());

/// A workload that was started. Dropping it ends it at once if it still runs.
#[derive(Debug)]
pub(crate) struct WorkloadHandle {
    name: String,
    url: String,
    state: Mutex<HandleState>,
    /// Cancelled once nothing of it runs any more.
    ended: CancellationToken,
}

#[derive(Debug)]
enum HandleState {
    Running(Box<RunningWorkload>),
    /// Being stopped, or over.
    Ended(StatusSnapshot),
}

/// How a workload is.
#[derive(Debug, Clone)]
pub(crate) struct StatusSnapshot {
    pub(crate) phase: Phase,
    pub(crate) reason: Option<String>,
    #[cfg_attr(not(feature = "uniffi"), expect(dead_code, reason = "C is not told it"))]
    pub(crate) restarts: u32,
    #[cfg_attr(not(feature = "uniffi"), expect(dead_code, reason = "C is not told it"))]
    pub(crate) exit_code: Option<i64>,
}

impl StatusSnapshot {
    fn of(workload: &RunningWorkload) -> Self {
        let Status { phase, reason, restarts, exit_code, .. } = workload.status();
        Self { phase, reason, restarts, exit_code }
    }

    /// Moves on, unless the workload went down before anybody asked for it.
    fn set_phase(&mut self, phase: Phase) {
        if self.phase != Phase::Failed {
            self.phase = phase;
            self.reason = None;
        }
    }
}

impl WorkloadHandle {
    /// Starts a workload and returns once clients can connect; `listen` gets its events from the first on.
    pub(crate) async fn start(
        options: WorkloadOptions,
        listen: impl FnOnce(EventStream),
    ) -> Result<Arc<Self>> {
        let workload = WorkloadBuilder::from(options).build()?;
        listen(workload.events());
        let running = Box::pin(workload.start()).await?;
        let held = Arc::new(Self {
            name: running.name().to_owned(),
            url: running.url().to_owned(),
            state: Mutex::new(HandleState::Running(Box::new(running))),
            ended: CancellationToken::new(),
        });
        let mut all = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&held));
        Ok(held)
    }

    /// Returns its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns where clients connect.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns how it is.
    pub(crate) fn status(&self) -> StatusSnapshot {
        match &*self.state() {
            HandleState::Running(workload) => StatusSnapshot::of(workload),
            HandleState::Ended(condition) => condition.clone(),
        }
    }

    /// Listens from now on; nothing comes after the end.
    #[cfg(feature = "uniffi")]
    pub(crate) fn events(&self) -> Option<EventStream> {
        match &*self.state() {
            HandleState::Running(workload) => Some(workload.events()),
            HandleState::Ended(_) => None,
        }
    }

    /// Ends it. If that was done before, it waits until it is over.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) async fn stop(&self, grace: Duration) -> Result<()> {
        let Some(workload) = self.take_running() else {
            self.ended.cancelled().await;
            return Ok(());
        };
        // Whatever becomes of this task, the others wait no longer.
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

/// Ends all that still run, side by side.
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
        // A stop that panicked has no error to tell.
        outcome = outcome.and(stopped.unwrap_or(Ok(())));
    }
    outcome
}
