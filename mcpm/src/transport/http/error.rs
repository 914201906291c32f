//! The errors of an HTTP exchange with a server.

use std::{error::Error, fmt, io};

/// Why a body failed before its end.
pub(crate) type BodyError = Box<dyn Error + Send + Sync>;

/// Why an exchange with a server failed.
#[derive(Debug)]
pub(crate) enum ConnectionError {
    /// The connection failed.
    Io(io::Error),
    /// The connection was closed before the end of the response.
    Closed,
    /// The response is not valid HTTP.
    Malformed(&'static str),
    /// The body of the request failed.
    RequestBody(BodyError),
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(_) => f.write_str("the connection failed"),
            Self::Closed => f.write_str("the connection was closed before the end of the response"),
            Self::Malformed(reason) => write!(f, "invalid response: {reason}"),
            Self::RequestBody(_) => f.write_str("the body of the request failed"),
        }
    }
}

impl Error for ConnectionError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::RequestBody(error) => Some(error.as_ref()),
            Self::Closed | Self::Malformed(_) => None,
        }
    }
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
