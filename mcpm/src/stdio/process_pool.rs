//! Keeps the processes of a stdio server alive: one task a process, restarts with bounded backoff.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use futures_util::FutureExt as _;
use tokio::{
    sync::{mpsc, oneshot},
    task::{JoinHandle, JoinSet},
    time::Instant,
};

use super::{
    Process, ProcessControl, ProcessExit, Spawn, lines,
    restart::{Backoff, RestartPolicy},
};
use crate::{
    Error, ErrorKind, Result,
    explain::Reason,
    mcp::era::Era,
    memory::Account,
    stdio::{
        mux::{Multiplexer, MuxLimits, RpcError},
        router::{ProcessManager, too_many_processes},
    },
};

/// How long an ended client's process may take to end by itself.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Longest wait before a process is added again after some did not start.
const MAX_START_BACKOFF: Duration = Duration::from_secs(30);
/// Commands that a keeper has not taken yet.
const COMMAND_QUEUE_LEN: usize = 4;
/// How long a process that has closed a pipe is given to end before its calls are answered; then it has
/// [`STOP_GRACE`] until it is killed.
const CLOSED_FOR: Duration = Duration::from_secs(1);
/// Why nothing is served any more.
const STOPPING_MESSAGE: &str = "the proxy is stopping";
/// Least time that a process which is asked nothing has to live to be taken for one that answers.
const MIN_TRIAL_UPTIME: Duration = Duration::from_secs(1);

/// What happens to a server, for whoever shows or records it.
///
/// A stdio server can have several processes, which are numbered from 0. The server as a whole is ready as long as one
/// of them is, and has ended when none is left.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerEvent {
    /// It answers.
    Ready,
    /// It ended, and is started again after the delay.
    Restarting {
        /// How it ended.
        ended: ProcessExit,
        /// Which restart in a row this is.
        attempt: u32,
        /// How long mcpm waits first.
        delay: Duration,
    },
    /// The container engine does not answer. The server may live on, and clients still reach it.
    EngineLost {
        /// What the engine's client said.
        reason: String,
    },
    /// The container engine answers again.
    EngineBack,
    /// It ended and is not started again.
    Ended(ProcessExit),
    /// One of several processes ended and is started again after the delay, while another one is ready.
    ProcessRestarting {
        /// Which process.
        process: u32,
        /// How it ended.
        ended: ProcessExit,
        /// Which restart in a row this is.
        attempt: u32,
        /// How long mcpm waits first.
        delay: Duration,
    },
    /// One of several processes is ready, as another one was before.
    ProcessReady {
        /// Which process.
        process: u32,
    },
    /// One of several processes ended and is not started again, while another one lives on.
    ProcessEnded {
        /// Which process.
        process: u32,
        /// How it ended.
        ended: ProcessExit,
    },
}

/// Is told what happens to a server.
pub(crate) type OnEvent = Arc<dyn Fn(ServerEvent) + Send + Sync>;

/// What a keeper works with.
pub(crate) struct PoolConfig {
    pub(crate) spawn: Arc<dyn Spawn>,
    pub(crate) policy: RestartPolicy,
    /// How long a process may take to answer.
    pub(crate) ready_timeout: Duration,
    pub(crate) limits: MuxLimits,
    /// Most processes, those that are on their way out included.
    pub(crate) max_processes: usize,
    pub(crate) on_event: OnEvent,
}

impl std::fmt::Debug for PoolConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("spawn", &self.spawn)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// The processes of one server, bounded in number.
///
/// A process counts until it has ended, so that a slow end cannot be used to have more of them.
#[derive(Debug)]
pub(crate) struct ProcessPool {
    settings: Arc<PoolConfig>,
    pool: Mutex<PoolState>,
    this: Weak<Self>,
}

#[derive(Debug, Default)]
struct PoolState {
    processes: Vec<PooledProcess>,
    /// Processes that are no longer needed, on their way out.
    ending: JoinSet<()>,
    /// Slots of those, which no other process can have yet.
    ending_slots: Vec<usize>,
    /// Whether the server as a whole was last said to be ready.
    is_ready: bool,
    /// Why there will be no more processes.
    closed_reason: Option<String>,
    /// Added processes in a row that did not start, and when the next one may be tried.
    failed_starts: u32,
    retry_at: Option<Instant>,
}

#[derive(Debug)]
struct PooledProcess {
    lane: Arc<Multiplexer>,
    slot: usize,
    is_ready: bool,
    commands: mpsc::Sender<SupervisorCommand>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
enum SupervisorCommand {
    /// Starts afresh for that era.
    Restart(Era),
    /// Ends the process.
    Stop(Duration),
}

impl ProcessPool {
    pub(crate) fn new(settings: PoolConfig) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            settings: Arc::new(settings),
            pool: Mutex::default(),
            this: Weak::clone(this),
        })
    }

    /// Starts the first process and finds out what it speaks.
    ///
    /// # Errors
    /// `StartFailed` when it ends or stays silent.
    pub(crate) async fn start_first(&self) -> Result<Arc<Multiplexer>> {
        let (started, start) = oneshot::channel();
        let lane = self.start(&mut self.lock(), None, Some(started));
        start.await.unwrap_or_else(|_| Err(interrupted())).map(|()| lane)
    }

    /// Ends all processes.
    pub(crate) async fn stop(&self, grace: Duration) {
        let (kept, ending) = {
            let mut pool = self.lock();
            pool.closed_reason = Some(STOPPING_MESSAGE.to_owned());
            (std::mem::take(&mut pool.processes), std::mem::take(&mut pool.ending))
        };
        for kept in &kept {
            kept.lane.mark_failed(STOPPING_MESSAGE);
        }
        futures_util::future::join_all(kept.into_iter().map(|kept| kept.stop(grace))).await;
        ending.join_all().await;
    }

    /// Ends all processes without grace.
    pub(crate) fn abort(&self) {
        let mut pool = self.lock();
        pool.closed_reason = Some(STOPPING_MESSAGE.to_owned());
        for kept in std::mem::take(&mut pool.processes) {
            kept.lane.mark_failed(STOPPING_MESSAGE);
        }
        pool.ending.abort_all();
    }

    fn start(
        &self,
        pool: &mut PoolState,
        era: Option<Era>,
        started: Option<oneshot::Sender<Result<()>>>,
    ) -> Arc<Multiplexer> {
        let lane = Multiplexer::new(self.settings.limits);
        if let Some(era) = era {
            lane.reset_for_era(era);
        }
        let slot = (0..).find(|slot| pool.slots().all(|taken| taken != *slot)).unwrap_or_default();
        let (commands, inbox) = mpsc::channel(COMMAND_QUEUE_LEN);
        let keeper = ProcessSupervisor {
            settings: Arc::clone(&self.settings),
            process_pool: Weak::clone(&self.this),
            lane: Arc::clone(&lane),
            slot,
            inbox,
            backoff: Backoff::new(self.settings.policy),
            start_waiter: Some(started),
            probe_crash_uptime: None,
            ready_since: None,
        };
        tracing::info!(process = slot, "starting a server process");
        let task = tokio::spawn(keeper.run());
        pool.processes.push(PooledProcess { lane: Arc::clone(&lane), slot, is_ready: false, commands, task });
        lane
    }

    /// Takes what happened to one process, and says what it means for the server as a whole.
    fn report(&self, slot: usize, event: ProcessEvent) {
        let mut pool = self.lock();
        let others_ready = pool.processes.iter().any(|kept| kept.slot != slot && kept.is_ready);
        if let Some(kept) = pool.processes.iter_mut().find(|kept| kept.slot == slot) {
            kept.is_ready = matches!(event, ProcessEvent::Ready);
        }
        let process = u32::try_from(slot).unwrap_or(u32::MAX);
        let told = match event {
            ProcessEvent::Ready => {
                tracing::info!(process, "a server process is ready");
                (pool.failed_starts, pool.retry_at) = (0, None);
                let was_ready = std::mem::replace(&mut pool.is_ready, true);
                if was_ready { ServerEvent::ProcessReady { process } } else { ServerEvent::Ready }
            }
            ProcessEvent::Restarting { ended, attempt, delay } => {
                let reason = &ended.reason;
                tracing::warn!(
                    process,
                    reason,
                    attempt,
                    ?delay,
                    "a server process ended and is started again"
                );
                pool.is_ready = others_ready;
                if others_ready {
                    ServerEvent::ProcessRestarting { process, ended, attempt, delay }
                } else {
                    ServerEvent::Restarting { ended, attempt, delay }
                }
            }
            ProcessEvent::Ended { ended, started } => {
                pool.is_ready = others_ready;
                pool.processes.retain(|kept| kept.slot != slot);
                if !started {
                    pool.failed_starts += 1;
                    pool.retry_at = Some(Instant::now() + start_backoff(pool.failed_starts));
                }
                if pool.processes.is_empty() {
                    // Whoever hears of the server's end tells the user.
                    tracing::info!(process, reason = ended.reason, "the last server process is given up");
                    pool.closed_reason = Some(format!("the server {}", ended.reason));
                    ServerEvent::Ended(ended)
                } else {
                    tracing::error!(process, reason = ended.reason, "a server process is given up");
                    ServerEvent::ProcessEnded { process, ended }
                }
            }
        };
        drop(pool);
        (self.settings.on_event)(told);
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The wait after so many added processes in a row did not start.
fn start_backoff(failed: u32) -> Duration {
    Duration::from_secs(1 << failed.saturating_sub(1).min(5)).min(MAX_START_BACKOFF)
}

impl PoolState {
    /// The slots that are taken.
    fn slots(&self) -> impl Iterator<Item = usize> {
        self.processes.iter().map(|kept| kept.slot).chain(self.ending_slots.iter().copied())
    }
}

impl PooledProcess {
    async fn stop(mut self, grace: Duration) {
        // The keeper may have ended by itself.
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
        let mut pool = self.lock();
        if let Some(reason) = &pool.closed_reason {
            return Err(RpcError::unavailable(reason.clone()));
        }
        if pool.slots().count() >= self.settings.max_processes {
            return Err(too_many_processes(self.settings.max_processes));
        }
        if pool.retry_at.is_some_and(|again| again > Instant::now()) {
            return Err(RpcError::unavailable(
                "the server did not start for the last client; try again in a while",
            )
            .reason(Reason::TooManyProcesses));
        }
        Ok(self.start(&mut pool, Some(era), None))
    }

    fn restart(&self, lane: &Arc<Multiplexer>, era: Era) {
        let pool = self.lock();
        let Some(kept) = pool.processes.iter().find(|kept| Arc::ptr_eq(&kept.lane, lane)) else { return };
        tracing::info!(process = kept.slot, "starting a server process anew for another client");
        // It takes two at once only when the first is a stop, after which none matters.
        let _ = kept.commands.try_send(SupervisorCommand::Restart(era));
    }

    fn remove(&self, lane: &Arc<Multiplexer>) {
        let mut pool = self.lock();
        let Some(index) = pool.processes.iter().position(|kept| Arc::ptr_eq(&kept.lane, lane)) else {
            return;
        };
        let kept = pool.processes.remove(index);
        let slot = kept.slot;
        tracing::info!(process = slot, "ending a server process that nobody uses");
        pool.ending_slots.push(slot);
        while pool.ending.try_join_next().is_some() {}
        let keepers = Weak::clone(&self.this);
        pool.ending.spawn(async move {
            kept.stop(STOP_GRACE).await;
            if let Some(keepers) = keepers.upgrade() {
                keepers.lock().ending_slots.retain(|ending| *ending != slot);
            }
        });
    }
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Interrupted, "the server is being stopped")
}

/// What happened to one process.
enum ProcessEvent {
    Ready,
    Restarting {
        ended: ProcessExit,
        attempt: u32,
        delay: Duration,
    },
    /// `started` is whether it was ever ready.
    Ended {
        ended: ProcessExit,
        started: bool,
    },
}

/// Keeps one process alive.
struct ProcessSupervisor {
    settings: Arc<PoolConfig>,
    process_pool: Weak<ProcessPool>,
    lane: Arc<Multiplexer>,
    slot: usize,
    inbox: mpsc::Receiver<SupervisorCommand>,
    backoff: Backoff,
    /// There until the process was ready once; holds whoever waits for that, if somebody does.
    start_waiter: Option<Option<oneshot::Sender<Result<()>>>>,
    /// How long the process before lived, if it ended over the question which era it speaks.
    probe_crash_uptime: Option<Duration>,
    /// Since when the process is ready.
    ready_since: Option<Instant>,
}

/// Why a process is no more.
enum ServeOutcome {
    /// It ended, or could not be started.
    Ended(ProcessExit, Option<Error>),
    /// The next one is started without a pause.
    RestartNow,
    /// No other is wanted.
    Stopped,
}

impl ProcessSupervisor {
    async fn run(mut self) {
        loop {
            self.ready_since = None;
            let over = match self.settings.spawn.spawn(self.slot).await {
                Ok(process) => self.serve(process).await,
                Err(error) => {
                    let passing = error.kind() == ErrorKind::EngineUnavailable;
                    let reason = format!("could not be started: {error}");
                    ServeOutcome::Ended(ProcessExit { exit: None, reason, transient: passing }, Some(error))
                }
            };
            match over {
                ServeOutcome::Stopped => return,
                ServeOutcome::RestartNow => self.backoff.reset(),
                ServeOutcome::Ended(ended, error) => {
                    if let Some(waiting) = self.start_waiter.take() {
                        return self.fail_to_start(ended, error, waiting);
                    }
                    // One that was never ready has not lived, however long it was waited for.
                    let lived = self.ready_since.map_or(Duration::ZERO, |since| since.elapsed());
                    if !self.pause(ended, lived).await {
                        return;
                    }
                }
            }
        }
    }

    /// Gives up a process that was never ready.
    fn fail_to_start(
        &self,
        ended: ProcessExit,
        error: Option<Error>,
        waiting: Option<oneshot::Sender<Result<()>>>,
    ) {
        self.lane.mark_failed(&format!("the server {}", ended.reason));
        match waiting {
            Some(waiting) => {
                let message = || format!("the server was not ready when it {}", ended.reason);
                let error = error.unwrap_or_else(|| Error::new(ErrorKind::StartFailed, message()));
                // Whoever started it may be gone.
                let _ = waiting.send(Err(error));
            }
            None => self.report(ProcessEvent::Ended { ended, started: false }),
        }
    }

    /// Waits before a restart; `false` when there is none.
    async fn pause(&mut self, ended: ProcessExit, lived: Duration) -> bool {
        let Some((attempt, delay)) = self.backoff.next(&ended, lived) else {
            self.lane.mark_failed(&format!("the server {}", ended.reason));
            self.report(ProcessEvent::Ended { ended, started: true });
            return false;
        };
        self.report(ProcessEvent::Restarting { ended, attempt, delay });
        tokio::select! {
            () = tokio::time::sleep(delay) => true,
            command = self.inbox.recv() => match command {
                Some(SupervisorCommand::Restart(era)) => {
                    self.lane.reset_for_era(era);
                    true
                }
                Some(SupervisorCommand::Stop(_)) | None => false,
            },
        }
    }

    fn report(&self, event: ProcessEvent) {
        if let Some(keepers) = self.process_pool.upgrade() {
            keepers.report(self.slot, event);
        }
    }

    /// Serves one process until it is no more.
    async fn serve(&mut self, process: Process) -> ServeOutcome {
        let Process { stdin, stdout, mut control } = process;
        let since = Instant::now();
        let (lines, queue) = mpsc::unbounded_channel();
        let queued = Account::new();
        self.lane.connect(lines, Arc::clone(&queued));
        let lane = Arc::clone(&self.lane);
        let read = lines::read_lines(stdout, Arc::clone(&lane));
        let write = async {
            if let Err(error) = lines::write_lines(stdin, queue, queued).await {
                tracing::debug!(%error, "the server stopped reading");
                // What it has written can still be read, and most often it has ended.
                tokio::time::sleep(CLOSED_FOR).await;
                return;
            }
            // The lane sends no more, since it was told that the process is over.
            std::future::pending::<()>().await;
        };
        let patience = self.settings.ready_timeout;
        let shy = self.probe_crash_uptime.take();
        let settle = async { wait_until_ready(&lane, shy, patience).await };
        let mut settled = false;
        let (read, write) = (read.fuse(), write.fuse());
        tokio::pin!(read, write, settle);
        let over = loop {
            tokio::select! {
                biased;
                () = &mut read => break Closed::Output,
                () = &mut write => break Closed::Input,
                outcome = &mut settle, if !settled => match outcome {
                    Ok(StartupOutcome::Ready) => {
                        settled = true;
                        self.ready_since = Some(Instant::now());
                        if let Some(Some(waiting)) = self.start_waiter.take() {
                            // Whoever started it may be gone.
                            let _ = waiting.send(Ok(()));
                        }
                        self.report(ProcessEvent::Ready);
                    }
                    // It ends by itself; the next one is not asked the question that ended this one.
                    Ok(StartupOutcome::Ended) => settled = true,
                    Err(error) => {
                        lane.disconnect("the server does not answer");
                        control.stop(Duration::ZERO).await;
                        let reason = error.to_string();
                        let reason = reason.strip_prefix("the server ").unwrap_or(&reason).to_owned();
                        return ServeOutcome::Ended(ProcessExit { exit: None, reason, transient: false }, Some(error));
                    }
                },
                command = self.inbox.recv() => break Closed::For(command.unwrap_or(SupervisorCommand::Stop(Duration::ZERO))),
            }
        };
        let ended = match over {
            Closed::Output => self.ended(&mut *control, "its output").await,
            Closed::Input => self.ended(&mut *control, "its input").await,
            Closed::For(command) => Err(command),
        };
        let ended = match ended {
            Ok(ended) => ended,
            Err(command) => {
                let (grace, reason) = match command {
                    SupervisorCommand::Restart(_) => (STOP_GRACE, "the server is being restarted"),
                    SupervisorCommand::Stop(grace) => (grace, "the server is being stopped"),
                };
                lane.disconnect(reason);
                // The lane sends no more, so this closes the process's input; what it writes yet keeps no pipe full.
                tokio::select! {
                    () = control.stop(grace) => {}
                    // The end of its pipes is not yet its own.
                    () = async {
                        tokio::join!(read, write);
                        std::future::pending().await
                    } => {}
                }
                let SupervisorCommand::Restart(era) = command else { return ServeOutcome::Stopped };
                lane.reset_for_era(era);
                return ServeOutcome::RestartNow;
            }
        };
        lane.disconnect(&format!("the server {}", ended.reason));
        if lane.era().is_none() {
            // It may have ended over the question which era it speaks; older servers do.
            lane.reset_for_era(Era::Legacy);
            self.probe_crash_uptime = Some(since.elapsed());
            if self.start_waiter.is_some() {
                return ServeOutcome::RestartNow;
            }
        }
        ServeOutcome::Ended(ended, None)
    }

    /// Waits for the end of a process that has closed a pipe, which comes nearly always at once; one that lives on is
    /// ended. Or returns what is wanted of its keeper meanwhile.
    async fn ended(
        &mut self,
        control: &mut dyn ProcessControl,
        pipe: &str,
    ) -> std::result::Result<ProcessExit, SupervisorCommand> {
        for (grace, is_last) in [(CLOSED_FOR, false), (STOP_GRACE, true)] {
            tokio::select! {
                ended = control.wait() => return Ok(ended),
                command = self.inbox.recv() => return Err(command.unwrap_or(SupervisorCommand::Stop(Duration::ZERO))),
                () = tokio::time::sleep(grace) => {}
            }
            if !is_last {
                tracing::warn!(process = self.slot, pipe, "a server process has closed a pipe and lives on");
                self.lane.disconnect(&format!("the server closed {pipe}"));
            }
        }
        control.stop(Duration::ZERO).await;
        Ok(ProcessExit { exit: None, reason: format!("closed {pipe} and did not end"), transient: false })
    }
}

/// Why a process is served no longer.
enum Closed {
    /// It writes nothing any more.
    Output,
    /// It reads nothing any more.
    Input,
    /// Something else is wanted of its keeper.
    For(SupervisorCommand),
}

enum StartupOutcome {
    Ready,
    Ended,
}

/// Makes sure that a process answers, and brings the sessions back.
async fn wait_until_ready(
    lane: &Multiplexer,
    shy: Option<Duration>,
    patience: Duration,
) -> Result<StartupOutcome> {
    if let Some(lived) = shy {
        // Any question would use up its one handshake, which is for the first client. So it is taken for sound when it
        // outlives the one before by far: one that ends whatever it is asked would be gone again by then.
        tokio::time::sleep((lived * 2).max(MIN_TRIAL_UPTIME).min(patience)).await;
    } else if lane.era().is_none() {
        match lane.detect_era(patience).await? {
            Some(era) => lane.reset_for_era(era),
            None => return Ok(StartupOutcome::Ended),
        }
    }
    lane.resume(patience).await?;
    Ok(StartupOutcome::Ready)
}
