//! The end of everything.

use super::{
    error::{CError, Status},
    handle,
};
use crate::executor;

/// Ends every workload and proxy of the process, and the threads of mcpm; starts under way are undone.
///
/// Call it before the process ends, or workloads that still run stay behind. Handles are still to be freed. The
/// next start starts new threads. The status is that of the first workload that could not be ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_shutdown(error: *mut *mut CError) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            Ok(executor::shutdown()?)
        })
    }
}
