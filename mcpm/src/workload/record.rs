//! Records the status of a running workload, and reports its changes as events.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use tokio::sync::watch;

use super::{WorkloadEvent, WorkloadName, events::WorkloadEvents};
use crate::{
    Result,
    runtime::Exit,
    state::{Document, LoginState, Phase, Status, Store},
    stdio::{ProcessExit, ServerEvent},
};

/// Minimum interval between two writes of remarks (the reason and the login state), which callers and servers can
/// change with each request.
const REMARK_PAUSE: Duration = Duration::from_secs(2);

/// The record of one workload.
#[derive(Debug)]
pub(super) struct Record {
    store: Store,
    name: WorkloadName,
    status: Mutex<Status>,
    /// Held while the status is written, so that an older one cannot replace a newer one.
    writing: Mutex<()>,
    remarks: Mutex<Remarks>,
    pub(super) events: WorkloadEvents,
    /// Why the workload has ended, once it has.
    ended: watch::Sender<Option<ProcessExit>>,
}

/// Which remarks have been written to the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remarks {
    /// All remarks are written, and the last write was not recent.
    Written,
    /// All remarks are written; a task waits until [`REMARK_PAUSE`] has passed since the last write.
    WrittenLately,
    /// Another remark has been made since the last write; the waiting task writes it.
    Waiting,
}

impl Record {
    /// Creates the record of a workload that is starting.
    pub(super) fn begin(store: Store, name: WorkloadName, events: WorkloadEvents) -> Result<Self> {
        let mut status = Status::starting(SystemTime::now());
        if let Ok(before) = store.load::<Status>(&name, Document::Status) {
            status.created_at = before.created_at;
        }
        store.save(&name, Document::Status, &status)?;
        Ok(Self {
            store,
            name,
            status: Mutex::new(status),
            writing: Mutex::default(),
            remarks: Mutex::new(Remarks::Written),
            events,
            ended: watch::Sender::new(None),
        })
    }

    /// Returns the recorded status.
    pub(super) fn status(&self) -> Status {
        self.lock().clone()
    }

    /// Changes the record.
    pub(super) fn update(&self, phase: Phase, reason: Option<String>, change: impl FnOnce(&mut Status)) {
        {
            let mut status = self.lock();
            status.enter(phase, reason, SystemTime::now());
            change(&mut status);
        }
        self.write(|_| true);
    }

    /// Writes the current status, if `is_wanted` still accepts it.
    fn write(&self, is_wanted: impl FnOnce(&Status) -> bool) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let status = self.status();
        if is_wanted(&status)
            && let Err(error) = self.store.save(&self.name, Document::Status, &status)
        {
            tracing::warn!(%error, "the status could not be recorded");
        }
    }

    /// Records a problem of a running workload, or that the problem is resolved. The remark is written on another
    /// thread, at most once per [`REMARK_PAUSE`]; the last remark is always written. Must be called within an async
    /// runtime.
    pub(super) fn set_reason(self: &Arc<Self>, reason: Option<String>) {
        {
            let mut status = self.lock();
            if status.phase != Phase::Running || status.reason == reason {
                return;
            }
            status.enter(Phase::Running, reason, SystemTime::now());
        }
        self.write_soon();
    }

    /// Records the state of the login to the remote server. It is written in the same way as by
    /// [`set_reason`](Self::set_reason).
    pub(super) fn set_login(self: &Arc<Self>, login: Option<LoginState>) {
        if std::mem::replace(&mut self.lock().login, login) == login {
            return;
        }
        if let Some(state) = login {
            self.events.emit(WorkloadEvent::LoginChanged { state });
        }
        self.write_soon();
    }

    fn write_soon(self: &Arc<Self>) {
        let before = std::mem::replace(&mut *self.remarks(), Remarks::Waiting);
        if before == Remarks::Written {
            tokio::spawn(Arc::clone(self).write_remarks());
        }
    }

    async fn write_remarks(self: Arc<Self>) {
        loop {
            *self.remarks() = Remarks::WrittenLately;
            let record = Arc::clone(&self);
            // A change of the phase writes the status, and may remove the record afterwards.
            let written = tokio::task::spawn_blocking(move || {
                record.write(|status| status.phase == Phase::Running);
            });
            if written.await.is_err() {
                tracing::warn!("the status could not be recorded");
            }
            tokio::time::sleep(REMARK_PAUSE).await;
            let mut remarks = self.remarks();
            if *remarks == Remarks::WrittenLately {
                *remarks = Remarks::Written;
                return;
            }
        }
    }

    fn remarks(&self) -> MutexGuard<'_, Remarks> {
        // No code panics while it holds the lock.
        self.remarks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports a warning.
    pub(super) fn warn(&self, message: String) {
        tracing::warn!("{message}");
        self.events.emit(WorkloadEvent::Warning { message });
    }

    /// Records an event of the server.
    pub(super) fn on_event(self: &Arc<Self>, event: ServerEvent) {
        match event {
            ServerEvent::Ready => {
                if self.lock().phase == Phase::Restarting {
                    self.update(Phase::Running, None, |_| {});
                    self.events.emit(WorkloadEvent::Recovered {});
                }
            }
            ServerEvent::Restarting { ended, attempt, delay } => {
                let code = code_of(&ended);
                self.update(Phase::Restarting, Some(format!("the server {}", ended.reason)), |status| {
                    status.restarts += 1;
                    status.exit_code = code.or(status.exit_code);
                });
                let delay_ms = millis(delay);
                let event = WorkloadEvent::Restarting { reason: ended.reason, attempt, delay_ms };
                self.events.emit_exit(event, code);
            }
            ServerEvent::ProcessRestarting { process, ended, attempt, delay } => {
                let (code, reason, delay_ms) = (code_of(&ended), ended.reason, millis(delay));
                let event = WorkloadEvent::ProcessRestarting { process, reason, attempt, delay_ms };
                self.events.emit_exit(event, code);
            }
            ServerEvent::ProcessReady { process } => {
                self.events.emit(WorkloadEvent::ProcessReady { process });
            }
            ServerEvent::ProcessEnded { process, ended } => {
                let code = code_of(&ended);
                self.events.emit_exit(WorkloadEvent::ProcessEnded { process, reason: ended.reason }, code);
            }
            ServerEvent::EngineLost { reason } => {
                let message = format!(
                    "the container engine does not respond; the server may still be running: {reason}"
                );
                self.set_reason(Some(message.clone()));
                self.warn(message);
            }
            ServerEvent::EngineBack => self.set_reason(None),
            ServerEvent::Ended(ended) => {
                let code = code_of(&ended);
                self.update(Phase::Failed, Some(format!("the server {}", ended.reason)), |status| {
                    status.exit_code = code;
                });
                self.finish(ended);
            }
        }
    }

    /// Records the end of the workload.
    pub(super) fn finish(&self, ended: ProcessExit) {
        let exit_code = code_of(&ended);
        let event = WorkloadEvent::Ended { reason: ended.reason.clone(), exit_code };
        self.events.emit_exit(event, exit_code);
        self.ended.send_if_modified(|over| {
            let first = over.is_none();
            over.get_or_insert(ended);
            first
        });
    }

    /// Waits until the workload has ended.
    pub(super) async fn wait_for_end(&self) -> ProcessExit {
        let mut over = self.ended.subscribe();
        match over.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone(),
            Err(_) => None,
        }
        // The sender is in `self`, so the channel cannot be closed.
        .unwrap_or_else(|| ProcessExit {
            exit: None,
            reason: "was stopped".to_owned(),
            transient: false,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Status> {
        // No code panics while it holds the lock.
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn millis(delay: Duration) -> u64 {
    u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)
}

fn code_of(ended: &ProcessExit) -> Option<i64> {
    ended.exit.map(|Exit { code, .. }| code)
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
