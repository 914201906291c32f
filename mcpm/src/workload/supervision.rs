//! Stops the supervisors of workloads, and lists the workloads that were interrupted, for example by a shutdown.

use std::time::Duration;

use super::{WorkloadName, WorkloadSpec, Workloads, stop_request::StopRequest};
use crate::{
    Error, ErrorKind, Result,
    options::RestartMode,
    state::{Document, FORMAT_VERSION, Lock, Phase, ProcessId, Status},
};

/// How much longer than the server's grace period a supervisor may take to exit.
const SUPERVISOR_GRACE: Duration = Duration::from_secs(10);

impl Workloads {
    /// Returns the names of the workloads that ran when their supervisor was ended by something other than mcpm, such
    /// as a shutdown of the machine, and that do not run now. Workloads that must never be restarted are left out.
    ///
    /// # Errors
    /// `Io` when the records cannot be read. A damaged record is passed over.
    pub fn interrupted(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for name in self.names()? {
            let Ok(status) = self.store.load::<Status>(&name, Document::Status) else { continue };
            let ran = matches!(status.phase, Phase::Starting | Phase::Running | Phase::Restarting);
            // Only supervisors write a log. A workload of an embedding program, or in the foreground, must not be
            // started in the background.
            let was_supervised = self.store.log_path(&name).exists();
            if (ran || status.interrupted)
                && was_supervised
                && self.may_restart(&name)
                && Lock::holder(&self.store.lock_path(&name))?.is_none()
            {
                names.push(name.to_string());
            }
        }
        Ok(names)
    }

    /// Whether the server of a workload may be started again without a request of the user. For a workload with a
    /// damaged record this is true: its start fails with a message.
    fn may_restart(&self, name: &WorkloadName) -> bool {
        let spec = self.store.load::<WorkloadSpec>(name, Document::Spec);
        spec.map_or(true, |spec| spec.restart_mode() != RestartMode::No)
    }

    /// Records that a workload was interrupted, so that [`interrupted`](Self::interrupted) lists it again after its
    /// start has failed.
    ///
    /// # Errors
    /// `NotFound`; `NameTaken` if the workload runs or is being started; `CorruptState` or `Io` when the record cannot be
    /// changed.
    pub fn mark_interrupted(&self, name: &str) -> Result<()> {
        let name = self.find(name)?;
        let _lock = Lock::acquire(&self.store.lock_path(&name))?;
        let mut status: Status = self.store.load(&name, Document::Status)?;
        status.interrupted = true;
        self.store.save(&name, Document::Status, &status)
    }

    /// Returns the grace period with which this process, as the supervisor of a workload, was told to stop; `None` if
    /// the signal came from something other than mcpm.
    pub fn requested_grace(&self, name: &str) -> Option<Duration> {
        let request: StopRequest = self.store.load(&name.parse().ok()?, Document::Stop).ok()?;
        let is_own = request.supervisor == ProcessId::current();
        is_own.then(|| Duration::from_millis(request.grace_ms))
    }

    /// Stops the supervisor of a workload, if it runs.
    pub(super) async fn end_supervisor(
        &self,
        name: &WorkloadName,
        grace: Duration,
        restarted_by: Option<ProcessId>,
    ) -> Result<()> {
        let Some(holder) = Lock::holder(&self.store.lock_path(name))? else { return Ok(()) };
        let Some(process) = holder.process else { return Ok(()) };
        if process == ProcessId::current() {
            return Err(Error::new(ErrorKind::InvalidOption, format!("`{name}` runs in this process"))
                .hint("call `stop` on its handle"));
        }
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        let request = StopRequest { version: FORMAT_VERSION, supervisor: process, grace_ms, restarted_by };
        if let Err(error) = self.store.save(name, Document::Stop, &request) {
            tracing::warn!(%error, "cannot pass the grace period to the supervisor, so the default grace \
                period applies");
        }
        if process.terminate()? && !process.wait_exit(grace + SUPERVISOR_GRACE).await {
            process.kill()?;
            process.wait_exit(SUPERVISOR_GRACE).await;
        }
        Ok(())
    }
}
