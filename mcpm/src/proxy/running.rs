//! The handle of a running proxy.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use http::StatusCode;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{
    check_outcome::Passed,
    in_process::{InProcessConnection, InProcessEndpoint},
    target::{SSE_PATH, Target},
};
use crate::{
    Error, ErrorKind, Result,
    audit::Audit,
    explain::{self, DenialLog, Explanation},
    state::Phase,
    telemetry::Telemetry,
};

/// A running proxy. Dropping it stops it.
///
/// Unlike a workload, it has no logs and no events, because it starts no server; its denials can be
/// [explained](Self::explain). It cannot be detached: it is a task of this process, so keep the handle as long as
/// it should run.
#[derive(Debug)]
pub struct RunningProxy {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) address: Option<SocketAddr>,
    pub(super) warnings: Vec<String>,
    pub(super) recent: Arc<DenialLog>,
    pub(super) audit: Option<Arc<Audit>>,
    pub(super) stop: CancellationToken,
    pub(super) task: Mutex<Option<JoinHandle<()>>>,
    pub(super) telemetry: Option<Arc<Telemetry>>,
    /// The same task, to query it while another caller waits for its end.
    pub(super) listening: AbortHandle,
    pub(super) in_process: InProcessEndpoint,
}

impl RunningProxy {
    /// Returns the name of the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the URL for clients; empty for a proxy that only its own process can use.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the address that the proxy listens on; `None` for a proxy that only its own process can use.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the warnings of the start, for example that callers are not authenticated, or that an option has no
    /// effect. They are also logged.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Checks with one MCP exchange whether the target is an MCP server. If the target passes, returns a remark about
    /// it, if there is one, for example that it requires a login.
    ///
    /// The target does not have to be up when the proxy starts, so the start does not include this check.
    ///
    /// # Errors
    /// `StartFailed` describes what was found instead.
    pub async fn check(&self) -> Result<Option<String>> {
        let Some(stack) = self.in_process.stack() else { return Ok(None) };
        match stack.check().await {
            Ok(Passed::Mcp) => Ok(None),
            Ok(Passed::NeedsLogin(status)) => {
                let verb = if status == StatusCode::UNAUTHORIZED { "requires" } else { "may require" };
                Ok(Some(format!("the target {verb} a login ({})", status.as_u16())))
            }
            Ok(Passed::Redirects(to)) => {
                Ok(Some(format!("the target redirects to `{to}`, so clients may bypass the proxy")))
            }
            Err(finding) => Err(finding.error("the target")),
        }
    }

    /// Explains a reason, or one of the last 256 denials of this proxy, by its id.
    ///
    /// # Errors
    /// `NotFound` for an unknown id.
    pub fn explain(&self, id: &str) -> Result<Explanation> {
        explain::explain_in(id, &self.recent)
    }

    /// Returns the phase of the proxy's life cycle.
    ///
    /// It is `Running` as long as the proxy listens, whether or not the target responds, which `/health` reports.
    /// It is `Stopping` while pending responses complete.
    pub fn status(&self) -> Phase {
        match (self.stop.is_cancelled(), self.listening.is_finished()) {
            (false, false) => Phase::Running,
            (true, false) => Phase::Stopping,
            // Also if its runtime was shut down.
            (_, true) => Phase::Stopped,
        }
    }

    /// Returns whether the proxy is listening.
    pub fn is_running(&self) -> bool {
        self.status() == Phase::Running
    }

    /// Stops listening, waits up to 2 s for pending responses, then sends pending telemetry for up to 3 s.
    pub async fn stop(&self) {
        self.stop.cancel();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // A listener that panicked has ended, too.
            let _ = task.await;
        }
        self.in_process.closed().await;
        self.flush().await;
        if let Some(telemetry) = &self.telemetry {
            telemetry.stop().await;
        }
    }

    /// Opens a connection from this process. Returns it with the target that its requests name, and whether that is the
    /// URL of the deprecated transport.
    ///
    /// # Errors
    /// `Upstream` if the proxy has stopped, or if too many connections are open.
    pub(crate) fn connect_in_process(&self) -> Result<(InProcessConnection, Target, bool)> {
        if !self.is_running() {
            return Err(Error::new(ErrorKind::Upstream, format!("the proxy of `{}` has stopped", self.name)));
        }
        let connection = self.in_process.connect()?;
        Ok((connection, self.in_process.target()?, self.in_process.path == SSE_PATH))
    }

    /// Returns the token that is cancelled when the proxy stops.
    pub(crate) fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Waits until audit events and denials are written, including those of the shutdown.
    pub(crate) async fn flush(&self) {
        if let Some(audit) = &self.audit {
            audit.flush().await;
        }
        self.recent.flush().await;
    }

    /// Waits until the proxy has stopped.
    pub async fn wait(&self) {
        self.stop.cancelled().await;
    }
}

impl Drop for RunningProxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
