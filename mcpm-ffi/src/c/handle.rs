//! Pointers that C holds: the only place that looks behind them.

use std::{
    any::Any,
    ffi::{CStr, CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

use super::error::{CError, Status};

/// Hands a value to C, which gives it back to [`free`].
pub(super) fn into_raw<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Takes back what [`into_raw`] handed out, and drops it. Null is nothing.
///
/// # Safety
/// The pointer is null, or came from `give` and was not freed.
pub(super) unsafe fn free<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: by the caller's promise this is a box that was given away once and is owned again.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

/// Takes back what [`into_raw`] handed out, whose drop may fail. Null is nothing.
///
/// # Safety
/// That of [`free`].
pub(super) unsafe fn free_catching_panics<T>(pointer: *mut T) {
    // Nobody can be told.
    let _ = catch_panic(|| {
        // SAFETY: the caller's promise.
        unsafe { free(pointer) };
        Ok(())
    });
}

/// Hands a text to C, which gives it back to [`free_string`].
pub(super) fn string_into_raw(text: &str) -> *mut c_char {
    c_text(text).into_raw()
}

/// Takes back what [`string_into_raw`] handed out. Null is nothing.
///
/// # Safety
/// The pointer is null, or came from `give_text` and was not freed.
pub(super) unsafe fn free_string(pointer: *mut c_char) {
    if !pointer.is_null() {
        // SAFETY: by the caller's promise this is a text that was given away once and is owned again.
        drop(unsafe { CString::from_raw(pointer) });
    }
}

/// Returns a text as C reads it. Ours hold no zero byte, except where they repeat such input.
pub(super) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// Where a result goes: not null, and C promised that it may be written.
pub(super) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Takes the pointer that C gave; `name` is what messages call it.
    ///
    /// # Safety
    /// The pointer is null, or may be written to as long as this lives.
    pub(super) unsafe fn new(pointer: *mut T, name: &str) -> Result<Self, CError> {
        if pointer.is_null() { Err(null(name)) } else { Ok(Self(pointer)) }
    }

    pub(super) fn put(self, value: T) {
        // SAFETY: not null, and who made this promised that it may be written.
        unsafe { self.0.write(value) }
    }
}

/// Looks at a handle of C; `name` is what messages call it.
///
/// # Safety
/// That of [`as_ref`].
pub(super) unsafe fn required_ref<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, CError> {
    // SAFETY: the caller's promise.
    unsafe { as_ref(pointer) }.ok_or_else(|| null(name))
}

fn null(name: &str) -> CError {
    CError::bad_argument(format!("`{name}` is null"))
}

/// Looks at what C holds.
///
/// # Safety
/// The pointer is null, or came from [`into_raw`], was not freed and is not changed meanwhile.
pub(super) unsafe fn as_ref<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: the caller's promise is that of `as_ref`.
    unsafe { pointer.as_ref() }
}

/// Changes what C holds.
///
/// # Safety
/// The pointer is null, or came from [`into_raw`], was not freed and is not used meanwhile.
pub(super) unsafe fn as_mut<'a, T>(pointer: *mut T) -> Option<&'a mut T> {
    // SAFETY: the caller's promise is that of `as_mut`.
    unsafe { pointer.as_mut() }
}

/// Reads a text of C; `name` is what messages call it.
///
/// # Safety
/// The pointer is null, or leads to a text that ends with a zero byte and is not changed meanwhile.
pub(super) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, CError> {
    if pointer.is_null() {
        return Err(null(name));
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
    let (status, given) = match catch_panic(body) {
        Ok(()) => (Status::Ok, ptr::null_mut()),
        Err(failure) => (failure.status(), if error.is_null() { ptr::null_mut() } else { into_raw(failure) }),
    };
    if !error.is_null() {
        // SAFETY: not null, and the caller promises that it may be written.
        unsafe { error.write(given) };
    }
    status
}

/// Runs `body` and makes an error of its panic.
pub(super) fn catch_panic(body: impl FnOnce() -> Result<(), CError>) -> Result<(), CError> {
    catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|panic| Err(CError::panicked(panic_message(panic.as_ref()))))
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panicked")
}
