//! Keeps the processes of a stdio server alive: one task a process, restarts with bounded backoff.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicUsize},
    time::{Duration, Instant},
};

use tokio::{
    sync::{mpsc, oneshot},
    task::{JoinHandle, JoinSet},
};

use super::{Ended, Process, Spawn, stdio};
use crate::{
    Error, ErrorKind, Result,
    mcp::{
        era::Era,
        lane::{Lane, Limits},
        router::Processes,
    },
};

/// How long an ended client's process may take to end by itself.
const STOP_GRACE: Duration = Duration::from_secs(10);
/// Least time that a process which is asked nothing has to live to be taken for one that answers.
const TRIAL: Duration = Duration::from_secs(1);

/// When a server that ended is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// Most starts in a row; 0 never restarts.
    pub attempts: u32,
    /// Wait before the first restart; doubles with each.
    pub first_delay: Duration,
    /// Longest wait.
    pub longest_delay: Duration,
    /// A process that lived this long starts the count anew.
    pub steady: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            attempts: 10,
            first_delay: Duration::from_millis(500),
            longest_delay: Duration::from_secs(30),
            steady: Duration::from_secs(30),
        }
    }
}

impl RestartPolicy {
    /// Never restarts: the server's end is the workload's end.
    pub const NEVER: Self = Self {
        attempts: 0,
        first_delay: Duration::ZERO,
        longest_delay: Duration::ZERO,
        steady: Duration::ZERO,
    };

    /// Returns the wait before restart `attempt`, counted from 1, or `None` when there is no more.
    pub fn delay(&self, attempt: u32) -> Option<Duration> {
        let doubled = self.first_delay.saturating_mul(1 << attempt.saturating_sub(1).min(16));
        (1..=self.attempts).contains(&attempt).then(|| doubled.min(self.longest_delay))
    }
}

/// What happens to a server, for whoever shows or records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerEvent {
    /// It answers.
    Ready,
    /// It ended, and is started again after the delay.
    Restarting {
        /// How it ended.
        ended: Ended,
        /// Which restart in a row this is.
        attempt: u32,
        /// How long mcpm waits first.
        delay: Duration,
    },
    /// It ended and is not started again.
    Ended(Ended),
}

/// Is told what happens to a server.
pub(crate) type OnEvent = Arc<dyn Fn(ServerEvent) + Send + Sync>;

/// What a keeper works with.
pub(crate) struct Settings {
    pub(crate) spawn: Arc<dyn Spawn>,
    pub(crate) policy: RestartPolicy,
    /// How long a process may take to answer.
    pub(crate) patience: Duration,
    pub(crate) limits: Limits,
    pub(crate) on_event: OnEvent,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("spawn", &self.spawn)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// The processes of one server.
#[derive(Debug)]
pub(crate) struct Keepers {
    settings: Arc<Settings>,
    kept: Mutex<Vec<Kept>>,
    /// Processes that are no longer needed, on their way out.
    ending: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct Kept {
    lane: Arc<Lane>,
    slot: usize,
    commands: mpsc::Sender<Command>,
    task: JoinHandle<()>,
}

enum Command {
    /// Starts afresh for that era.
    Renew(Era, oneshot::Sender<Result<()>>),
    /// Ends the process.
    Stop(Duration, oneshot::Sender<()>),
}

impl Keepers {
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            settings: Arc::new(settings),
            kept: Mutex::new(Vec::new()),
            ending: Mutex::default(),
        })
    }

    /// Starts the first process and finds out what it speaks.
    ///
    /// # Errors
    /// `StartFailed` when it ends or stays silent.
    pub(crate) async fn first(&self) -> Result<Arc<Lane>> {
        self.start(None).await
    }

    /// Ends all processes.
    pub(crate) async fn stop(&self, grace: Duration) {
        let kept = std::mem::take(&mut *self.lock());
        for kept in &kept {
            kept.lane.give_up("the proxy is stopping");
        }
        let stopping = kept.into_iter().map(|kept| kept.stop(grace));
        futures_util::future::join_all(stopping).await;
        let ending = std::mem::take(&mut *lock(&self.ending));
        ending.join_all().await;
    }

    /// Ends all processes without grace.
    pub(crate) fn end(&self) {
        for kept in std::mem::take(&mut *self.lock()) {
            kept.lane.give_up("the proxy is stopping");
        }
        lock(&self.ending).abort_all();
    }

    async fn start(&self, era: Option<Era>) -> Result<Arc<Lane>> {
        let lane = Lane::new(self.settings.limits);
        if let Some(era) = era {
            lane.prepare(era);
        }
        let (commands, inbox) = mpsc::channel(1);
        let (started, start) = oneshot::channel();
        {
            let mut kept = self.lock();
            let slot = (0..).find(|slot| kept.iter().all(|kept| kept.slot != *slot)).unwrap_or_default();
            let keeper = Keeper {
                settings: Arc::clone(&self.settings),
                lane: Arc::clone(&lane),
                slot,
                inbox,
                attempt: 0,
                shy: None,
            };
            let task = tokio::spawn(keeper.run(started));
            kept.push(Kept { lane: Arc::clone(&lane), slot, commands, task });
        }
        match start.await.unwrap_or_else(|_| Err(interrupted())) {
            Ok(()) => Ok(lane),
            Err(error) => {
                self.lock().retain(|kept| !Arc::ptr_eq(&kept.lane, &lane));
                Err(error)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        lock(&self.kept)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Kept {
    async fn stop(mut self, grace: Duration) {
        let (done, stopped) = oneshot::channel();
        if self.commands.send(Command::Stop(grace, done)).await.is_ok() {
            // The keeper ends either way; its task is awaited below.
            let _ = stopped.await;
        }
        // A task that panicked has nothing left to stop.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[async_trait::async_trait]
impl Processes for Keepers {
    async fn add(&self, era: Era) -> Result<Arc<Lane>> {
        self.start(Some(era)).await
    }

    async fn renew(&self, lane: &Arc<Lane>, era: Era) -> Result<()> {
        let commands =
            self.lock().iter().find(|kept| Arc::ptr_eq(&kept.lane, lane)).map(|kept| kept.commands.clone());
        let (done, renewed) = oneshot::channel();
        match commands {
            Some(commands) if commands.send(Command::Renew(era, done)).await.is_ok() => {
                renewed.await.unwrap_or_else(|_| Err(interrupted()))
            }
            Some(_) | None => Err(interrupted()),
        }
    }

    fn remove(&self, lane: &Arc<Lane>) {
        let mut kept = self.lock();
        if let Some(index) = kept.iter().position(|kept| Arc::ptr_eq(&kept.lane, lane)) {
            let mut ending = lock(&self.ending);
            while ending.try_join_next().is_some() {}
            ending.spawn(kept.remove(index).stop(STOP_GRACE));
        }
    }
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Interrupted, "the server is being stopped")
}

/// Keeps one process alive.
struct Keeper {
    settings: Arc<Settings>,
    lane: Arc<Lane>,
    slot: usize,
    inbox: mpsc::Receiver<Command>,
    /// Restarts in a row.
    attempt: u32,
    /// How long the process before lived, if it ended over the question which era it speaks.
    shy: Option<Duration>,
}

/// Why a process is no more.
enum Over {
    /// It ended by itself.
    Ended(Ended),
    /// A fresh one is wanted.
    Renew(oneshot::Sender<Result<()>>),
    /// No other is wanted.
    Stopped,
}

impl Keeper {
    async fn run(mut self, started: oneshot::Sender<Result<()>>) {
        let mut waiting = Some(started);
        loop {
            let since = Instant::now();
            let over = match self.settings.spawn.spawn(self.slot).await {
                Ok(process) => self.serve(process, &mut waiting).await,
                Err(error) => match waiting.take() {
                    Some(waiting) => {
                        // Whoever started it may be gone.
                        let _ = waiting.send(Err(error));
                        return;
                    }
                    None => Over::Ended(Ended {
                        exit: None,
                        reason: error.to_string(),
                        passing: error.kind() == ErrorKind::EngineUnavailable,
                    }),
                },
            };
            match over {
                Over::Stopped => return,
                Over::Renew(done) => {
                    waiting = Some(done);
                    self.attempt = 0;
                }
                Over::Ended(_) if waiting.is_some() => return,
                Over::Ended(ended) => {
                    if since.elapsed() >= self.settings.policy.steady {
                        self.attempt = 0;
                    }
                    if !self.pause(ended, &mut waiting).await {
                        return;
                    }
                }
            }
        }
    }

    /// Waits before a restart; `false` when there is none.
    async fn pause(&mut self, ended: Ended, waiting: &mut Option<oneshot::Sender<Result<()>>>) -> bool {
        self.attempt += 1;
        if ended.passing {
            // Waiting for an engine is no fault of the server's.
            self.attempt = self.attempt.min(self.settings.policy.attempts);
        }
        let Some(delay) = self.settings.policy.delay(self.attempt) else {
            self.lane.give_up(&format!("the server {}", ended.reason));
            (self.settings.on_event)(ServerEvent::Ended(ended));
            return false;
        };
        (self.settings.on_event)(ServerEvent::Restarting { ended, attempt: self.attempt, delay });
        tokio::select! {
            () = tokio::time::sleep(delay) => true,
            command = self.inbox.recv() => match command {
                Some(Command::Renew(era, done)) => {
                    self.lane.prepare(era);
                    *waiting = Some(done);
                    true
                }
                Some(Command::Stop(_, done)) => {
                    let _ = done.send(());
                    false
                }
                None => false,
            },
        }
    }

    /// Serves one process until it is no more.
    async fn serve(&mut self, process: Process, waiting: &mut Option<oneshot::Sender<Result<()>>>) -> Over {
        let Process { stdin, stdout, mut control } = process;
        let since = Instant::now();
        let (lines, queue) = mpsc::unbounded_channel();
        let queued = Arc::new(AtomicUsize::new(0));
        self.lane.connect(lines, Arc::clone(&queued));
        let lane = Arc::clone(&self.lane);
        let read = stdio::read_lines(stdout, Arc::clone(&lane));
        let write = async {
            if let Err(error) = stdio::write_lines(stdin, queue, queued).await {
                tracing::debug!(%error, "the server stopped reading");
            }
            // The end of its output says that the process is over.
            std::future::pending::<()>().await;
        };
        let patience = self.settings.patience;
        let shy = self.shy.take();
        let settle = async { settle(&lane, shy, patience).await };
        let mut settled = false;
        tokio::pin!(read, write, settle);
        let over = loop {
            tokio::select! {
                biased;
                () = &mut read => break None,
                () = &mut write => {}
                outcome = &mut settle, if !settled => match outcome {
                    Ok(Settled::Ready) => {
                        settled = true;
                        (self.settings.on_event)(ServerEvent::Ready);
                        if let Some(waiting) = waiting.take() {
                            // Whoever started it may be gone.
                            let _ = waiting.send(Ok(()));
                        }
                    }
                    // It ends by itself; the next one is not asked the question that ended this one.
                    Ok(Settled::Ended) => settled = true,
                    Err(error) => {
                        lane.disconnect("the server does not answer");
                        control.stop(Duration::ZERO).await;
                        if let Some(waiting) = waiting.take() {
                            let _ = waiting.send(Err(error));
                            return Over::Stopped;
                        }
                        return Over::Ended(Ended { exit: None, reason: error.to_string(), passing: false });
                    }
                },
                command = self.inbox.recv() => break Some(command),
            }
        };
        match over {
            Some(Some(Command::Renew(era, done))) => {
                lane.disconnect("the server is being restarted");
                tokio::select! {
                    () = control.stop(STOP_GRACE) => {}
                    ((), ()) = async { tokio::join!(read, write) } => {}
                }
                lane.prepare(era);
                Over::Renew(done)
            }
            Some(Some(Command::Stop(grace, done))) => {
                lane.disconnect("the server is being stopped");
                // The lane sends no more, so this closes the process's input; what it writes yet keeps no pipe full.
                tokio::select! {
                    () = control.stop(grace) => {}
                    ((), ()) = async { tokio::join!(read, write) } => {}
                }
                let _ = done.send(());
                Over::Stopped
            }
            Some(None) => Over::Stopped,
            None => {
                let ended = control.wait().await;
                lane.disconnect(&format!("the server {}", ended.reason));
                if lane.era().is_none() {
                    // It may have ended over the question which era it speaks; older servers do.
                    lane.prepare(Era::Legacy);
                    self.shy = Some(since.elapsed());
                    return match waiting.take() {
                        Some(waiting) => Over::Renew(waiting),
                        None => Over::Ended(ended),
                    };
                }
                if let Some(waiting) = waiting.take() {
                    let message = format!("the server was not ready when it {}", ended.reason);
                    let _ = waiting.send(Err(Error::new(ErrorKind::StartFailed, message)));
                    return Over::Stopped;
                }
                Over::Ended(ended)
            }
        }
    }
}

enum Settled {
    Ready,
    Ended,
}

/// Makes sure that a process answers, and brings the sessions back.
async fn settle(lane: &Lane, shy: Option<Duration>, patience: Duration) -> Result<Settled> {
    if let Some(lived) = shy {
        // Any question would use up its one handshake, which is for the first client. So it is taken for sound when it
        // outlives the one before by far: one that ends whatever it is asked would be gone again by then.
        tokio::time::sleep((lived * 2).max(TRIAL).min(patience)).await;
    } else if lane.era().is_none() {
        match lane.ask_era(patience).await? {
            Some(era) => lane.prepare(era),
            None => return Ok(Settled::Ended),
        }
    }
    lane.resume(patience).await?;
    Ok(Settled::Ready)
}
