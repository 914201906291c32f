//! Runs a stdio server as an ordinary process of this machine.

use std::{ffi::OsString, process::Stdio, time::Duration};

use async_trait::async_trait;
use tokio::process::{Child, Command};

use super::process::{Process, ProcessControl, ProcessExit, ProcessOutput, Spawn};
use crate::{
    Error, ErrorKind, Result,
    platform::{Signal, exit_code, signal_process},
    runtime::Exit,
};

/// Starts a program of this machine as a stdio server, without isolation.
///
/// The server inherits the standard error of this process.
#[derive(Debug, Clone)]
pub struct LocalProcess {
    program: OsString,
    args: Vec<OsString>,
}

impl LocalProcess {
    /// Sets the program, which is searched on `PATH`, and its arguments.
    pub fn new(program: impl Into<OsString>, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self { program: program.into(), args: args.into_iter().map(Into::into).collect() }
    }
}

#[async_trait]
impl Spawn for LocalProcess {
    async fn spawn(&self, _slot: usize) -> Result<Process> {
        let failed = |error| {
            let message = format!("cannot start `{}`", self.program.display());
            Error::new(ErrorKind::StartFailed, message).source(error)
        };
        let mut child = Command::new(&self.program)
            .args(&self.args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let lost = || failed(std::io::ErrorKind::BrokenPipe.into());
        Ok(Process {
            stdin: Box::new(child.stdin.take().ok_or_else(lost)?),
            stdout: ProcessOutput::Pipe(Box::new(child.stdout.take().ok_or_else(lost)?)),
            control: Box::new(LocalControl(child)),
        })
    }
}

#[derive(Debug)]
struct LocalControl(Child);

#[async_trait]
impl ProcessControl for LocalControl {
    async fn wait(&mut self) -> ProcessExit {
        match self.0.wait().await {
            Ok(status) => {
                let code = exit_code(status);
                let exit = Exit::with_code(code);
                ProcessExit { exit: Some(exit), reason: format!("exited with code {code}"), transient: false }
            }
            Err(error) => ProcessExit {
                exit: None,
                reason: format!("can no longer be observed: {error}"),
                transient: false,
            },
        }
    }

    async fn stop(&mut self, grace: Duration) {
        // Most servers exit when their input ends, so the signal is sent only to those that do not.
        let by_itself = grace / 2;
        if tokio::time::timeout(by_itself, self.0.wait()).await.is_ok() {
            return;
        }
        if let Some(pid) = self.0.id()
            && let Err(error) = signal_process(pid, Signal::TERM)
        {
            tracing::debug!(%error, "cannot signal the server: it has ended");
        }
        if tokio::time::timeout(grace - by_itself, self.0.wait()).await.is_err()
            && let Err(error) = self.0.kill().await
        {
            tracing::warn!(%error, "cannot kill the server");
        }
    }
}
