//! What to say of a workload, given what is recorded and what can be seen now.
//!
//! The supervisor and the engine can each be killed without a word, so the record alone is not to be believed.
//! This decides and does not look: the caller brings the state of the lock and of the container.

use serde::Serialize;

use super::status::{Phase, Status};
use crate::name::WorkloadName;

/// What the engine says of the container of a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerView {
    /// The workload is a remote server and has no container.
    NotUsed,
    /// Its process lives.
    Running,
    /// It exists and does not run; with its exit code, if it ever ran.
    Exited(Option<i64>),
    /// The engine knows no such container.
    Gone,
    /// The engine cannot be asked, with the reason.
    Unreachable(String),
}

/// The state of a workload as `list` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadState {
    /// On its way to its first answer.
    Starting,
    /// Answering.
    Running,
    /// Its server ended and is being started again.
    Restarting,
    /// On its way down, as asked.
    Stopping,
    /// Down, as asked.
    Stopped,
    /// Down for a reason that nobody asked for.
    Failed,
    /// Its container runs, and nobody supervises it or listens for it.
    Orphaned,
    /// The engine cannot be asked.
    Unknown,
}

impl WorkloadState {
    /// Returns the word that is printed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Restarting => "restarting",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Orphaned => "orphaned",
            Self::Unknown => "unknown",
        }
    }
}

/// What is true of a workload now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconciled {
    /// Its state.
    pub state: WorkloadState,
    /// Why it is so, and what to do about it.
    pub reason: Option<String>,
}

/// Weighs the last words of the supervisor against what can be seen now.
///
/// `supervisor_alive` is whether the lock is held, or the recorded process of a workload that is starting lives.
pub fn reconcile(
    name: &WorkloadName,
    recorded: &Status,
    supervisor_alive: bool,
    container: &ContainerView,
) -> Reconciled {
    match container {
        ContainerView::Unreachable(why) if !is_final(recorded.phase) => with_reason(
            WorkloadState::Unknown,
            format!("the engine does not answer ({why}); last known: {}", recorded.phase.as_str()),
        ),
        _ if supervisor_alive => supervised(recorded, container),
        ContainerView::Running => with_reason(
            WorkloadState::Orphaned,
            format!(
                "{}, its container still runs; {}",
                what_ended(recorded),
                what_to_do(name, recorded.phase)
            ),
        ),
        _ => unsupervised(name, recorded, container),
    }
}

/// A living supervisor is believed, except that it may not have seen yet how its container ended.
fn supervised(recorded: &Status, container: &ContainerView) -> Reconciled {
    let as_recorded = |shown| Reconciled { state: shown, reason: recorded.reason.clone() };
    match (recorded.phase, container) {
        (Phase::Running, ContainerView::Exited(code)) => {
            with_reason(WorkloadState::Restarting, format!("its container exited{}", with_code(*code)))
        }
        (Phase::Running, ContainerView::Gone) => {
            with_reason(WorkloadState::Restarting, "its container is gone".to_owned())
        }
        (Phase::Running, _) => as_recorded(WorkloadState::Running),
        (Phase::Starting, _) => as_recorded(WorkloadState::Starting),
        (Phase::Restarting, _) => as_recorded(WorkloadState::Restarting),
        (Phase::Stopping, _) | (Phase::Stopped, ContainerView::Running) => {
            as_recorded(WorkloadState::Stopping)
        }
        (Phase::Stopped, _) => as_recorded(WorkloadState::Stopped),
        (Phase::Failed, _) => as_recorded(WorkloadState::Failed),
    }
}

/// Without a supervisor and without a running container a workload is down; the record says whether that was asked.
fn unsupervised(name: &WorkloadName, recorded: &Status, container: &ContainerView) -> Reconciled {
    let as_recorded = |shown| Reconciled { state: shown, reason: recorded.reason.clone() };
    match recorded.phase {
        Phase::Stopped => as_recorded(WorkloadState::Stopped),
        Phase::Failed => as_recorded(WorkloadState::Failed),
        Phase::Stopping => with_reason(WorkloadState::Stopped, what_ended(recorded)),
        Phase::Starting | Phase::Running | Phase::Restarting => {
            let and_container = match container {
                ContainerView::Exited(code) => format!(", and its container exited{}", with_code(*code)),
                ContainerView::Gone if recorded.container.is_some() => {
                    ", and its container is gone".to_owned()
                }
                _ => String::new(),
            };
            with_reason(
                WorkloadState::Failed,
                format!("{}{and_container}; {}", what_ended(recorded), what_to_do(name, recorded.phase)),
            )
        }
    }
}

/// Tells whether nothing of ours changes the workload any more, so that the engine has nothing to add.
fn is_final(phase: Phase) -> bool {
    matches!(phase, Phase::Stopped | Phase::Failed)
}

fn with_reason(shown: WorkloadState, reason: String) -> Reconciled {
    Reconciled { state: shown, reason: Some(reason) }
}

fn what_ended(recorded: &Status) -> String {
    let pid = recorded.supervisor.map(|process| format!(" (pid {})", process.pid)).unwrap_or_default();
    let when = match recorded.phase {
        Phase::Starting => " before the workload was ready",
        Phase::Stopping => " before the workload was stopped",
        _ => "",
    };
    format!("its supervisor ended{pid}{when}")
}

fn what_to_do(name: &WorkloadName, phase: Phase) -> String {
    match phase {
        Phase::Stopping | Phase::Stopped => format!("run `mcpm stop {name}`"),
        _ => format!("run `mcpm restart {name}`"),
    }
}

fn with_code(code: Option<i64>) -> String {
    code.map(|code| format!(" (exit code {code})")).unwrap_or_default()
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
