//! The exit codes of mcpm, all of them.

use std::process::ExitCode;

use mcpm::{ErrorKind, runtime::Exit};

/// A failure that has no code of its own.
pub(crate) const FAILURE: u8 = 1;
/// The arguments are wrong: an unknown option, a bad value, a contradiction.
pub(crate) const USAGE: u8 = 2;
/// An option or a form is known but not built yet.
pub(crate) const UNSUPPORTED: u8 = 3;
/// No workload, group or file of that name exists.
pub(crate) const NOT_FOUND: u8 = 4;
/// A name or a port is taken.
pub(crate) const TAKEN: u8 = 5;
/// No container engine answered.
pub(crate) const ENGINE_UNAVAILABLE: u8 = 6;
/// The image is not here and cannot be pulled.
pub(crate) const IMAGE_UNAVAILABLE: u8 = 7;
/// The server ended, or never answered, before it was ready.
pub(crate) const START_FAILED: u8 = 8;
/// The store of secrets cannot be opened.
pub(crate) const SECRETS_UNAVAILABLE: u8 = 9;
/// The registry cannot be read, or what it says of a server cannot be used.
pub(crate) const REGISTRY: u8 = 10;
/// The image must be signed, and has no signature that counts.
pub(crate) const IMAGE_UNVERIFIED: u8 = 11;
/// Stopped by the user; what shells report for an interrupted program.
pub(crate) const INTERRUPTED: u8 = 130;

/// Returns the code of a failure.
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
        ErrorKind::Interrupted => INTERRUPTED,
        ErrorKind::Io
        | ErrorKind::CorruptState
        | ErrorKind::Engine
        | ErrorKind::Upstream
        | ErrorKind::Internal => FAILURE,
    })
}

/// Returns the code of a server that ended: its own, as far as one byte holds it.
pub(crate) fn of_server(exit: Option<Exit>) -> ExitCode {
    match exit {
        Some(exit) => ExitCode::from(u8::try_from(exit.code).unwrap_or(FAILURE)),
        None => ExitCode::from(FAILURE),
    }
}

/// Returns the code of what clap answered: success for help and version.
pub(crate) fn of_usage(answer: &clap::Error) -> ExitCode {
    if answer.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}
