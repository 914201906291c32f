//! How a server is reached: over the pipe of a process, or over HTTP.
//!
//! A transport moves bytes and knows nothing of who may call what. For a stdio server, [`keeper`] keeps
//! processes alive and [`stdio`] moves lines between a process and its lane; [`http`] is the client side of a
//! forwarded request.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use tokio::io::{AsyncRead, AsyncWrite};

pub use keeper::ServerEvent;
pub use local::LocalProcess;
pub use restart::RestartPolicy;

use crate::{Result, runtime::Exit};

pub(crate) mod body;
pub(crate) mod client_body;
pub(crate) mod http;
pub(crate) mod keeper;
#[cfg(test)]
mod keeper_tests;
mod local;
pub(crate) mod restart;
pub(crate) mod stdio;
pub(crate) mod tls;

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
    pub stdout: Output,
    /// What ends it and tells how it ended.
    pub control: Box<dyn Control>,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Process(..)")
    }
}

/// A process's standard output.
pub enum Output {
    /// A pipe of this machine.
    Pipe(Box<dyn AsyncRead + Send + Unpin>),
    /// Pieces that an engine hands over.
    Pieces(BoxStream<'static, Result<Bytes>>),
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pipe(_) => "Pipe",
            Self::Pieces(_) => "Pieces",
        })
    }
}

/// Ends a process and tells how it ended.
#[async_trait]
pub trait Control: Send {
    /// Waits until the process has ended.
    async fn wait(&mut self) -> Ended;

    /// Waits a part of `grace` for the process, whose input is being closed, then asks it to end, and kills it
    /// after the rest.
    async fn stop(&mut self, grace: Duration);
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code, when that is known.
    pub exit: Option<Exit>,
    /// A sentence fragment for people, with the last lines it wrote, such as "exited with code 3".
    pub reason: String,
    /// Whether the fault lies outside the server and will pass, as when an engine restarts.
    pub passing: bool,
}
