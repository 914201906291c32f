//! The builder of a workload.

use std::ffi::c_char;

use mcpm::options::WorkloadOptions;

use super::{
    builder::{self, Builder, Collected},
    error::{CError, Status},
    handle,
};

/// Collects the options of a workload.
#[derive(Debug, Default)]
pub struct WorkloadBuilder(Collected<WorkloadOptions>);

impl Builder for WorkloadBuilder {
    type Options = WorkloadOptions;

    fn collected(&self) -> &Collected<WorkloadOptions> {
        &self.0
    }

    fn collected_mut(&mut self) -> &mut Collected<WorkloadOptions> {
        &mut self.0
    }
}

/// Returns a builder without options; free it with `mcpm_workload_builder_free`.
#[unsafe(no_mangle)]
pub extern "C" fn mcpm_workload_builder_new() -> *mut WorkloadBuilder {
    handle::give(WorkloadBuilder::default())
}

/// Sets the option of that name, such as `proxy-port`, from a text as on a command line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_set(
    builder: *mut WorkloadBuilder,
    name: *const c_char,
    value: *const c_char,
) {
    // SAFETY: the conventions in the header.
    unsafe {
        builder::set(builder, |options| {
            let name = handle::text(name, "name")?;
            Ok(mcpm::options::OptionSet::set(options, name, handle::text(value, name)?)?)
        });
    }
}

/// Tells the first value that was refused, or what is wrong with the options together; starts nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_check(
    builder: *const WorkloadBuilder,
    error: *mut *mut CError,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe { builder::check(builder, error) }
}

/// Frees a builder; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_free(builder: *mut WorkloadBuilder) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free(builder) }
}
