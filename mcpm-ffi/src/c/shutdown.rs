//! Shuts down all workloads, proxies and threads of mcpm in the process, and returns the version of mcpm.

use std::ffi::c_char;

use super::{
    error::{CError, Status},
    handle::{self, Owned},
};
use crate::executor;

/// Stops all workloads and proxies of the process, and mcpm's threads; starts in progress are rolled back.
///
/// Call it before the process exits; otherwise running workloads are left behind. Handles must still be freed. A
/// later start creates new threads. If workloads could not be stopped, returns the status of the first failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_shutdown(error: *mut *mut Owned<CError>) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            Ok(executor::shutdown()?)
        })
    }
}

/// Returns the version of the library. The string must not be freed.
#[unsafe(no_mangle)]
pub extern "C" fn mcpm_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
