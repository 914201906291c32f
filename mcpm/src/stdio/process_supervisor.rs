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

/// Grace period of an unused process before it is killed.
pub(super) const STOP_GRACE: Duration = Duration::from_secs(10);
/// Time for which a process that has closed a pipe may keep running before its calls fail; after another [`STOP_GRACE`]
/// it is killed.
const CLOSED_PIPE_GRACE: Duration = Duration::from_secs(1);
/// Minimum uptime after which a process that was not probed counts as ready.
const MIN_TRIAL_UPTIME: Duration = Duration::from_secs(1);

/// A command to the supervisor of a process.
#[derive(Debug)]
pub(super) enum SupervisorCommand {
    /// Restarts the process for this era.
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
    /// The process has ended for good; `started` tells whether it was ever ready.
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
    /// `Some` until the process has been ready once; contains the channel of the caller that waits for that, if there
    /// is one.
    pub(super) start_waiter: Option<Option<oneshot::Sender<Result<()>>>>,
    /// The uptime of the previous process, if it ended because of the era probe.
    pub(super) probe_crash_uptime: Option<Duration>,
    pub(super) ready_since: Option<Instant>,
}

/// Why a process is no longer served.
enum ServeOutcome {
    /// The process ended, or could not be started.
    Ended(ProcessExit, Option<Error>),
    /// The process is restarted without a delay.
    RestartNow,
    /// The process is not restarted.
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
                    // The time before the process was ready is not part of the uptime.
                    let uptime = self.ready_since.map_or(Duration::ZERO, |since| since.elapsed());
                    if !self.pause(ended, uptime).await {
                        return;
                    }
                }
            }
        }
    }

    /// Marks a process that was never ready as failed.
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

    /// Waits before a restart; returns `false` if the process is not restarted.
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
                // The output of the process can still be read, and most often the process has ended.
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
                    // The process ends by itself, presumably because of the probe, so the next process is not probed.
                    Ok(StartupOutcome::Ended) => started = true,
                    Err(error) => {
                        mux.disconnect("the server does not respond");
                        control.stop(Duration::ZERO).await;
                        let reason = error.message();
                        let reason = reason.strip_prefix("the server ").unwrap_or(reason).to_owned();
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
                    // The process may keep running after both pipes are closed.
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
            // The process may have ended because of the era probe, as older servers do.
            mux.reset_for_era(Era::Legacy);
            self.probe_crash_uptime = Some(since.elapsed());
            if self.start_waiter.is_some() {
                return ServeOutcome::RestartNow;
            }
        }
        ServeOutcome::Ended(ended, None)
    }

    /// Waits for the exit of a process that has closed a pipe, which nearly always follows immediately, and kills a
    /// process that keeps running. Returns early if a command arrives meanwhile.
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
        // An `initialize` as a probe would use up the only handshake of the process, which the first client needs. So
        // the process counts as ready when it has run much longer than the previous one did: if the cause was not the
        // probe, it would have ended again by then.
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
