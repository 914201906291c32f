//! Workloads: servers that mcpm runs and manages.

use crate::{
    Result,
    options::{OptionSet, WorkloadOptions},
};

/// Collects the options of a workload.
#[derive(Debug, Clone, Default)]
pub struct WorkloadBuilder {
    pub(crate) options: WorkloadOptions,
}

impl WorkloadBuilder {
    /// Returns what was asked, checked and with every declared default.
    ///
    /// # Errors
    /// Those of [`OptionSet::check`].
    pub fn build(self) -> Result<WorkloadOptions> {
        self.options.check()?;
        Ok(self.options.or(WorkloadOptions::defaults()))
    }
}

impl From<WorkloadOptions> for WorkloadBuilder {
    fn from(options: WorkloadOptions) -> Self {
        Self { options }
    }
}
