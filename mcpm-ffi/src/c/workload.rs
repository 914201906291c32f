//! Exports workloads to C: the builder, and the handle of a running workload.

use std::{
    ffi::{CString, c_char, c_void},
    ptr,
    sync::Arc,
    time::Duration,
};

use mcpm::options::{Secret, WorkloadOptions};

use super::{
    builder::{self, CBuilder, Extras, OptionCollector},
    callback::CFreeUserData,
    connection::CConnection,
    error::{CError, Status},
    event::{COnEvent, EventCallback},
    handle::{self, Out, Owned},
    operation::{self, COnEnd, COperation},
    phase::CPhase,
    prompt::CUserPrompt,
    record::{COnRecord, CRecord},
};
use crate::{
    executor,
    workload_handle::{StatusSnapshot, WorkloadHandle},
};

/// Collects the options of a workload.
#[derive(Debug, Default)]
pub struct WorkloadBuilder(OptionCollector<WorkloadOptions>);

impl CBuilder for WorkloadBuilder {
    type Options = WorkloadOptions;

    fn collector(&mut self) -> &mut OptionCollector<WorkloadOptions> {
        &mut self.0
    }
}

/// Frees a builder; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_free(builder: *mut Owned<WorkloadBuilder>) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free(builder) }
}

/// Creates a builder without options; free it with `mcpm_workload_builder_free`.
/// cbindgen:postfix=MCPM_FREED_BY(mcpm_workload_builder_free)
#[must_use]
#[unsafe(no_mangle)]
pub extern "C" fn mcpm_workload_builder_new() -> *mut Owned<WorkloadBuilder> {
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

/// Sets the prompt for requests to the user at the start and later, for example to log in to a remote server. The
/// caller must still free `prompt`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_user_prompt(
    builder: *mut WorkloadBuilder,
    prompt: *const CUserPrompt,
) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_prompt(builder, prompt) }
}

/// Sets whether the proxy opens no port. Without a port, only `mcpm_workload_connect` can connect to the server.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_in_process_only(builder: *mut WorkloadBuilder, value: bool) {
    // SAFETY: the conventions in the header.
    unsafe { builder::set_extra(builder, |extras| extras.in_process_only = value) }
}

/// Sets the callback for the events of the workload, from its start on. The last events before a shutdown may be lost.
///
/// `user_data` is passed to each call; it may be null. `free_user_data` is called once with `user_data`, on any thread,
/// when neither the builder nor the workload uses it any more; it may be null and must not block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_builder_on_event(
    builder: *mut WorkloadBuilder,
    on_event: COnEvent,
    user_data: *mut c_void,
    free_user_data: CFreeUserData,
) {
    let callback = EventCallback::new(on_event, user_data, free_user_data);
    // SAFETY: the conventions in the header.
    unsafe { builder::set_extra(builder, |extras| extras.on_event = Some(callback)) }
}

/// A started workload: an MCP server in a container, or a remote MCP server, behind its own proxy.
#[derive(Debug)]
pub struct CWorkload {
    handle: Arc<WorkloadHandle>,
    name: CString,
    url: CString,
}

impl CWorkload {
    pub(super) fn into_raw(handle: Arc<WorkloadHandle>) -> *mut Self {
        let (name, url) = (handle::c_text(handle.name()), handle::c_text(handle.url()));
        handle::into_raw(Self { handle, name, url })
    }
}

/// Receives a started workload, which must be freed with `mcpm_workload_free`. If the start has failed, `workload` is
/// null, and `error` must be freed.
///
/// mcpm calls it once, on one of its threads. The callback may block, and may start other operations, but must not call
/// functions of mcpm that block: in a callback, they return `MCPM_STATUS_NOT_HERE`.
pub type COnWorkloadStarted = Option<
    unsafe extern "C" fn(user_data: *mut c_void, workload: *mut Owned<CWorkload>, error: *mut Owned<CError>),
>;

/// Takes the options that the builder has collected, and starts the workload.
///
/// # Safety
/// As for [`builder::take`].
unsafe fn start(
    builder: *mut WorkloadBuilder,
) -> Result<impl Future<Output = mcpm::Result<Arc<WorkloadHandle>>> + Send, CError> {
    // SAFETY: guaranteed by the caller.
    let (options, Extras { prompt, in_process_only, on_event }) = unsafe { builder::take(builder) }?;
    Ok(WorkloadHandle::start(options, in_process_only, prompt, |events| {
        if let Some(on_event) = on_event {
            on_event.receive(events);
        }
    }))
}

/// Starts a workload again from its record, with the builder's prompt, its callback for events and its setting for the
/// port.
///
/// # Safety
/// `builder` is null, or as for [`builder::take`].
pub(super) unsafe fn start_recorded(
    name: &str,
    builder: *mut WorkloadBuilder,
) -> Result<impl Future<Output = mcpm::Result<Arc<WorkloadHandle>>> + Send + use<>, CError> {
    let (options, Extras { prompt, in_process_only, on_event }) = match builder.is_null() {
        true => Default::default(),
        // SAFETY: not null, and guaranteed by the caller.
        false => unsafe { builder::take(builder) }?,
    };
    if options != WorkloadOptions::default() {
        let message = "`builder` has options, but a recorded workload starts with its recorded options";
        return Err(CError::bad_argument(message.to_owned()));
    }
    let name = name.to_owned();
    Ok(async move {
        let listen = |events| {
            if let Some(on_event) = on_event {
                on_event.receive(events);
            }
        };
        WorkloadHandle::start_recorded(&name, in_process_only, prompt, listen).await
    })
}

/// Starts a workload and waits until clients can connect.
///
/// The builder cannot be used for another start, and must still be freed. The environment variables of the process
/// determine where the record is and which engine is used, as for the command line. On success, `workload` is set to a
/// handle; free the handle with `mcpm_workload_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_start(
    builder: *mut WorkloadBuilder,
    workload: *mut *mut Owned<CWorkload>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            let out = Out::new(workload, "workload")?;
            let started = executor::spawn_cancellable(start(builder)?)?.block_on()?;
            out.put(CWorkload::into_raw(started));
            Ok(())
        })
    }
}

/// Starts a workload as `mcpm_workload_start` does, but returns at once, and calls `on_started` when clients can
/// connect or the start has failed.
///
/// `operation` may be null. Otherwise it is set to a handle that can cancel the start, which is rolled back then; free
/// it with `mcpm_operation_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_start_async(
    builder: *mut WorkloadBuilder,
    on_started: COnWorkloadStarted,
    user_data: *mut c_void,
    operation: *mut *mut Owned<COperation>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let on_started = handle::required_callback(on_started, "on_started")?;
            operation::start_with_result(
                operation,
                start(builder)?,
                CWorkload::into_raw,
                on_started,
                user_data,
            )
        })
    }
}

/// Returns the name of a workload; valid as long as the handle. Returns null for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_name(workload: *const CWorkload) -> *const c_char {
    // SAFETY: the conventions in the header.
    unsafe { handle::as_ref(workload) }.map_or(ptr::null(), |workload| workload.name.as_ptr())
}

/// Returns the URL for clients; valid as long as the handle. Returns null for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_url(workload: *const CWorkload) -> *const c_char {
    // SAFETY: the conventions in the header.
    unsafe { handle::as_ref(workload) }.map_or(ptr::null(), |workload| workload.url.as_ptr())
}

/// Returns the phase of a workload.
///
/// `status` may be null. Otherwise it is set to a record with the values `phase`, `reason`, `restarts`, `exit_code` and
/// `login`, as far as they are known; free it with `mcpm_record_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_status(
    workload: *const CWorkload,
    phase: *mut CPhase,
    status: *mut *mut Owned<CRecord>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let workload = handle::required_ref(workload, "workload")?;
            let phase = Out::new(phase, "phase")?;
            let snapshot = workload.handle.status();
            phase.put(snapshot.phase.into());
            if let Ok(status) = Out::new(status, "status") {
                status.put(CRecord::into_raw(&snapshot));
            }
            Ok(())
        })
    }
}

/// Calls `on_event` with the events of a workload from now on. The last events before a shutdown may be lost.
///
/// `user_data` is passed to each call; it may be null. `free_user_data` is called once with `user_data`, on any thread,
/// when the workload has ended; it may be null and must not block.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_on_event(
    workload: *const CWorkload,
    on_event: COnEvent,
    user_data: *mut c_void,
    free_user_data: CFreeUserData,
    error: *mut *mut Owned<CError>,
) -> Status {
    let callback = EventCallback::new(on_event, user_data, free_user_data);
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let workload = handle::required_ref(workload, "workload")?;
            if let Some(events) = workload.handle.events() {
                executor::with_threads(|| {
                    callback.receive(events);
                    Ok(())
                })?;
            }
            Ok(())
        })
    }
}

/// Connects to the server from this process, without a port. `bearer_token` is the access token of the caller if the
/// workload authenticates callers; it may be null. Free the connection with `mcpm_connection_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_connect(
    workload: *const CWorkload,
    bearer_token: *const c_char,
    connection: *mut *mut Owned<CConnection>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let out = Out::new(connection, "connection")?;
            let workload = handle::required_ref(workload, "workload")?;
            let token = handle::optional_text(bearer_token, "bearer_token")?.map(Secret::from);
            let connected = executor::with_threads(|| workload.handle.connect(token))?;
            out.put(handle::into_raw(CConnection::new(connected)));
            Ok(())
        })
    }
}

/// Waits until the server has exited and will not be restarted, or until the workload was stopped.
///
/// `status` may be null. Otherwise it is set to the record that `mcpm_workload_status` returns; free it with
/// `mcpm_record_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_wait(
    workload: *const CWorkload,
    status: *mut *mut Owned<CRecord>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            let held = Arc::clone(&handle::required_ref(workload, "workload")?.handle);
            let ended = executor::spawn_cancellable(waited(held))?.block_on()?;
            if let Ok(status) = Out::new(status, "status") {
                status.put(CRecord::into_raw(&ended));
            }
            Ok(())
        })
    }
}

async fn waited(workload: Arc<WorkloadHandle>) -> mcpm::Result<StatusSnapshot> {
    workload.wait().await;
    Ok(workload.status())
}

/// Calls `on_status` when the server has exited and will not be restarted, or when the workload was stopped, with the
/// record that `mcpm_workload_status` returns.
///
/// `operation` may be null. Otherwise it is set to a handle that can cancel the wait; free it with
/// `mcpm_operation_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_wait_async(
    workload: *const CWorkload,
    on_status: COnRecord,
    user_data: *mut c_void,
    operation: *mut *mut Owned<COperation>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let on_status = handle::required_callback(on_status, "on_status")?;
            let held = Arc::clone(&handle::required_ref(workload, "workload")?.handle);
            let into_raw = |status| CRecord::into_raw(&status);
            operation::start_with_result(operation, waited(held), into_raw, on_status, user_data)
        })
    }
}

/// Stops a workload and waits until it has stopped. A server that has not exited after `grace_seconds` is killed.
///
/// The container and the record remain, so that `mcpm_workloads_start` and the command line can start the workload
/// again. Stopping twice is allowed. The handle must still be freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_stop(
    workload: *mut CWorkload,
    grace_seconds: u32,
    error: *mut *mut Owned<CError>,
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

/// Stops a workload as `mcpm_workload_stop` does, but returns at once, and calls `on_end` when it has stopped. Stopping
/// cannot be cancelled.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_stop_async(
    workload: *mut CWorkload,
    grace_seconds: u32,
    on_end: COnEnd,
    user_data: *mut c_void,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let held = Arc::clone(&handle::required_ref(workload, "workload")?.handle);
            let grace = Duration::from_secs(grace_seconds.into());
            let stopped = async move { held.stop(grace).await };
            operation::start_to_completion(stopped, on_end, user_data)
        })
    }
}

/// Frees a workload; null is allowed.
///
/// A running workload ends: its server is killed, and its port is closed shortly afterwards. To let the server exit by
/// itself and to wait for the end, call `mcpm_workload_stop` first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workload_free(workload: *mut Owned<CWorkload>) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free_catching_panics(workload) }
}
