//! Exports the phase of a workload or a proxy to C.

use mcpm::state::Phase;

/// The phase of a workload's or a proxy's life cycle. The numbers never change.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CPhase {
    /// Starting; not ready yet.
    Starting = 0,
    /// Ready for requests.
    Running = 1,
    /// The server exited and is being restarted.
    Restarting = 2,
    /// Stopping on request.
    Stopping = 3,
    /// Stopped on request.
    Stopped = 4,
    /// Ended without a request to stop.
    Failed = 5,
}

impl From<Phase> for CPhase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Starting => Self::Starting,
            Phase::Running => Self::Running,
            Phase::Restarting => Self::Restarting,
            Phase::Stopping => Self::Stopping,
            Phase::Stopped => Self::Stopped,
            Phase::Failed => Self::Failed,
        }
    }
}
