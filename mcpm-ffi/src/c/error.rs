//! Exports statuses and errors to C.

use std::ffi::{CString, c_char};

use mcpm::{Error, ErrorKind};

use super::handle::{self, Owned};
use crate::executor::InsideRuntime;

/// The status of a call. The numbers never change.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// A pointer was null, a string was not valid UTF-8, or a builder was used before.
    BadArgument = 1,
    /// An option has an invalid value, or options contradict each other.
    InvalidOption = 2,
    /// The option, value or operation is known, but is not implemented or not included in this build.
    Unsupported = 3,
    /// No workload, group or file with that name exists.
    NotFound = 4,
    /// A workload or group with that name exists already.
    NameTaken = 5,
    /// The port to listen on is in use.
    PortTaken = 6,
    /// No container engine responded, or it denied access.
    EngineUnavailable = 7,
    /// The image is not present locally and cannot be pulled.
    ImageUnavailable = 8,
    /// The server exited or did not respond before it was ready.
    StartFailed = 9,
    /// A file or folder could not be read or written, or a prompt failed.
    Io = 10,
    /// A stored file is damaged or of an unsupported version.
    CorruptState = 11,
    /// The engine rejected an operation or sent an invalid response.
    Engine = 12,
    /// The MCP server or an identity provider failed.
    Upstream = 13,
    /// The operation was cancelled by its caller, by the user in a prompt, or by a shutdown.
    Interrupted = 14,
    /// A defect in mcpm.
    Internal = 15,
    /// A blocking call was made on a thread that runs asynchronous tasks; call it from another thread.
    NotHere = 16,
    /// The secret store cannot be opened: a wrong or missing password, no keyring, or a failing program.
    SecretsUnavailable = 17,
    /// The registry cannot be read, or its entry for a server is not usable.
    Registry = 18,
    /// The image must be signed, and has no valid signature.
    ImageUnverified = 19,
    /// The remote server requires a login, and no user can be asked to log in.
    LoginRequired = 20,
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
            ErrorKind::LoginRequired => Self::LoginRequired,
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

/// An error of a call.
#[derive(Debug, Clone)]
pub struct CError {
    status: Status,
    message: CString,
    hint: Option<CString>,
    /// Names and values.
    context: Vec<(CString, CString)>,
}

impl CError {
    fn new(status: Status, message: &str) -> Self {
        Self { status, message: handle::c_text(message), hint: None, context: Vec::new() }
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
        Self {
            hint: error.next_step().map(handle::c_text),
            context: error
                .context()
                .map(|(name, value)| (handle::c_text(name), handle::c_text(value)))
                .collect(),
            ..Self::new(error.kind().into(), &error.to_string())
        }
    }
}

impl From<InsideRuntime> for CError {
    fn from(inside_runtime: InsideRuntime) -> Self {
        Self::new(Status::NotHere, &inside_runtime.to_string())
    }
}

/// Returns the status of an error; `MCPM_STATUS_OK` for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_error_status(error: *const CError) -> Status {
    // SAFETY: the conventions in the header.
    unsafe { handle::as_ref(error) }.map_or(Status::Ok, |error| error.status)
}

/// Returns the error's message in one line, including what to do next; valid as long as the error. Returns null
/// for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_error_message(error: *const CError) -> *const c_char {
    // SAFETY: the conventions in the header.
    unsafe { handle::as_ref(error) }.map_or(std::ptr::null(), |error| error.message.as_ptr())
}

/// Returns the next step for the user, which the message contains, too; valid as long as the error. Returns null if no
/// next step is known, and for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_error_hint(error: *const CError) -> *const c_char {
    // SAFETY: the conventions in the header.
    let hint = unsafe { handle::as_ref(error) }.and_then(|error| error.hint.as_ref());
    hint.map_or(std::ptr::null(), |hint| hint.as_ptr())
}

/// Returns an input of the failed call by its name, such as the file for the name `path`; valid as long as the error.
/// Returns null if the error has no value of this name, and for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_error_context(error: *const CError, name: *const c_char) -> *const c_char {
    // SAFETY: the conventions in the header.
    let (error, name) = unsafe { (handle::as_ref(error), handle::text(name, "name")) };
    let (Some(error), Ok(name)) = (error, name) else { return std::ptr::null() };
    let value = error.context.iter().find(|(known, _)| known.as_bytes() == name.as_bytes());
    value.map_or(std::ptr::null(), |(_, value)| value.as_ptr())
}

/// Frees a string that is marked `MCPM_OWNED`; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_string_free(text: *mut Owned<c_char>) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free_string(text) }
}

/// Frees an error; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_error_free(error: *mut Owned<CError>) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free(error) }
}
