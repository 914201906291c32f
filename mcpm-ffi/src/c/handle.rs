//! Pointers that C holds: the only place that looks behind them.

use std::{
    any::Any,
    ffi::{CStr, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

use super::error::{CError, Status};

/// Hands a value to C, which gives it back to [`free`].
pub(super) fn give<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Takes back what [`give`] handed out, and drops it. Null is nothing.
///
/// # Safety
/// The pointer is null, or came from `give` and was not freed.
pub(super) unsafe fn free<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: by the caller's promise this is a box that was given away once and is owned again.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

/// Looks at what C holds.
///
/// # Safety
/// The pointer is null, or came from [`give`], was not freed and is not changed meanwhile.
pub(super) unsafe fn see<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: the caller's promise is that of `as_ref`.
    unsafe { pointer.as_ref() }
}

/// Changes what C holds.
///
/// # Safety
/// The pointer is null, or came from [`give`], was not freed and is not used meanwhile.
pub(super) unsafe fn change<'a, T>(pointer: *mut T) -> Option<&'a mut T> {
    // SAFETY: the caller's promise is that of `as_mut`.
    unsafe { pointer.as_mut() }
}

/// Reads a text of C; `name` is what messages call it.
///
/// # Safety
/// The pointer is null, or leads to a text that ends with a zero byte and is not changed meanwhile.
pub(super) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, CError> {
    if pointer.is_null() {
        return Err(CError::bad_argument(format!("`{name}` is null")));
    }
    // SAFETY: not null, and the caller promises the end.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| CError::bad_argument(format!("`{name}` is no UTF-8")))
}

/// Runs `body`, stops its panics, and puts its error where C asked for it.
///
/// # Safety
/// `error` is null, or may be written to.
pub(super) unsafe fn guard(error: *mut *mut CError, body: impl FnOnce() -> Result<(), CError>) -> Status {
    let (status, given) = match caught(body) {
        Ok(()) => (Status::Ok, ptr::null_mut()),
        Err(failure) => (failure.status(), if error.is_null() { ptr::null_mut() } else { give(failure) }),
    };
    if !error.is_null() {
        // SAFETY: not null, and the caller promises that it may be written.
        unsafe { error.write(given) };
    }
    status
}

/// Runs `body` and makes an error of its panic.
pub(super) fn caught(body: impl FnOnce() -> Result<(), CError>) -> Result<(), CError> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(CError::panicked(said(panic.as_ref()))))
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panicked")
}
