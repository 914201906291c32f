//! Starts recorded workloads again.

use super::{Launch, RunningWorkload, Workloads};
use crate::Result;

impl Workloads {
    /// Prepares to start a workload again from its record, for example after a stop or an exit. Its secrets are read now.
    ///
    /// # Errors
    /// As for [`secrets`](Self::secrets).
    pub async fn launch(&self, name: &str) -> Result<Launch> {
        let secrets = self.secrets(name).await?;
        Ok(Launch::new(self.spec(name)?, self.environment.clone()).secrets(secrets).recorded())
    }

    /// Starts a workload again in this process, with the options on its record, and returns once clients can connect.
    /// Containers that a killed process has left running are stopped first.
    ///
    /// # Errors
    /// `NotFound` for the workload and for missing secrets; `NameTaken` when it is running; those of
    /// [`Launch::start`].
    pub async fn start(&self, name: &str) -> Result<RunningWorkload> {
        // Boxed, since they are large.
        Box::pin(Box::pin(self.launch(name)).await?.start()).await
    }
}
