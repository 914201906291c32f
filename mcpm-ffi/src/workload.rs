//! Workloads as Python and Swift see them.

use mcpm::options::{OptionSet as _, WorkloadOptions};

use crate::McpmError;

/// Checks what can be known from the options of a workload alone; starts nothing.
#[uniffi::export]
pub fn check_workload(options: WorkloadOptions) -> Result<(), McpmError> {
    Ok(options.check()?)
}
