//! Stdio servers: processes that are supervised, and multiplexed among clients.
//!
//! [`process_pool`] starts, restarts and ends processes, [`lines`] moves lines between a process's pipes and its
//! [`mux`], which assigns each response to its caller, and [`router`] selects the process that serves a client. The
//! proxy's bridge connects them to HTTP. A translation between protocol eras belongs between the bridge and the
//! multiplexer.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use tokio::io::{AsyncRead, AsyncWrite};

pub use local::LocalProcess;
pub use process_pool::ServerEvent;
pub use restart::RestartPolicy;

use crate::{Result, runtime::Exit};

pub(crate) mod handshake;
pub(crate) mod id_scan;
pub(crate) mod lines;
mod local;
pub(crate) mod mux;
pub(crate) mod owner;
pub(crate) mod process_pool;
#[cfg(test)]
mod process_pool_tests;
pub(crate) mod replay_stream;
pub(crate) mod restart;
pub(crate) mod router;
pub(crate) mod session;

/// Starts processes of one stdio server.
#[async_trait]
pub trait Spawn: Send + Sync + fmt::Debug {
    /// Starts a process. `slot` counts from 0 and names the process: a later one of the same slot takes the
    /// place of the one before, which has ended.
    async fn spawn(&self, slot: usize) -> Result<Process>;
}

/// A running process of a stdio server.
pub struct Process {
    /// Its standard input.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its standard output.
    pub stdout: ProcessOutput,
    /// What ends it and tells how it ended.
    pub control: Box<dyn ProcessControl>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Process(..)")
    }
}

/// A process's standard output.
pub enum ProcessOutput {
    /// A pipe of this machine.
    Pipe(Box<dyn AsyncRead + Send + Unpin>),
    /// Pieces that an engine hands over.
    Chunks(BoxStream<'static, Result<Bytes>>),
}

impl fmt::Debug for ProcessOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pipe(_) => "Pipe",
            Self::Chunks(_) => "Pieces",
        })
    }
}

/// Ends a process and tells how it ended.
#[async_trait]
pub trait ProcessControl: Send {
    /// Waits until the process has ended.
    async fn wait(&mut self) -> ProcessExit;

    /// Waits a part of `grace` for the process, whose input is being closed, then asks it to end, and kills it
    /// after the rest.
    async fn stop(&mut self, grace: Duration);
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessExit {
    /// Its exit code, when that is known.
    pub exit: Option<Exit>,
    /// A sentence fragment for people, with the last lines it wrote, such as "exited with code 3".
    pub reason: String,
    /// Whether the fault lies outside the server and will pass, as when an engine restarts.
    pub transient: bool,
}
