//! Statuses and errors of the C face.

use std::ffi::{CString, c_char};

use mcpm::{Error, ErrorKind};

use super::handle;
use crate::executor::InsideRuntime;

/// Outcome of a call. The numbers never change.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// A pointer was null, a text was no UTF-8, or a builder was used before.
    BadArgument = 1,
    /// An option has a bad value, or options contradict each other.
    InvalidOption = 2,
    /// An option or a form is known but not built yet.
    Unsupported = 3,
    /// No workload, group or file of that name exists.
    NotFound = 4,
    /// A workload or group of that name exists already.
    NameTaken = 5,
    /// The port to listen on is in use.
    PortTaken = 6,
    /// No container engine answered, or it refused access.
    EngineUnavailable = 7,
    /// The image is not on this machine and cannot be pulled.
    ImageUnavailable = 8,
    /// The server ended, or never answered, before it was ready.
    StartFailed = 9,
    /// A file or folder could not be read or written.
    Io = 10,
    /// A stored file is damaged or of an unknown version.
    CorruptState = 11,
    /// The engine refused an operation or answered nonsense.
    Engine = 12,
    /// The MCP server behind the proxy failed.
    Upstream = 13,
    /// The operation was stopped by its caller.
    Interrupted = 14,
    /// A defect in mcpm itself.
    Internal = 15,
    /// The call waits, and an asynchronous task runs on this thread; call it from another.
    NotHere = 16,
    /// The store of secrets cannot be opened: a wrong password or none, no keyring, a program that fails.
    SecretsUnavailable = 17,
    /// The registry cannot be read, or what it says of a server cannot be used.
    Registry = 18,
    /// The image must be signed, and has no signature that counts.
    ImageUnverified = 19,
}

impl From<ErrorKind> for Status {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::InvalidOption => Self::InvalidOption,
            ErrorKind::Unsupported => Self::Unsupported,
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::NameTaken => Self::NameTaken,
            ErrorKind::PortTaken => Self::PortTaken,
            ErrorKind::EngineUnavailable => Self::EngineUnavailable,
            ErrorKind::ImageUnavailable => Self::ImageUnavailable,
            ErrorKind::ImageUnverified => Self::ImageUnverified,
            ErrorKind::SecretsUnavailable => Self::SecretsUnavailable,
            ErrorKind::StartFailed => Self::StartFailed,
            ErrorKind::Io => Self::Io,
            ErrorKind::CorruptState => Self::CorruptState,
            ErrorKind::Engine => Self::Engine,
            ErrorKind::Registry => Self::Registry,
            ErrorKind::Upstream => Self::Upstream,
            ErrorKind::Interrupted => Self::Interrupted,
            ErrorKind::Internal => Self::Internal,
        }
    }
}

/// Why a call failed.
#[derive(Debug, Clone)]
pub struct CError {
    status: Status,
    message: CString,
}

impl CError {
    fn new(status: Status, message: &str) -> Self {
        Self { status, message: handle::c_text(message) }
    }

    pub(super) fn bad_argument(message: String) -> Self {
        Self::new(Status::BadArgument, &message)
    }

    pub(super) fn panicked(message: &str) -> Self {
        Self::new(Status::Internal, &format!("a defect in mcpm: {message}"))
    }

    pub(super) fn status(&self) -> Status {
        self.status
    }
}

impl From<Error> for CError {
    fn from(error: Error) -> Self {
        Self::new(error.kind().into(), &error.to_string())
    }
}

impl From<InsideRuntime> for CError {
    fn from(refused: InsideRuntime) -> Self {
        Self::new(Status::NotHere, &refused.to_string())
    }
}

/// Returns the status of an error; that of a null pointer is `MCPM_STATUS_OK`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_error_status(error: *const CError) -> Status {
    // SAFETY: the conventions in the header.
    unsafe { handle::as_ref(error) }.map_or(Status::Ok, |error| error.status)
}

/// Returns what went wrong in one line; it lives as long as the error. Null has no message and returns null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_error_message(error: *const CError) -> *const c_char {
    // SAFETY: the conventions in the header.
    unsafe { handle::as_ref(error) }.map_or(std::ptr::null(), |error| error.message.as_ptr())
}

/// Frees a text that a function said to free; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_string_free(text: *mut c_char) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free_string(text) }
}

/// Frees an error; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_error_free(error: *mut CError) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free(error) }
}
