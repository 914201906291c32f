//! Supervises one process of a stdio server: starts it, connects it to its multiplexer, and restarts it.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{
    lines,
    mux::Multiplexer,
    process::{Process, ProcessControl, ProcessExit, Spawn},
    restart::Backoff,
};
use crate::{Error, ErrorKind, Result, mcp::era::Era, memory::Account};

/// Time that an unused process has to end before it is killed.
pub(super) const STOP_GRACE: Duration = Duration::from_secs(10);
/// Time that a process which has closed a pipe has to end before its calls fail; after another [`STOP_GRACE`] it is
/// killed.
const CLOSED_PIPE_GRACE: Duration = Duration::from_secs(1);
/// Least uptime after which a process that was not probed counts as ready.
const MIN_TRIAL_UPTIME: Duration = Duration::from_secs(1);

/// A command to the supervisor of a process.
#[derive(Debug)]
pub(super) enum SupervisorCommand {
    /// Restarts the process for that era.
    Restart(Era),
    /// Ends the process.
    Stop(Duration),
}

/// A change in the state of one process.
pub(super) enum ProcessEvent {
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

/// Supervises one process.
pub(super) struct ProcessSupervisor {
    pub(super) spawn: Arc<dyn Spawn>,
    /// Timeout of the first response.
    pub(super) ready_timeout: Duration,
    pub(super) on_event: Box<dyn Fn(ProcessEvent) + Send + Sync>,
    pub(super) mux: Arc<Multiplexer>,
    pub(super) slot: usize,
    pub(super) inbox: mpsc::Receiver<SupervisorCommand>,
    pub(super) backoff: Backoff,
    /// `Some` until the process was ready once, with the channel of the caller that waits for that, if there is one.
    pub(super) start_waiter: Option<Option<oneshot::Sender<Result<()>>>>,
    /// The uptime of the previous process, if it ended because of the era probe.
    pub(super) probe_crash_uptime: Option<Duration>,
    pub(super) ready_since: Option<Instant>,
}

/// Why a process is no longer served.
enum ServeOutcome {
    /// It ended, or could not be started.
    Ended(ProcessExit, Option<Error>),
    /// The next one is started without a pause.
    RestartNow,
    /// No other is started.
    Stopped,
}

/// Why the pipes of a process are no longer served.
enum PipeOutcome {
    OutputClosed,
    InputClosed,
    Command(SupervisorCommand),
}

enum StartupOutcome {
    Ready,
    Ended,
}

impl ProcessSupervisor {
    pub(super) async fn run(mut self) {
        loop {
            self.ready_since = None;
            let outcome = match self.spawn.spawn(self.slot).await {
                Ok(process) => self.serve(process).await,
                Err(error) => {
                    let transient = error.kind() == ErrorKind::EngineUnavailable;
                    let reason = format!("could not be started: {error}");
                    ServeOutcome::Ended(ProcessExit { exit: None, reason, transient }, Some(error))
                }
            };
            match outcome {
                ServeOutcome::Stopped => return,
                ServeOutcome::RestartNow => self.backoff.reset(),
                ServeOutcome::Ended(ended, error) => {
                    if let Some(waiter) = self.start_waiter.take() {
                        return self.fail_to_start(ended, error, waiter);
                    }
                    // The time before it was ready does not count.
                    let uptime = self.ready_since.map_or(Duration::ZERO, |since| since.elapsed());
                    if !self.pause(ended, uptime).await {
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
        waiter: Option<oneshot::Sender<Result<()>>>,
    ) {
        self.mux.mark_failed(&format!("the server {}", ended.reason));
        match waiter {
            Some(waiter) => {
                let message = || format!("the server was not ready when it {}", ended.reason);
                let error = error.unwrap_or_else(|| Error::new(ErrorKind::StartFailed, message()));
                // The caller may be gone.
                let _ = waiter.send(Err(error));
            }
            None => (self.on_event)(ProcessEvent::Ended { ended, started: false }),
        }
    }

    /// Waits before a restart; returns `false` if there is none.
    async fn pause(&mut self, ended: ProcessExit, uptime: Duration) -> bool {
        let Some((attempt, delay)) = self.backoff.next(&ended, uptime) else {
            self.mux.mark_failed(&format!("the server {}", ended.reason));
            (self.on_event)(ProcessEvent::Ended { ended, started: true });
            return false;
        };
        (self.on_event)(ProcessEvent::Restarting { ended, attempt, delay });
        tokio::select! {
            () = tokio::time::sleep(delay) => true,
            command = self.inbox.recv() => match command {
                Some(SupervisorCommand::Restart(era)) => {
                    self.mux.reset_for_era(era);
                    true
                }
                Some(SupervisorCommand::Stop(_)) | None => false,
            },
        }
    }

    /// Serves one process until it has ended.
    async fn serve(&mut self, process: Process) -> ServeOutcome {
        let Process { stdin, stdout, mut control } = process;
        let since = Instant::now();
        let (lines, queue) = mpsc::unbounded_channel();
        let queue_account = Account::new();
        self.mux.connect(lines, Arc::clone(&queue_account));
        let mux = Arc::clone(&self.mux);
        let read = lines::read_lines(stdout, Arc::clone(&mux));
        let write = async {
            if let Err(error) = lines::write_lines(stdin, queue, queue_account).await {
                tracing::debug!(%error, "the server stopped reading");
                // Its output can still be read, and most often it has ended.
                tokio::time::sleep(CLOSED_PIPE_GRACE).await;
                return;
            }
            // The queue is closed, because the multiplexer was disconnected.
            std::future::pending::<()>().await;
        };
        let timeout = self.ready_timeout;
        let probe_crash_uptime = self.probe_crash_uptime.take();
        let startup = async { wait_until_ready(&mux, probe_crash_uptime, timeout).await };
        let mut started = false;
        let (read, write) = (read.fuse(), write.fuse());
        tokio::pin!(read, write, startup);
        let outcome = loop {
            tokio::select! {
                biased;
                () = &mut read => break PipeOutcome::OutputClosed,
                () = &mut write => break PipeOutcome::InputClosed,
                startup = &mut startup, if !started => match startup {
                    Ok(StartupOutcome::Ready) => {
                        started = true;
                        self.ready_since = Some(Instant::now());
                        if let Some(Some(waiter)) = self.start_waiter.take() {
                            // The caller may be gone.
                            let _ = waiter.send(Ok(()));
                        }
                        (self.on_event)(ProcessEvent::Ready);
                    }
                    // It ends by itself; the next one is not probed.
                    Ok(StartupOutcome::Ended) => started = true,
                    Err(error) => {
                        mux.disconnect("the server does not answer");
                        control.stop(Duration::ZERO).await;
                        let reason = error.to_string();
                        let reason = reason.strip_prefix("the server ").unwrap_or(&reason).to_owned();
                        return ServeOutcome::Ended(ProcessExit { exit: None, reason, transient: false }, Some(error));
                    }
                },
                command = self.inbox.recv() => {
                    break PipeOutcome::Command(command.unwrap_or(SupervisorCommand::Stop(Duration::ZERO)));
                }
            }
        };
        let ended = match outcome {
            PipeOutcome::OutputClosed => self.wait_for_exit(&mut *control, "its output").await,
            PipeOutcome::InputClosed => self.wait_for_exit(&mut *control, "its input").await,
            PipeOutcome::Command(command) => Err(command),
        };
        let ended = match ended {
            Ok(ended) => ended,
            Err(command) => {
                let (grace, reason) = match command {
                    SupervisorCommand::Restart(_) => (STOP_GRACE, "the server is being restarted"),
                    SupervisorCommand::Stop(grace) => (grace, "the server is being stopped"),
                };
                mux.disconnect(reason);
                // The queue is closed now, so this closes the process's input. Its output is still read, so that it
                // does not block on a full pipe.
                tokio::select! {
                    () = control.stop(grace) => {}
                    // The process may live on after both pipes are closed.
                    () = async {
                        tokio::join!(read, write);
                        std::future::pending().await
                    } => {}
                }
                let SupervisorCommand::Restart(era) = command else { return ServeOutcome::Stopped };
                mux.reset_for_era(era);
                return ServeOutcome::RestartNow;
            }
        };
        mux.disconnect(&format!("the server {}", ended.reason));
        if mux.era().is_none() {
            // It may have ended because of the era probe; older servers do.
            mux.reset_for_era(Era::Legacy);
            self.probe_crash_uptime = Some(since.elapsed());
            if self.start_waiter.is_some() {
                return ServeOutcome::RestartNow;
            }
        }
        ServeOutcome::Ended(ended, None)
    }

    /// Waits for the end of a process that has closed a pipe, which nearly always follows at once, and ends one that
    /// lives on. Returns early with a command that arrives meanwhile.
    async fn wait_for_exit(
        &mut self,
        control: &mut dyn ProcessControl,
        pipe: &str,
    ) -> std::result::Result<ProcessExit, SupervisorCommand> {
        for (grace, is_last) in [(CLOSED_PIPE_GRACE, false), (STOP_GRACE, true)] {
            tokio::select! {
                ended = control.wait() => return Ok(ended),
                command = self.inbox.recv() => return Err(command.unwrap_or(SupervisorCommand::Stop(Duration::ZERO))),
                () = tokio::time::sleep(grace) => {}
            }
            if !is_last {
                tracing::warn!(
                    process = self.slot,
                    pipe,
                    "a server process has closed a pipe and keeps running"
                );
                self.mux.disconnect(&format!("the server closed {pipe}"));
            }
        }
        control.stop(Duration::ZERO).await;
        Ok(ProcessExit { exit: None, reason: format!("closed {pipe} and did not exit"), transient: false })
    }
}

/// Detects the era of a process, unless it is known, and restores its sessions.
async fn wait_until_ready(
    mux: &Multiplexer,
    probe_crash_uptime: Option<Duration>,
    timeout: Duration,
) -> Result<StartupOutcome> {
    if let Some(uptime) = probe_crash_uptime {
        // Any request would use up its one handshake, which is for the first client. So it counts as ready when it
        // outlives the previous process by far: one that ends for another cause would have ended again by then.
        tokio::time::sleep((uptime * 2).max(MIN_TRIAL_UPTIME).min(timeout)).await;
    } else if mux.era().is_none() {
        match mux.detect_era(timeout).await? {
            Some(era) => mux.reset_for_era(era),
            None => return Ok(StartupOutcome::Ended),
        }
    }
    mux.resume(timeout).await?;
    Ok(StartupOutcome::Ready)
}
