//! Starts operations that call back when they end, instead of blocking the caller.

use std::{ffi::c_void, future::Future, ptr};

use mcpm::Result;
use tokio_util::sync::CancellationToken;

use super::{
    callback::UserData,
    error::CError,
    handle::{self, Out, Owned},
};
use crate::executor;

/// Receives the end of an operation. `error` is null if it was successful, and must be freed otherwise.
///
/// mcpm calls it once, on one of its threads. The callback may block, and may start other operations, but must not call
/// functions of mcpm that block: in a callback, they return `MCPM_STATUS_NOT_HERE`.
pub type COnEnd = Option<unsafe extern "C" fn(user_data: *mut c_void, error: *mut Owned<CError>)>;

/// An operation that has been started and calls back when it ends.
#[derive(Debug)]
pub struct COperation(CancellationToken);

/// Starts an operation that calls `end` with its outcome, on a thread that may block.
///
/// # Safety
/// `operation` is null, or may be written to.
unsafe fn start<T: Send + 'static>(
    operation: *mut *mut COperation,
    task: impl Future<Output = Result<T>> + Send + 'static,
    end: impl FnOnce(Result<T, CError>) + Send + 'static,
) -> Result<(), CError> {
    let cancelled = CancellationToken::new();
    executor::spawn_with_callback(task, Some(cancelled.clone()), |outcome| {
        end(outcome.map_err(CError::from))
    })?;
    if !operation.is_null() {
        // SAFETY: not null, and the caller guarantees that it may be written.
        let operation = unsafe { Out::new(operation, "operation") }?;
        operation.put(handle::into_raw(COperation(cancelled)));
    }
    Ok(())
}

/// A callback for a result, which is null if there is none, and an error, which is null if there is none.
pub(super) type ResultCallback<R> =
    unsafe extern "C" fn(user_data: *mut c_void, result: *mut R, error: *mut CError);

/// Starts an operation that passes its result to a callback, converted by `into_raw`.
///
/// # Safety
/// As for [`start`]; the callback and its user data are as its documentation requires.
pub(super) unsafe fn start_with_result<T: Send + 'static, R: 'static>(
    operation: *mut *mut COperation,
    task: impl Future<Output = Result<T>> + Send + 'static,
    into_raw: impl FnOnce(T) -> *mut R + Send + 'static,
    callback: ResultCallback<R>,
    user_data: *mut c_void,
) -> Result<(), CError> {
    let user_data = UserData::new(user_data, None);
    let end = move |outcome| {
        let (result, error) = match outcome {
            Ok(result) => (into_raw(result), ptr::null_mut()),
            Err(error) => (ptr::null_mut(), handle::into_raw(error)),
        };
        // SAFETY: guaranteed by the caller.
        unsafe { callback(user_data.pointer(), result, error) };
    };
    // SAFETY: guaranteed by the caller.
    unsafe { start(operation, task, end) }
}

/// Starts an operation without a result that calls a callback when it ends.
///
/// # Safety
/// As for [`start`]; the callback and its user data are as its documentation requires.
pub(super) unsafe fn start_with_end(
    operation: *mut *mut COperation,
    task: impl Future<Output = Result<()>> + Send + 'static,
    on_end: COnEnd,
    user_data: *mut c_void,
) -> Result<(), CError> {
    // SAFETY: guaranteed by the caller.
    unsafe { start(operation, task, caller(on_end, user_data)?) }
}

/// Starts an operation that cannot be cancelled, and that a shutdown waits for.
///
/// # Safety
/// The callback and its user data are as its documentation requires.
pub(super) unsafe fn start_to_completion(
    task: impl Future<Output = Result<()>> + Send + 'static,
    on_end: COnEnd,
    user_data: *mut c_void,
) -> Result<(), CError> {
    // SAFETY: guaranteed by the caller.
    let end = unsafe { caller(on_end, user_data) }?;
    Ok(executor::spawn_with_callback(task, None, |outcome| end(outcome.map_err(CError::from)))?)
}

/// Returns a function that calls a callback.
///
/// # Safety
/// The callback and its user data are as its documentation requires.
unsafe fn caller(
    on_end: COnEnd,
    user_data: *mut c_void,
) -> Result<impl FnOnce(Result<(), CError>) + Send + 'static, CError> {
    let on_end = handle::required_callback(on_end, "on_end")?;
    let user_data = UserData::new(user_data, None);
    Ok(move |outcome: Result<(), CError>| {
        let error = outcome.err().map_or(ptr::null_mut(), handle::into_raw);
        // SAFETY: guaranteed by the caller.
        unsafe { on_end(user_data.pointer(), error) };
    })
}

/// Cancels an operation, which then ends with `MCPM_STATUS_INTERRUPTED`; everything that it has started is rolled back.
/// Does nothing if the operation has ended. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_operation_cancel(operation: *const COperation) {
    // SAFETY: the conventions in the header.
    if let Some(operation) = unsafe { handle::as_ref(operation) } {
        operation.0.cancel();
    }
}

/// Frees an operation without cancelling it; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_operation_free(operation: *mut Owned<COperation>) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free(operation) }
}
