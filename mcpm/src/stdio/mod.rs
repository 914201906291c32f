//! Stdio servers: their processes are supervised, and multiplexed among clients.
//!
//! [`process_pool`] starts and ends processes, [`process_supervisor`] restarts one, [`lines`] moves lines between a
//! process's pipes and its [`mux`], which assigns each response to its caller, and [`router`] selects the process that
//! serves a client. The proxy's bridge connects these components to HTTP. A translation between protocol eras would
//! belong between the bridge and the multiplexer.

pub(crate) mod handshake;
pub(crate) mod id_scan;
pub(crate) mod lines;
mod local;
pub(crate) mod mux;
pub(crate) mod owner;
mod process;
pub(crate) mod process_pool;
#[cfg(test)]
mod process_pool_tests;
mod process_supervisor;
pub(crate) mod replay_stream;
pub(crate) mod restart;
pub(crate) mod router;
mod server_event;
pub(crate) mod session;

pub(crate) use server_event::OnEvent;
pub use {
    local::LocalProcess,
    process::{Process, ProcessControl, ProcessExit, ProcessOutput, Spawn},
    restart::RestartPolicy,
    server_event::ServerEvent,
};
