//! Classifies failed requests to the engine.

use std::{borrow::Cow, error::Error as StdError, fmt, io};

use bollard::errors::Error as ApiError;

use crate::{Error, ErrorKind};

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EngineFailure {
    /// The engine responded with this HTTP status and message.
    ErrorStatus(u16, String),
    /// The socket does not exist.
    NoSocket,
    /// This user may not use the socket.
    PermissionDenied,
    /// The connection was refused.
    ConnectionRefused,
    /// The request timed out.
    TimedOut,
    /// The connection broke.
    ConnectionLost(String),
    /// The response is invalid.
    InvalidResponse(String),
}

impl EngineFailure {
    pub(super) fn from_api(error: &ApiError) -> Self {
        match error {
            ApiError::DockerResponseServerError { status_code, message } => {
                Self::error_status(*status_code, message)
            }
            // Errors within a stream come after the status was sent as 200.
            ApiError::DockerStreamError { error } => Self::error_status(500, error),
            ApiError::SocketNotFoundError(_) => Self::NoSocket,
            ApiError::RequestTimeoutError => Self::TimedOut,
            ApiError::IOError { err } => Self::from_io(err),
            ApiError::HyperResponseError { err } => Self::from_error_chain(err),
            ApiError::HyperLegacyError { err } => Self::from_error_chain(err),
            ApiError::DockerContainerWaitError { error, .. } => Self::InvalidResponse(one_line(error)),
            other => Self::InvalidResponse(one_line(&other.to_string())),
        }
    }

    pub(super) fn error_status(status: u16, message: &str) -> Self {
        Self::ErrorStatus(status, one_line(message))
    }

    pub(super) fn from_error_chain(error: &(dyn StdError + 'static)) -> Self {
        let mut deepest = error;
        loop {
            if let Some(error) = deepest.downcast_ref::<io::Error>() {
                return Self::from_io(error);
            }
            match deepest.source() {
                Some(source) => deepest = source,
                None => return Self::ConnectionLost(one_line(&deepest.to_string())),
            }
        }
    }

    pub(super) fn from_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NoSocket,
            io::ErrorKind::PermissionDenied => Self::PermissionDenied,
            io::ErrorKind::ConnectionRefused => Self::ConnectionRefused,
            io::ErrorKind::TimedOut => Self::TimedOut,
            _ => Self::ConnectionLost(one_line(&error.to_string())),
        }
    }

    /// Returns a hint, if there is one.
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::PermissionDenied => Some(
                "join the group that owns the socket (for Docker: `sudo usermod -aG docker $USER`) and log in \
                 again",
            ),
            Self::ConnectionRefused | Self::NoSocket | Self::ConnectionLost(_) => {
                Some("start the container engine and try again")
            }
            Self::TimedOut => Some("check whether the container engine still responds"),
            Self::ErrorStatus(..) | Self::InvalidResponse(_) => None,
        }
    }

    /// Creates the error of an operation, such as `cannot start container x`.
    pub(super) fn into_error(self, operation: impl Into<Cow<'static, str>>) -> Error {
        let kind = match &self {
            Self::ErrorStatus(404, _) => ErrorKind::NotFound,
            Self::ErrorStatus(..) | Self::InvalidResponse(_) => ErrorKind::Engine,
            Self::NoSocket
            | Self::PermissionDenied
            | Self::ConnectionRefused
            | Self::TimedOut
            | Self::ConnectionLost(_) => ErrorKind::EngineUnavailable,
        };
        let hint = self.hint();
        let error = Error::new(kind, operation).source(self);
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

impl fmt::Display for EngineFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ErrorStatus(status, message) if message.is_empty() => {
                write!(f, "the engine responded with status {status}")
            }
            Self::ErrorStatus(_, message) => f.write_str(message),
            Self::NoSocket => f.write_str("no socket there"),
            Self::PermissionDenied => f.write_str("permission denied"),
            Self::ConnectionRefused => f.write_str("connection refused"),
            Self::TimedOut => f.write_str("no response in time"),
            Self::ConnectionLost(why) => write!(f, "connection lost ({why})"),
            Self::InvalidResponse(why) => write!(f, "the engine's response is invalid ({why})"),
        }
    }
}

impl StdError for EngineFailure {}

/// Creates the error of an operation from that of the client library.
pub(super) fn api_error(error: &ApiError, operation: impl Into<Cow<'static, str>>) -> Error {
    EngineFailure::from_api(error).into_error(operation)
}

/// Trims the line breaks and spaces of an engine's message.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_cause_of_a_connection_error_is_named_once() {
        let error = ApiError::IOError { err: io::Error::from(io::ErrorKind::PermissionDenied) };
        let error = api_error(&error, "cannot list containers");
        assert_eq!(error.kind(), ErrorKind::EngineUnavailable);
        let text = error.to_string();
        assert!(text.starts_with("cannot list containers: permission denied; join the group"), "{text}");
    }

    #[test]
    fn engine_messages_become_one_line() {
        let error = ApiError::DockerResponseServerError { status_code: 500, message: "a\n  b\n".to_owned() };
        let error = api_error(&error, "cannot start `x`");
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Engine, "cannot start `x`: a b"));
    }
}
