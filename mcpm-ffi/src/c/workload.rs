//! Workloads: the builder, and the handle of a running workload.

use std::{
    ffi::{CString, c_char},
    ptr,
    sync::Arc,
    time::Duration,
};

use mcpm::options::WorkloadOptions;

use super::{
    builder::{self, CBuilder, OptionCollector},
    error::{CError, Status},
    handle::{self, Out},
    phase::CPhase,
    prompt::CUserPrompt,
};
use crate::{executor, workload_handle::WorkloadHandle};

/// Collects the options of a workload.
#[derive(Debug, Default)]
pub struct WorkloadBuilder(OptionCollector<WorkloadOptions>);

impl CBuilder for WorkloadBuilder {
    type Options = WorkloadOptions;

    fn collector(&mut self) -> &mut OptionCollector<WorkloadOptions> {
        &mut self.0
    }
}

/// Creates a builder without options; free it with `mcpm_workload_builder_free`.
#[unsafe(no_mangle)]
pub extern "C" fn mcpm_workload_builder_new() -> *mut WorkloadBuilder {
    handle::into_raw(WorkloadBuilder::default())
}

/// Sets an option by name, such as `proxy-port`, with its value in text form, as on the command line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_set(
    builder: *mut WorkloadBuilder,
    name: *const c_char,
    value: *const c_char,
) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_named(builder, name, value) }
}

/// Sets the prompt, which prompts the user, for example to log in to a remote server, at the start and later. The
/// caller keeps its own, which must still be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_user_prompt(
    builder: *mut WorkloadBuilder,
    prompt: *const CUserPrompt,
) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_prompt(builder, prompt) }
}

/// Frees a builder; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_free(builder: *mut WorkloadBuilder) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free(builder) }
}

/// A started workload: an MCP server in a container, behind its own proxy.
#[derive(Debug)]
pub struct CWorkload {
    handle: Arc<WorkloadHandle>,
    name: CString,
    url: CString,
}

/// Starts a workload and waits until clients can connect.
///
/// Consumes the options of the builder, which must still be freed. Records and the engine are located by the
/// environment variables of the process, as by the command line. On success, `workload` is set to a handle; free
/// it with `mcpm_workload_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_start(
    builder: *mut WorkloadBuilder,
    workload: *mut *mut CWorkload,
    error: *mut *mut CError,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            let out = Out::new(workload, "workload")?;
            let (options, prompt) = builder::take(builder)?;
            let started = WorkloadHandle::start(options, prompt, drop);
            let held = executor::spawn_cancellable(started)?.block_on()?;
            let (name, url) = (handle::c_text(held.name()), handle::c_text(held.url()));
            out.put(handle::into_raw(CWorkload { handle: held, name, url }));
            Ok(())
        })
    }
}

/// Returns the name of a workload; valid as long as the handle. Null returns null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_name(workload: *const CWorkload) -> *const c_char {
    // SAFETY: the conventions in the header.
    unsafe { handle::as_ref(workload) }.map_or(ptr::null(), |workload| workload.name.as_ptr())
}

/// Returns the URL for clients; valid as long as the handle. Null returns null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_url(workload: *const CWorkload) -> *const c_char {
    // SAFETY: the conventions in the header.
    unsafe { handle::as_ref(workload) }.map_or(ptr::null(), |workload| workload.url.as_ptr())
}

/// Returns the phase of a workload.
///
/// `reason` is set to the reason, or to null if it is obvious; free it with `mcpm_string_free`. `reason` may be
/// null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_status(
    workload: *const CWorkload,
    phase: *mut CPhase,
    reason: *mut *mut c_char,
    error: *mut *mut CError,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let workload = handle::required_ref(workload, "workload")?;
            let phase = Out::new(phase, "phase")?;
            let condition = workload.handle.status();
            phase.put(condition.phase.into());
            if let Ok(reason) = Out::new(reason, "reason") {
                reason
                    .put(condition.reason.map_or(ptr::null_mut(), |reason| handle::string_into_raw(&reason)));
            }
            Ok(())
        })
    }
}

/// Stops a workload and waits until it has stopped: the server is killed after this many seconds.
///
/// The container and the record remain, so that the command line can start the workload again. Stopping twice is
/// allowed. The handle must still be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_stop(
    workload: *mut CWorkload,
    grace_seconds: u32,
    error: *mut *mut CError,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            let held = Arc::clone(&handle::required_ref(workload, "workload")?.handle);
            let grace = Duration::from_secs(grace_seconds.into());
            Ok(executor::spawn_to_completion(async move { held.stop(grace).await })?.block_on()?)
        })
    }
}

/// Frees a workload; null is allowed.
///
/// A running workload is ended: the server is killed, and the port is closed shortly afterwards. Call
/// `mcpm_workload_stop` first to wait for both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_free(workload: *mut CWorkload) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free_catching_panics(workload) }
}
