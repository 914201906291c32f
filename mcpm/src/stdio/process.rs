//! A process of a stdio server, and the trait that starts it.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{Result, runtime::Exit};

/// Starts processes of one stdio server.
#[async_trait]
pub trait Spawn: Send + Sync + fmt::Debug {
    /// Starts a process. `slot` is its number among the server's processes, from 0; a slot is used again when its
    /// process has ended.
    async fn spawn(&self, slot: usize) -> Result<Process>;
}

/// A running process of a stdio server.
pub struct Process {
    /// The standard input of the process.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// The standard output of the process.
    pub stdout: ProcessOutput,
    /// Ends the process, and reports how it ended.
    pub control: Box<dyn ProcessControl>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Process(..)")
    }
}

/// The standard output of a process.
pub enum ProcessOutput {
    /// A pipe of this machine.
    Pipe(Box<dyn AsyncRead + Send + Unpin>),
    /// Chunks that a container engine delivers.
    Chunks(BoxStream<'static, Result<Bytes>>),
}

impl fmt::Debug for ProcessOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pipe(_) => "Pipe",
            Self::Chunks(_) => "Chunks",
        })
    }
}

/// Ends a process, and reports how it ended.
#[async_trait]
pub trait ProcessControl: Send {
    /// Waits until the process has ended.
    async fn wait(&mut self) -> ProcessExit;

    /// Ends the process, whose input is being closed: waits for a part of `grace`, then sends a termination signal, and
    /// kills the process when `grace` is over.
    async fn stop(&mut self, grace: Duration);
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessExit {
    /// The exit code, if it is known.
    pub exit: Option<Exit>,
    /// A sentence fragment for messages, such as "exited with code 3", with the last lines of the output.
    pub reason: String,
    /// Whether the cause is outside of the server and temporary, such as a restart of the engine.
    pub transient: bool,
}
