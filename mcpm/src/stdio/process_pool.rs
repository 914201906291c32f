//! Manages the processes of a stdio server, and limits their number.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot},
    task::{JoinHandle, JoinSet},
    time::Instant,
};

use super::{
    process::Spawn,
    process_supervisor::{ProcessEvent, ProcessSupervisor, STOP_GRACE, SupervisorCommand},
    restart::{Backoff, RestartPolicy},
    server_event::{OnEvent, ServerEvent},
};
use crate::{
    Error, ErrorKind, Result,
    explain::Reason,
    mcp::era::Era,
    stdio::{
        mux::{Multiplexer, MuxLimits, RpcError},
        router::{ProcessManager, too_many_processes},
    },
};

/// Maximum delay before another process is added after some did not start.
const MAX_START_BACKOFF: Duration = Duration::from_secs(30);
/// Maximum number of commands that the supervisor of a process has not received yet.
const COMMAND_QUEUE_LEN: usize = 4;
/// The reason of errors after the pool was stopped.
const STOPPING_MESSAGE: &str = "the proxy is stopping";

/// The configuration of a [`ProcessPool`].
pub(crate) struct PoolConfig {
    pub(crate) spawn: Arc<dyn Spawn>,
    pub(crate) policy: RestartPolicy,
    /// Timeout of the first response of a process.
    pub(crate) ready_timeout: Duration,
    pub(crate) limits: MuxLimits,
    /// Maximum number of processes, including those that are ending.
    pub(crate) max_processes: usize,
    pub(crate) on_event: OnEvent,
}

impl std::fmt::Debug for PoolConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolConfig")
            .field("spawn", &self.spawn)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// The processes of one server, limited in number.
///
/// A process is counted until it has ended, so that clients cannot get more processes by making some end slowly.
#[derive(Debug)]
pub(crate) struct ProcessPool {
    config: PoolConfig,
    state: Mutex<PoolState>,
    this: Weak<Self>,
}

#[derive(Debug, Default)]
struct PoolState {
    processes: Vec<PooledProcess>,
    /// Processes that are no longer needed, while they end.
    ending: JoinSet<()>,
    /// The slots of these processes, which cannot be assigned to other processes yet.
    ending_slots: Vec<usize>,
    /// Whether the last event of the server as a whole was that it is ready.
    is_ready: bool,
    /// Why no more processes are started.
    closed_reason: Option<String>,
    /// The number of consecutively added processes that did not start, and when the next one may be added.
    failed_starts: u32,
    retry_at: Option<Instant>,
}

#[derive(Debug)]
struct PooledProcess {
    mux: Arc<Multiplexer>,
    slot: usize,
    is_ready: bool,
    commands: mpsc::Sender<SupervisorCommand>,
    task: JoinHandle<()>,
}

impl ProcessPool {
    pub(crate) fn new(config: PoolConfig) -> Arc<Self> {
        Arc::new_cyclic(|this| Self { config, state: Mutex::default(), this: Weak::clone(this) })
    }

    /// Starts the first process and detects its era.
    ///
    /// # Errors
    /// `StartFailed` if it ends or does not respond.
    pub(crate) async fn start_first(&self) -> Result<Arc<Multiplexer>> {
        let (started, start) = oneshot::channel();
        let mux = self.start(&mut self.lock(), None, Some(started));
        start.await.unwrap_or_else(|_| Err(interrupted())).map(|()| mux)
    }

    /// Ends all processes.
    pub(crate) async fn stop(&self, grace: Duration) {
        let (processes, ending) = {
            let mut state = self.lock();
            state.closed_reason = Some(STOPPING_MESSAGE.to_owned());
            (std::mem::take(&mut state.processes), std::mem::take(&mut state.ending))
        };
        for process in &processes {
            process.mux.mark_failed(STOPPING_MESSAGE);
        }
        futures_util::future::join_all(processes.into_iter().map(|process| process.stop(grace))).await;
        ending.join_all().await;
    }

    /// Ends all processes without a grace period.
    pub(crate) fn abort(&self) {
        let mut state = self.lock();
        state.closed_reason = Some(STOPPING_MESSAGE.to_owned());
        for process in std::mem::take(&mut state.processes) {
            process.mux.mark_failed(STOPPING_MESSAGE);
        }
        state.ending.abort_all();
    }

    fn start(
        &self,
        state: &mut PoolState,
        era: Option<Era>,
        started: Option<oneshot::Sender<Result<()>>>,
    ) -> Arc<Multiplexer> {
        let mux = Multiplexer::new(self.config.limits);
        if let Some(era) = era {
            mux.reset_for_era(era);
        }
        let slot = (0..).find(|slot| state.slots().all(|used| used != *slot)).unwrap_or_default();
        let (commands, inbox) = mpsc::channel(COMMAND_QUEUE_LEN);
        let pool = Weak::clone(&self.this);
        let supervisor = ProcessSupervisor {
            spawn: Arc::clone(&self.config.spawn),
            ready_timeout: self.config.ready_timeout,
            on_event: Box::new(move |event| {
                if let Some(pool) = pool.upgrade() {
                    pool.report(slot, event);
                }
            }),
            mux: Arc::clone(&mux),
            slot,
            inbox,
            backoff: Backoff::new(self.config.policy),
            start_waiter: Some(started),
            probe_crash_uptime: None,
            ready_since: None,
        };
        tracing::info!(process = slot, "starting a server process");
        let task = tokio::spawn(supervisor.run());
        state.processes.push(PooledProcess { mux: Arc::clone(&mux), slot, is_ready: false, commands, task });
        mux
    }

    /// Applies an event of one process, and reports the resulting event of the server as a whole.
    fn report(&self, slot: usize, event: ProcessEvent) {
        let mut state = self.lock();
        let others_ready = state.processes.iter().any(|other| other.slot != slot && other.is_ready);
        if let Some(pooled) = state.processes.iter_mut().find(|pooled| pooled.slot == slot) {
            pooled.is_ready = matches!(event, ProcessEvent::Ready);
        }
        let process = u32::try_from(slot).unwrap_or(u32::MAX);
        let server_event = match event {
            ProcessEvent::Ready => {
                tracing::info!(process, "a server process is ready");
                (state.failed_starts, state.retry_at) = (0, None);
                let was_ready = std::mem::replace(&mut state.is_ready, true);
                if was_ready { ServerEvent::ProcessReady { process } } else { ServerEvent::Ready }
            }
            ProcessEvent::Restarting { ended, attempt, delay } => {
                let reason = &ended.reason;
                tracing::warn!(process, reason, attempt, ?delay, "a server process ended and is restarted");
                state.is_ready = others_ready;
                if others_ready {
                    ServerEvent::ProcessRestarting { process, ended, attempt, delay }
                } else {
                    ServerEvent::Restarting { ended, attempt, delay }
                }
            }
            ProcessEvent::Ended { ended, started } => {
                state.is_ready = others_ready;
                state.processes.retain(|pooled| pooled.slot != slot);
                if !started {
                    state.failed_starts += 1;
                    state.retry_at = Some(Instant::now() + start_backoff(state.failed_starts));
                }
                if state.processes.is_empty() {
                    // Only an info message, because the receiver of the event informs the user.
                    tracing::info!(
                        process,
                        reason = ended.reason,
                        "the last server process ended and will not be restarted"
                    );
                    state.closed_reason = Some(format!("the server {}", ended.reason));
                    ServerEvent::Ended(ended)
                } else {
                    tracing::error!(
                        process,
                        reason = ended.reason,
                        "a server process ended and will not be restarted"
                    );
                    ServerEvent::ProcessEnded { process, ended }
                }
            }
        };
        drop(state);
        (self.config.on_event)(server_event);
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // No code panics while it holds the lock, so the state of a poisoned lock is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the delay after a number of consecutively added processes did not start.
fn start_backoff(failed_starts: u32) -> Duration {
    Duration::from_secs(1 << failed_starts.saturating_sub(1).min(5)).min(MAX_START_BACKOFF)
}

impl PoolState {
    /// Returns the slots in use.
    fn slots(&self) -> impl Iterator<Item = usize> {
        self.processes.iter().map(|pooled| pooled.slot).chain(self.ending_slots.iter().copied())
    }
}

impl PooledProcess {
    async fn stop(mut self, grace: Duration) {
        // The supervisor may have ended already.
        let _ = self.commands.send(SupervisorCommand::Stop(grace)).await;
        // A task that panicked has nothing left to stop.
        let _ = (&mut self.task).await;
    }
}

impl Drop for PooledProcess {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl ProcessManager for ProcessPool {
    fn add(&self, era: Era) -> std::result::Result<Arc<Multiplexer>, RpcError> {
        let mut state = self.lock();
        if let Some(reason) = &state.closed_reason {
            return Err(RpcError::unavailable(reason.clone()));
        }
        if state.slots().count() >= self.config.max_processes {
            return Err(too_many_processes(self.config.max_processes));
        }
        if state.retry_at.is_some_and(|retry_at| retry_at > Instant::now()) {
            return Err(RpcError::unavailable(
                "a server process failed to start for the previous client; try again later",
            )
            .reason(Reason::TooManyProcesses));
        }
        Ok(self.start(&mut state, Some(era), None))
    }

    fn restart(&self, mux: &Arc<Multiplexer>, era: Era) {
        let state = self.lock();
        let Some(pooled) = state.processes.iter().find(|pooled| Arc::ptr_eq(&pooled.mux, mux)) else {
            return;
        };
        tracing::info!(process = pooled.slot, "restarting a server process for another client");
        // The queue can only be full if it contains a stop command, after which other commands have no effect.
        let _ = pooled.commands.try_send(SupervisorCommand::Restart(era));
    }

    fn remove(&self, mux: &Arc<Multiplexer>) {
        let mut state = self.lock();
        let Some(index) = state.processes.iter().position(|pooled| Arc::ptr_eq(&pooled.mux, mux)) else {
            return;
        };
        let pooled = state.processes.remove(index);
        let slot = pooled.slot;
        tracing::info!(process = slot, "ending an unused server process");
        state.ending_slots.push(slot);
        while state.ending.try_join_next().is_some() {}
        let pool = Weak::clone(&self.this);
        state.ending.spawn(async move {
            pooled.stop(STOP_GRACE).await;
            if let Some(pool) = pool.upgrade() {
                pool.lock().ending_slots.retain(|ending| *ending != slot);
            }
        });
    }
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Interrupted, "the server is being stopped")
}
