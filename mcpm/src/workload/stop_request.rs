//! Defines the request that tells a supervisor how to stop, and determines which process runs a workload.

use serde::{Deserialize, Serialize};

use super::WorkloadName;
use crate::state::{Document, Lock, Phase, ProcessId, Status, Store};

/// The details that a supervisor reads when it receives the signal to stop.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StopRequest {
    pub(super) version: u32,
    /// The process that the signal is for; a later one ignores the request.
    pub(super) supervisor: ProcessId,
    pub(super) grace_ms: u64,
    /// The process that starts the workload again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) restarted_by: Option<ProcessId>,
}

/// Returns the process that has stopped a workload to start it again.
fn restarter(store: &Store, name: &WorkloadName) -> Option<ProcessId> {
    let request = store.load::<StopRequest>(name, Document::Stop).ok()?;
    request.restarted_by.filter(|process| process.is_alive())
}

/// Returns the process that supervises a workload, or that has stopped it to start it again.
pub(super) fn supervisor(store: &Store, name: &WorkloadName) -> Option<ProcessId> {
    restarter(store, name).or_else(|| {
        let holder = Lock::holder(&store.lock_path(name)).ok().flatten()?;
        // A holder that has not recorded itself yet will do so in a moment.
        Some(holder.process.unwrap_or_else(ProcessId::current))
    })
}

/// Returns the same as [`supervisor`] while the workload has not ended. After its end, a program may still hold the
/// lock.
pub(super) fn runner(store: &Store, name: &WorkloadName) -> Option<ProcessId> {
    let status = store.load::<Status>(name, Document::Status);
    let has_ended = status.is_ok_and(|status| matches!(status.phase, Phase::Stopped | Phase::Failed));
    if has_ended { restarter(store, name) } else { supervisor(store, name) }
}
