//! Where a workload or a proxy is in its life, for C.

use mcpm::state::Phase;

/// Where a workload or a proxy is in its life. The numbers never change.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CPhase {
    /// On its way to its first answer.
    Starting = 0,
    /// Answering.
    Running = 1,
    /// Its server ended and is being started again.
    Restarting = 2,
    /// On its way down, as asked.
    Stopping = 3,
    /// Down, as asked.
    Stopped = 4,
    /// Down for a reason that nobody asked for.
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
