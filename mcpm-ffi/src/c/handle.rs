//! Passes pointers to C and takes them back. Only this module dereferences them.

use std::{
    any::Any,
    ffi::{CStr, CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

use super::error::{CError, Status};

/// A value whose ownership passes to the receiver of its pointer: a result belongs to the C program, and an argument of
/// a `_free` function to mcpm. The header marks it with `MCPM_OWNED`.
pub(super) type Owned<T> = T;

/// Passes ownership of a value to C, which returns it with [`free`].
pub(super) fn into_raw<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Drops a value that [`into_raw`] passed to C. Null is allowed.
///
/// # Safety
/// The pointer is null, or came from [`into_raw`] and was not freed.
pub(super) unsafe fn free<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: the caller guarantees a box that was passed to C once and is owned again.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

/// Drops a value that [`into_raw`] passed to C, and catches panics. Null is allowed.
///
/// # Safety
/// As for [`free`].
pub(super) unsafe fn free_catching_panics<T>(pointer: *mut T) {
    // The panic cannot be reported.
    let _ = catch_panic(|| {
        // SAFETY: guaranteed by the caller.
        unsafe { free(pointer) };
        Ok(())
    });
}

/// Passes ownership of a string to C, which returns it with [`free_string`]; null for none.
pub(super) fn string_into_raw(text: Option<String>) -> *mut c_char {
    text.map_or(ptr::null_mut(), |text| c_text(&text).into_raw())
}

/// Frees a string that [`string_into_raw`] passed to C. Null is allowed.
///
/// # Safety
/// The pointer is null, or came from [`string_into_raw`] and was not freed.
pub(super) unsafe fn free_string(pointer: *mut c_char) {
    if !pointer.is_null() {
        // SAFETY: the caller guarantees a string that was passed to C once and is owned again.
        drop(unsafe { CString::from_raw(pointer) });
    }
}

/// Converts a string to a C string. Strings of mcpm contain no NUL byte, unless they repeat input that contains one.
pub(super) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// A destination for a result: not null, and writable as C guarantees.
pub(super) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Checks a pointer from C; `name` is its name in messages.
    ///
    /// # Safety
    /// The pointer is null, or may be written to as long as this lives.
    pub(super) unsafe fn new(pointer: *mut T, name: &str) -> Result<Self, CError> {
        if pointer.is_null() { Err(null(name)) } else { Ok(Self(pointer)) }
    }

    pub(super) fn put(self, value: T) {
        // SAFETY: not null, and writable as guaranteed to `new`.
        unsafe { self.0.write(value) }
    }
}

/// Dereferences a pointer from C; `name` is its name in messages.
///
/// # Safety
/// As for [`as_ref`].
pub(super) unsafe fn required_ref<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, CError> {
    // SAFETY: guaranteed by the caller.
    unsafe { as_ref(pointer) }.ok_or_else(|| null(name))
}

/// Checks a callback from C; `name` is its name in messages.
pub(super) fn required_callback<F>(callback: Option<F>, name: &str) -> Result<F, CError> {
    callback.ok_or_else(|| null(name))
}

fn null(name: &str) -> CError {
    CError::bad_argument(format!("`{name}` is null"))
}

/// Dereferences a pointer from C.
///
/// # Safety
/// The pointer is null, or came from [`into_raw`], was not freed and is not changed meanwhile.
pub(super) unsafe fn as_ref<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: guaranteed by the caller.
    unsafe { pointer.as_ref() }
}

/// Dereferences a pointer from C mutably.
///
/// # Safety
/// The pointer is null, or came from [`into_raw`], was not freed and is not used meanwhile.
pub(super) unsafe fn as_mut<'a, T>(pointer: *mut T) -> Option<&'a mut T> {
    // SAFETY: guaranteed by the caller.
    unsafe { pointer.as_mut() }
}

/// Reads a string from C; `name` is its name in messages.
///
/// # Safety
/// The pointer is null, or leads to a NUL-terminated string that is not changed meanwhile.
pub(super) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, CError> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: not null, and the caller guarantees the termination.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| CError::bad_argument(format!("`{name}` is not valid UTF-8")))
}

/// Reads a string from C that may be null; `name` is its name in messages.
///
/// # Safety
/// As for [`text`].
pub(super) unsafe fn optional_text<'a>(
    pointer: *const c_char,
    name: &str,
) -> Result<Option<&'a str>, CError> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: guaranteed by the caller.
    unsafe { text(pointer, name) }.map(Some)
}

/// Runs `body`, catches panics, and writes its error to `error`.
///
/// # Safety
/// `error` is null, or may be written to.
pub(super) unsafe fn guard(error: *mut *mut CError, body: impl FnOnce() -> Result<(), CError>) -> Status {
    let (status, error_pointer) = match catch_panic(body) {
        Ok(()) => (Status::Ok, ptr::null_mut()),
        Err(failure) => (failure.status(), if error.is_null() { ptr::null_mut() } else { into_raw(failure) }),
    };
    if !error.is_null() {
        // SAFETY: not null, and the caller guarantees that it may be written.
        unsafe { error.write(error_pointer) };
    }
    status
}

/// Runs `body` and converts a panic to an error.
pub(super) fn catch_panic(body: impl FnOnce() -> Result<(), CError>) -> Result<(), CError> {
    catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|panic| Err(CError::panicked(panic_message(panic.as_ref()))))
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("panicked")
}
