//! The recorded workloads of this machine, for C.

use std::{
    ffi::{c_char, c_void},
    path::PathBuf,
    time::Duration,
};

use futures_util::TryStreamExt as _;
use mcpm::{Environment, runtime::LogStream, workload::Workloads};

use super::{
    error::{CError, Status},
    handle::{self, Out, Owned},
    record::{CRecord, CRecordList},
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

/// Receives a part of a server's output, which is valid only during the call; returns whether to go on. It is called on
/// the thread that reads the output.
pub type COnOutput = Option<
    unsafe extern "C" fn(user_data: *mut c_void, stream: CLogStream, bytes: *const u8, length: usize) -> bool,
>;

fn workloads() -> Workloads {
    Workloads::new(Environment::from_process())
}

/// Returns the status of all recorded workloads, whichever process runs them, in the order of their names. The values are
/// those of `mcpm list --format json`. Free the list with `mcpm_record_list_free`.
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
            out.put(handle::into_raw(CRecordList(all.iter().map(CRecord::new).collect())));
            Ok(())
        })
    }
}

/// Returns the status of one recorded workload. The values are those of `mcpm list --format json`. Free it with
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
            out.put(handle::into_raw(CRecord::new(&found)));
            Ok(())
        })
    }
}

/// Stops a workload, whichever process runs it: the server is killed after this many seconds. Does nothing if it has
/// stopped already.
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

/// Reads the output of a workload's server: the last `tail` lines, or all if that is negative; with `follow`, also what
/// the server writes until it exits. Calls `on_output` for each part.
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
                let stream = match chunk.stream {
                    LogStream::Stdout => CLogStream::Stdout,
                    LogStream::Stderr => CLogStream::Stderr,
                };
                if !on_output(user_data, stream, chunk.bytes.as_ptr(), chunk.bytes.len()) {
                    return Ok(());
                }
            }
        })
    }
}

/// Writes the options of a workload to a file for the option `from-config`. Secrets are left out.
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

/// Accepts the current ignore files of a folder that servers could write to: files that they no longer ignore are visible
/// after the next start.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_workloads_accept_ignore_files(
    folder: *const c_char,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let folder = PathBuf::from(handle::text(folder, "folder")?);
            workloads().accept_ignore_files(&folder)?;
            Ok(())
        })
    }
}
