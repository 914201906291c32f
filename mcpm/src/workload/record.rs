//! What is on record of a running workload, and who is told of changes.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use tokio::sync::watch;

use super::{WorkloadEvent, WorkloadName, events::Events};
use crate::{
    Result,
    runtime::Exit,
    state::{Document, Phase, Status, Store},
    transport::{Ended, ServerEvent},
};

/// The record of one workload.
#[derive(Debug)]
pub(super) struct Record {
    store: Store,
    name: WorkloadName,
    status: Mutex<Status>,
    pub(super) events: Events,
    /// Why it is over, once it is.
    over: watch::Sender<Option<Ended>>,
}

impl Record {
    /// Begins a record that says that the workload is starting.
    pub(super) fn begin(store: Store, name: WorkloadName, events: Events) -> Result<Self> {
        let mut status = Status::starting(SystemTime::now());
        if let Ok(before) = store.load::<Status>(&name, Document::Status) {
            status.created_at = before.created_at;
        }
        store.save(&name, Document::Status, &status)?;
        Ok(Self { store, name, status: Mutex::new(status), events, over: watch::Sender::new(None) })
    }

    /// What is on record now.
    pub(super) fn status(&self) -> Status {
        self.lock().clone()
    }

    /// Changes the record.
    pub(super) fn update(&self, phase: Phase, reason: Option<String>, change: impl FnOnce(&mut Status)) {
        let mut status = self.lock();
        status.enter(phase, reason, SystemTime::now());
        change(&mut status);
        if let Err(error) = self.store.save(&self.name, Document::Status, &*status) {
            tracing::warn!(%error, "the status could not be recorded");
        }
    }

    /// Says of a workload that runs what is not as it should be, or that all is well again.
    pub(super) fn remark(&self, reason: Option<String>) {
        if self.lock().phase == Phase::Running {
            self.update(Phase::Running, reason, |_| {});
        }
    }

    /// Tells the user something that stops nothing.
    pub(super) fn warn(&self, message: String) {
        tracing::warn!("{message}");
        self.events.tell(WorkloadEvent::Warning { message });
    }

    /// Takes what happened to the server.
    pub(super) fn on_event(&self, event: ServerEvent) {
        match event {
            ServerEvent::Ready => {
                if self.lock().phase == Phase::Restarting {
                    self.update(Phase::Running, None, |_| {});
                    self.events.tell(WorkloadEvent::Recovered {});
                }
            }
            ServerEvent::Restarting { ended, attempt, delay } => {
                let code = code_of(&ended);
                self.update(Phase::Restarting, Some(format!("the server {}", ended.reason)), |status| {
                    status.restarts += 1;
                    status.exit_code = code.or(status.exit_code);
                });
                let delay_ms = millis(delay);
                self.events.tell(WorkloadEvent::Restarting { reason: ended.reason, attempt, delay_ms });
            }
            ServerEvent::ProcessRestarting { process, ended, attempt, delay } => {
                let (reason, delay_ms) = (ended.reason, millis(delay));
                self.events.tell(WorkloadEvent::ProcessRestarting { process, reason, attempt, delay_ms });
            }
            ServerEvent::ProcessReady { process } => {
                self.events.tell(WorkloadEvent::ProcessReady { process });
            }
            ServerEvent::ProcessEnded { process, ended } => {
                self.events.tell(WorkloadEvent::ProcessEnded { process, reason: ended.reason });
            }
            ServerEvent::Ended(ended) => {
                let code = code_of(&ended);
                self.update(Phase::Failed, Some(format!("the server {}", ended.reason)), |status| {
                    status.exit_code = code;
                });
                self.finish(ended);
            }
        }
    }

    /// Says that the workload is over.
    pub(super) fn finish(&self, ended: Ended) {
        let exit_code = code_of(&ended);
        self.events.tell(WorkloadEvent::Ended { reason: ended.reason.clone(), exit_code });
        self.over.send_if_modified(|over| {
            let first = over.is_none();
            over.get_or_insert(ended);
            first
        });
    }

    /// Waits until the workload is over.
    pub(super) async fn over(&self) -> Ended {
        let mut over = self.over.subscribe();
        match over.wait_for(Option::is_some).await {
            Ok(ended) => ended.clone(),
            Err(_) => None,
        }
        // The sender lives in `self`, so there is always an end to wait for.
        .unwrap_or_else(|| Ended { exit: None, reason: "was stopped".to_owned(), passing: false })
    }

    fn lock(&self) -> MutexGuard<'_, Status> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn millis(delay: Duration) -> u64 {
    u64::try_from(delay.as_millis()).unwrap_or(u64::MAX)
}

fn code_of(ended: &Ended) -> Option<i64> {
    ended.exit.map(|Exit { code, .. }| code)
}
