//! Lifecycle events of a server.

use std::{sync::Arc, time::Duration};

use super::process::ProcessExit;

/// A change in the state of a server.
///
/// A stdio server can have several processes, which are numbered from 0. The server as a whole is ready as long as one
/// of its processes is ready, and has ended when no process is left.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerEvent {
    /// The server responds.
    Ready,
    /// The server ended, and is restarted after the delay.
    Restarting {
        /// How it ended.
        ended: ProcessExit,
        /// The number of this consecutive restart, from 1.
        attempt: u32,
        /// The time until the restart.
        delay: Duration,
    },
    /// The container engine does not respond. The server may keep running, and clients may still reach it.
    EngineLost {
        /// The error of the engine's client.
        reason: String,
    },
    /// The container engine responds again.
    EngineBack,
    /// The server ended, and is not restarted.
    Ended(ProcessExit),
    /// One of several processes ended, and is restarted after the delay, while another process is ready.
    ProcessRestarting {
        /// The number of the process.
        process: u32,
        /// How it ended.
        ended: ProcessExit,
        /// The number of this consecutive restart, from 1.
        attempt: u32,
        /// The time until the restart.
        delay: Duration,
    },
    /// One of several processes is ready, while another process was already ready.
    ProcessReady {
        /// The number of the process.
        process: u32,
    },
    /// One of several processes ended, and is not restarted, while other processes are left.
    ProcessEnded {
        /// The number of the process.
        process: u32,
        /// How it ended.
        ended: ProcessExit,
    },
}

/// A callback for the events of a server.
pub(crate) type OnEvent = Arc<dyn Fn(ServerEvent) + Send + Sync>;
