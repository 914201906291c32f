//! Defines the exit codes of mcpm.

use std::process::ExitCode;

use mcpm::{ErrorKind, runtime::Exit};

/// A failure without a code of its own.
pub(crate) const FAILURE: u8 = 1;
/// Invalid arguments: an unknown option, an invalid value, or a contradiction.
pub(crate) const USAGE: u8 = 2;
/// An option, or its value, is known but not implemented, or not included in this build.
pub(crate) const UNSUPPORTED: u8 = 3;
/// No workload, group or file with that name exists.
pub(crate) const NOT_FOUND: u8 = 4;
/// A name or a port is in use.
pub(crate) const TAKEN: u8 = 5;
/// No container engine responded.
pub(crate) const ENGINE_UNAVAILABLE: u8 = 6;
/// The image is not present locally and cannot be pulled.
pub(crate) const IMAGE_UNAVAILABLE: u8 = 7;
/// The server exited or did not respond before it was ready.
pub(crate) const START_FAILED: u8 = 8;
/// The secret store cannot be opened.
pub(crate) const SECRETS_UNAVAILABLE: u8 = 9;
/// The registry cannot be read, or its entry for a server is not usable.
pub(crate) const REGISTRY: u8 = 10;
/// The image must be signed, and has no valid signature.
pub(crate) const IMAGE_UNVERIFIED: u8 = 11;
/// The remote server requires a login, and no user can be prompted for it.
pub(crate) const LOGIN_REQUIRED: u8 = 12;
/// Interrupted by the user; the code that shells report.
pub(crate) const INTERRUPTED: u8 = 130;

/// Returns the exit code of a failure.
pub(crate) fn of_error(kind: ErrorKind) -> ExitCode {
    ExitCode::from(match kind {
        ErrorKind::InvalidOption => USAGE,
        ErrorKind::Unsupported => UNSUPPORTED,
        ErrorKind::NotFound => NOT_FOUND,
        ErrorKind::NameTaken | ErrorKind::PortTaken => TAKEN,
        ErrorKind::EngineUnavailable => ENGINE_UNAVAILABLE,
        ErrorKind::ImageUnavailable => IMAGE_UNAVAILABLE,
        ErrorKind::ImageUnverified => IMAGE_UNVERIFIED,
        ErrorKind::SecretsUnavailable => SECRETS_UNAVAILABLE,
        ErrorKind::StartFailed => START_FAILED,
        ErrorKind::Registry => REGISTRY,
        ErrorKind::LoginRequired => LOGIN_REQUIRED,
        ErrorKind::Interrupted => INTERRUPTED,
        ErrorKind::Io
        | ErrorKind::CorruptState
        | ErrorKind::Engine
        | ErrorKind::Upstream
        | ErrorKind::Internal => FAILURE,
    })
}

/// Returns the exit code of a server, if it fits into one byte.
pub(crate) fn of_server(exit: Option<Exit>) -> ExitCode {
    match exit {
        Some(exit) => ExitCode::from(u8::try_from(exit.code).unwrap_or(FAILURE)),
        None => ExitCode::from(FAILURE),
    }
}

/// Returns the exit code of clap's result: success for help and version.
pub(crate) fn of_usage(answer: &clap::Error) -> ExitCode {
    if answer.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}
