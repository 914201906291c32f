//! What a supervisor is told when it is stopped, and whether a workload has ended.

use serde::{Deserialize, Serialize};

use super::WorkloadName;
use crate::state::{Document, Lock, Phase, ProcessId, Status, Store};

/// What a supervisor is told beside the signal to stop.
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

/// Returns the process that runs a workload, or that has stopped it to start it again; `None` if the workload has ended.
pub(super) fn runner(store: &Store, name: &WorkloadName) -> Option<ProcessId> {
    let request = store.load::<StopRequest>(name, Document::Stop).ok();
    if let Some(process) = request.and_then(|request| request.restarted_by).filter(|by| by.is_alive()) {
        return Some(process);
    }
    let holder = Lock::holder(&store.lock_path(name)).ok().flatten()?;
    let status = store.load::<Status>(name, Document::Status);
    let has_ended = status.is_ok_and(|status| matches!(status.phase, Phase::Stopped | Phase::Failed));
    // One that has not recorded itself yet does so in a moment.
    (!has_ended).then(|| holder.process.unwrap_or_else(ProcessId::current))
}
