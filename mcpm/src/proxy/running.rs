//! A proxy that listens, and how it is stopped.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{server_check::Passed, stack::Stack};
use crate::{
    Result,
    audit::Audit,
    explain::{self, DenialLog, Explanation},
    state::Phase,
    telemetry::Telemetry,
};

/// A proxy that listens. Dropping it stops it.
///
/// Unlike a workload it has no logs and no events, since it starts no server that could write, end or be started
/// again; what it refuses can be [explained](Self::explain). It cannot be detached: it is a task of this process and
/// nothing else, so whoever wants it to go on keeps the handle.
#[derive(Debug)]
pub struct RunningProxy {
    pub(super) name: String,
    pub(super) url: String,
    pub(super) address: SocketAddr,
    pub(super) warnings: Vec<String>,
    pub(super) recent: Arc<DenialLog>,
    pub(super) audit: Option<Arc<Audit>>,
    pub(super) stop: CancellationToken,
    pub(super) task: Mutex<Option<JoinHandle<()>>>,
    pub(super) telemetry: Option<Arc<Telemetry>>,
    /// The same task, to look at while somebody waits for its end.
    pub(super) listening: AbortHandle,
    /// Gone once the proxy has stopped.
    pub(super) stack: Weak<Stack>,
}

impl RunningProxy {
    /// Returns the name of the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns where clients find the server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the address the proxy listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns what the start warned of, such as that callers are not authenticated, or that an option has no effect. The
    /// same is in the log.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Checks with one MCP exchange whether the target is an MCP server, and returns what there is to say of one that
    /// passes, such as that it asks for a login.
    ///
    /// The proxy needs no target that is up, so this is not part of the start.
    ///
    /// # Errors
    /// `StartFailed` says what was found instead.
    pub async fn check(&self) -> Result<Option<String>> {
        let Some(stack) = self.stack.upgrade() else { return Ok(None) };
        match stack.check().await {
            Ok(Passed::Mcp) => Ok(None),
            Ok(Passed::NeedsLogin(status)) => {
                Ok(Some(format!("the target asks for a login ({})", status.as_u16())))
            }
            Ok(Passed::Redirects(to)) => {
                Ok(Some(format!("the target redirects to `{to}`, where clients may go past the proxy")))
            }
            Err(finding) => Err(finding.error("the target")),
        }
    }

    /// Explains the id of a reason, or of one of the last 256 refusals of this proxy.
    ///
    /// # Errors
    /// `NotFound` for an id that is neither.
    pub fn explain(&self, id: &str) -> Result<Explanation> {
        explain::explain_in(id, &self.recent)
    }

    /// Returns where it is in its life, in the words of a workload.
    ///
    /// It is `Running` as long as it listens, whether or not its target answers; of that `/health` tells. It is
    /// `Stopping` while answers under way finish.
    pub fn status(&self) -> Phase {
        match (self.stop.is_cancelled(), self.listening.is_finished()) {
            (false, false) => Phase::Running,
            (true, false) => Phase::Stopping,
            // Also when its runtime was shut down.
            (_, true) => Phase::Stopped,
        }
    }

    /// Tells whether the proxy still listens.
    pub fn is_running(&self) -> bool {
        self.status() == Phase::Running
    }

    /// Stops listening and lets answers under way finish for up to 2 s; then sends the last telemetry, for up to 3 s.
    pub async fn stop(&self) {
        self.stop.cancel();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // A listener that panicked listens no more.
            let _ = task.await;
        }
        self.flush().await;
        if let Some(telemetry) = &self.telemetry {
            telemetry.stop().await;
        }
    }

    /// Waits until what was recorded is written: what a server does on its way down is, too.
    pub(crate) async fn flush(&self) {
        if let Some(audit) = &self.audit {
            audit.flush().await;
        }
        self.recent.flush().await;
    }

    /// Waits until the proxy was stopped.
    pub async fn wait(&self) {
        self.stop.cancelled().await;
    }
}

impl Drop for RunningProxy {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
