//! Determines the current state of a workload from the recorded status and the observed facts.
//!
//! The supervisor and the engine can be killed at any time, so the recorded status alone is not reliable. This
//! module only decides: the caller supplies the state of the lock and of the container.

use serde::Serialize;

use super::status::{Phase, Status};
use crate::name::WorkloadName;

/// The state of a workload's container, as the engine reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContainerView {
    /// The workload is a remote server and has no container.
    NotUsed,
    /// The container is running.
    Running,
    /// The container exists and is not running; with its exit code, if it ever ran.
    Exited(Option<i64>),
    /// The container does not exist.
    Gone,
    /// The engine cannot be reached, for this reason.
    Unreachable(String),
}

/// The current state of a workload, as `list` shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadState {
    /// Starting; not ready yet.
    Starting,
    /// Ready for requests.
    Running,
    /// The server exited and is being restarted.
    Restarting,
    /// Stopping on request.
    Stopping,
    /// Stopped on request.
    Stopped,
    /// Ended without a request to stop.
    Failed,
    /// The container is running, but there is no supervisor and no proxy.
    Orphaned,
    /// The engine cannot be reached.
    Unknown,
}

impl WorkloadState {
    /// Returns the name that is printed.
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

/// The current state of a workload, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconciled {
    /// The state.
    pub state: WorkloadState,
    /// The reason, and what to do about it.
    pub reason: Option<String>,
}

/// Combines the recorded status with the observed facts.
///
/// `supervisor_alive` is whether the lock is held or, while the workload is starting, whether the recorded process
/// is alive.
pub fn reconcile(
    name: &WorkloadName,
    recorded: &Status,
    supervisor_alive: bool,
    container: &ContainerView,
) -> Reconciled {
    match container {
        ContainerView::Unreachable(why) if !is_final(recorded.phase) => with_reason(
            WorkloadState::Unknown,
            format!("the engine does not respond ({why}); last known state: {}", recorded.phase.as_str()),
        ),
        _ if supervisor_alive => supervised(recorded, container),
        ContainerView::Running => with_reason(
            WorkloadState::Orphaned,
            format!(
                "{}, but its container is still running; {}",
                what_ended(recorded),
                what_to_do(name, recorded.phase)
            ),
        ),
        _ => unsupervised(name, recorded, container),
    }
}

/// If the supervisor is alive, its recorded status applies, except that it may not have noticed yet that the container
/// has exited.
fn supervised(recorded: &Status, container: &ContainerView) -> Reconciled {
    let as_recorded = |shown| Reconciled { state: shown, reason: recorded.reason.clone() };
    match (recorded.phase, container) {
        (Phase::Running, ContainerView::Exited(code)) => {
            with_reason(WorkloadState::Restarting, format!("its container exited{}", with_code(*code)))
        }
        (Phase::Running, ContainerView::Gone) => {
            with_reason(WorkloadState::Restarting, "its container no longer exists".to_owned())
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

/// Without a supervisor and a running container, a workload has stopped or failed, depending on whether a stop was
/// requested.
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
                    ", and its container no longer exists".to_owned()
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

/// Whether the state no longer changes, so that the engine need not be queried.
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
