//! Exports the recorded workloads of this machine to C.

use std::{
    ffi::{c_char, c_void},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use futures_util::TryStreamExt as _;
use mcpm::{
    Environment,
    runtime::{LogChunk, LogStream},
    workload::{Logs, Workloads},
};

use super::{
    callback::UserData,
    error::{CError, Status},
    handle::{self, Out, Owned},
    operation::{self, COnEnd, COperation},
    record::{COnRecord, COnRecordList, CRecord, CRecordList},
    workload::{self, COnWorkloadStarted, CWorkload, WorkloadBuilder},
};
use crate::executor;

/// A stream of a server's output. The numbers never change.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CLogStream {
    /// Standard output.
    Stdout = 1,
    /// Standard error.
    Stderr = 2,
}

/// Receives a part of a server's output, which is valid only during the call, and returns whether to continue.
/// `mcpm_workloads_logs` calls it on the calling thread. `mcpm_workloads_logs_async` calls it on threads of mcpm, for
/// one part at a time; there, it must not call functions that block.
pub type COnOutput = Option<
    unsafe extern "C" fn(user_data: *mut c_void, stream: CLogStream, bytes: *const u8, length: usize) -> bool,
>;

fn workloads() -> Workloads {
    Workloads::new(Environment::from_process())
}

/// Returns the status of all recorded workloads, whichever process runs them, in the order of their names. The values
/// are those of `mcpm list --output json`. Free the list with `mcpm_record_list_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workloads_list(
    list: *mut *mut Owned<CRecordList>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            let out = Out::new(list, "list")?;
            let all = executor::spawn_cancellable(async { workloads().list().await })?.block_on()?;
            out.put(CRecordList::into_raw(all));
            Ok(())
        })
    }
}

/// Lists the workloads as `mcpm_workloads_list` does, but returns at once, and calls `on_list` with the list.
///
/// `operation` may be null. Otherwise it is set to a handle that can cancel the operation; free it with
/// `mcpm_operation_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workloads_list_async(
    on_list: COnRecordList,
    user_data: *mut c_void,
    operation: *mut *mut Owned<COperation>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let on_list = handle::required_callback(on_list, "on_list")?;
            let listed = async { workloads().list().await };
            operation::start_with_result(operation, listed, CRecordList::into_raw, on_list, user_data)
        })
    }
}

/// Returns the status of one recorded workload. The values are those of `mcpm list --output json`. Free the record with
/// `mcpm_record_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workloads_info(
    name: *const c_char,
    info: *mut *mut Owned<CRecord>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            let out = Out::new(info, "info")?;
            let name = handle::text(name, "name")?.to_owned();
            let found =
                executor::spawn_cancellable(async move { workloads().info(&name).await })?.block_on()?;
            out.put(CRecord::into_raw(&found));
            Ok(())
        })
    }
}

/// Gets the status as `mcpm_workloads_info` does, but returns at once, and calls `on_info` with the status.
///
/// `operation` may be null. Otherwise it is set to a handle that can cancel the operation; free it with
/// `mcpm_operation_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workloads_info_async(
    name: *const c_char,
    on_info: COnRecord,
    user_data: *mut c_void,
    operation: *mut *mut Owned<COperation>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let on_info = handle::required_callback(on_info, "on_info")?;
            let name = handle::text(name, "name")?.to_owned();
            let found = async move { workloads().info(&name).await };
            let into_raw = |info| CRecord::into_raw(&info);
            operation::start_with_result(operation, found, into_raw, on_info, user_data)
        })
    }
}

/// Starts a workload again, with its recorded options, and waits until clients can connect. If a killed process of mcpm
/// has left the container running, the container is stopped first. Returns `MCPM_STATUS_NAME_TAKEN` if the workload is
/// running.
///
/// `builder` may be null. Otherwise the start uses the builder's prompt, callback for events and `in_process_only`
/// setting. The builder must have no options, and must still be freed. On success, `workload` is set to a handle; free
/// the handle with `mcpm_workload_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workloads_start(
    name: *const c_char,
    builder: *mut WorkloadBuilder,
    workload: *mut *mut Owned<CWorkload>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            let out = Out::new(workload, "workload")?;
            let name = handle::text(name, "name")?;
            let started =
                executor::spawn_cancellable(workload::start_recorded(name, builder)?)?.block_on()?;
            out.put(CWorkload::into_raw(started));
            Ok(())
        })
    }
}

/// Starts a workload as `mcpm_workloads_start` does, but returns at once, and calls `on_started` when clients can
/// connect or the start has failed.
///
/// `operation` may be null. Otherwise it is set to a handle that can cancel the start; free it with
/// `mcpm_operation_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workloads_start_async(
    name: *const c_char,
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
            let name = handle::text(name, "name")?;
            let started = workload::start_recorded(name, builder)?;
            operation::start_with_result(operation, started, CWorkload::into_raw, on_started, user_data)
        })
    }
}

/// Stops a workload, whichever process runs it. A server that has not exited after `grace_seconds` is killed. Does
/// nothing if it has stopped already.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workloads_stop(
    name: *const c_char,
    grace_seconds: u32,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            let name = handle::text(name, "name")?.to_owned();
            let grace = Duration::from_secs(grace_seconds.into());
            let stopped = async move { workloads().stop(&name, grace).await };
            Ok(executor::spawn_to_completion(stopped)?.block_on()?)
        })
    }
}

/// Stops a workload as `mcpm_workloads_stop` does, but returns at once, and calls `on_end` when it has stopped.
/// Stopping cannot be cancelled.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workloads_stop_async(
    name: *const c_char,
    grace_seconds: u32,
    on_end: COnEnd,
    user_data: *mut c_void,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let name = handle::text(name, "name")?.to_owned();
            let grace = Duration::from_secs(grace_seconds.into());
            let stopped = async move { workloads().stop(&name, grace).await };
            operation::start_to_completion(stopped, on_end, user_data)
        })
    }
}

/// Stops a workload as `mcpm_workloads_stop` does, and removes its containers and its record.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workloads_remove(
    name: *const c_char,
    grace_seconds: u32,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            let name = handle::text(name, "name")?.to_owned();
            let grace = Duration::from_secs(grace_seconds.into());
            let removed = async move { workloads().remove(&name, grace).await };
            Ok(executor::spawn_to_completion(removed)?.block_on()?)
        })
    }
}

/// Removes a workload as `mcpm_workloads_remove` does, but returns at once, and calls `on_end` when it is removed.
/// Removing cannot be cancelled.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workloads_remove_async(
    name: *const c_char,
    grace_seconds: u32,
    on_end: COnEnd,
    user_data: *mut c_void,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let name = handle::text(name, "name")?.to_owned();
            let grace = Duration::from_secs(grace_seconds.into());
            let removed = async move { workloads().remove(&name, grace).await };
            operation::start_to_completion(removed, on_end, user_data)
        })
    }
}

/// Reads the output of a workload's server: the last `tail` lines, or all lines if `tail` is negative; with `follow`,
/// also the output that the server writes until the workload ends. Calls `on_output` for each part.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workloads_logs(
    name: *const c_char,
    follow: bool,
    tail: i64,
    on_output: COnOutput,
    user_data: *mut c_void,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            executor::ensure_outside_runtime()?;
            let on_output = handle::required_callback(on_output, "on_output")?;
            let name = handle::text(name, "name")?.to_owned();
            let tail = usize::try_from(tail).ok();
            let opened = async move { workloads().logs(&name, follow, tail).await };
            let mut logs = executor::spawn_cancellable(opened)?.block_on()?;
            loop {
                let read = async move { Ok((logs.try_next().await?, logs)) };
                let (chunk, rest) = executor::spawn_cancellable(read)?.block_on()?;
                logs = rest;
                let Some(chunk) = chunk else { return Ok(()) };
                if !pass_output(on_output, user_data, &chunk) {
                    return Ok(());
                }
            }
        })
    }
}

/// Reads the output as `mcpm_workloads_logs` does, but returns at once. Calls `on_output` for each part, and `on_end`
/// at the end, both with `user_data`.
///
/// `operation` may be null. Otherwise it is set to a handle that can cancel reading; free it with
/// `mcpm_operation_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workloads_logs_async(
    name: *const c_char,
    follow: bool,
    tail: i64,
    on_output: COnOutput,
    on_end: COnEnd,
    user_data: *mut c_void,
    operation: *mut *mut Owned<COperation>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let on_output = handle::required_callback(on_output, "on_output")?;
            let name = handle::text(name, "name")?.to_owned();
            let tail = usize::try_from(tail).ok();
            let output_data = Arc::new(UserData::new(user_data, None));
            let read = async move {
                let logs = workloads().logs(&name, follow, tail).await?;
                pass_all_output(logs, on_output, output_data).await
            };
            operation::start_with_end(operation, read, on_end, user_data)
        })
    }
}

/// A callback for a part of a server's output.
type OutputCallback = unsafe extern "C" fn(*mut c_void, CLogStream, *const u8, usize) -> bool;

/// Passes a part of a server's output to a callback, and returns whether to continue.
///
/// # Safety
/// The callback and its user data are as the documentation of [`COnOutput`] requires.
unsafe fn pass_output(on_output: OutputCallback, user_data: *mut c_void, chunk: &LogChunk) -> bool {
    let stream = match chunk.stream {
        LogStream::Stdout => CLogStream::Stdout,
        LogStream::Stderr => CLogStream::Stderr,
    };
    // SAFETY: guaranteed by the caller; the bytes live during the call.
    unsafe { on_output(user_data, stream, chunk.bytes.as_ptr(), chunk.bytes.len()) }
}

/// Passes a server's output to a callback on threads that may block.
async fn pass_all_output(
    mut logs: Logs,
    on_output: OutputCallback,
    user_data: Arc<UserData>,
) -> mcpm::Result<()> {
    while let Some(chunk) = logs.try_next().await? {
        let user_data = Arc::clone(&user_data);
        let passed = tokio::task::spawn_blocking(move || {
            // SAFETY: the program guarantees the callback and its user data.
            unsafe { pass_output(on_output, user_data.pointer(), &chunk) }
        });
        if !passed.await.unwrap_or(false) {
            break;
        }
    }
    Ok(())
}

/// Writes the options of a workload to a file for the option `from-config`. Secrets are omitted.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workloads_export_to(
    name: *const c_char,
    path: *const c_char,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let (name, path) = (handle::text(name, "name")?, PathBuf::from(handle::text(path, "path")?));
            Ok(workloads().export(name, &path)?)
        })
    }
}

/// Accepts the current ignore files of a folder that servers could write to. Files that are no longer ignored are
/// visible to servers after their next start.
///
/// `changed` may be null. Otherwise it is set to a list of the ignore files whose text has changed, each of them a
/// record with the value `path`; free it with `mcpm_record_list_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workloads_accept_ignore_files(
    folder: *const c_char,
    changed: *mut *mut Owned<CRecordList>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let folder = PathBuf::from(handle::text(folder, "folder")?);
            let accepted = workloads().accept_ignore_files(&folder)?;
            if let Ok(changed) = Out::new(changed, "changed") {
                let records =
                    accepted.iter().map(|path| serde_json::json!({ "path": path.to_string_lossy() }));
                changed.put(CRecordList::into_raw(records));
            }
            Ok(())
        })
    }
}
