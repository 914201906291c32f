//! The error that Python and Swift see.

use std::fmt;

use mcpm::ErrorKind;

macro_rules! errors {
    ($($(#[doc = $help:literal])+ $kind:ident,)+) => {
        /// Why an operation failed.
        #[derive(Debug, uniffi::Error)]
        #[uniffi::export(Display)]
        pub enum McpmError {
            $(
                $(#[doc = $help])+
                $kind {
                    /// What went wrong and what to do next, in one line.
                    message: String,
                },
            )+
        }

        impl From<mcpm::Error> for McpmError {
            fn from(error: mcpm::Error) -> Self {
                let message = error.to_string();
                match error.kind() {
                    $( ErrorKind::$kind => Self::$kind { message }, )+
                }
            }
        }

        #[uniffi::export]
        impl McpmError {
            /// Returns the stable name of the kind of failure, as printed in JSON output.
            pub fn kind(&self) -> String {
                let kind = match self {
                    $( Self::$kind { .. } => ErrorKind::$kind, )+
                };
                kind.as_str().to_owned()
            }
        }

        impl fmt::Display for McpmError {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $( Self::$kind { message } => f.write_str(message), )+
                }
            }
        }
    };
}

errors! {
    /// An option has a bad value, or options contradict each other.
    InvalidOption,
    /// An option or a form is known but not built yet.
    Unsupported,
    /// No workload, group or file of that name exists.
    NotFound,
    /// A workload or group of that name exists already.
    NameTaken,
    /// The port to listen on is in use.
    PortTaken,
    /// No container engine answered, or it refused access.
    EngineUnavailable,
    /// The image is not on this machine and cannot be pulled.
    ImageUnavailable,
    /// The image must be signed, and has no signature that counts.
    ImageUnverified,
    /// The store of secrets cannot be opened: a wrong password or none, no keyring, a program that fails.
    SecretsUnavailable,
    /// The server ended, or never answered, before it was ready.
    StartFailed,
    /// A file or folder could not be read or written.
    Io,
    /// A stored file is damaged or of an unknown version.
    CorruptState,
    /// The engine refused an operation or answered nonsense.
    Engine,
    /// The registry cannot be read, or what it says of a server cannot be used.
    Registry,
    /// The MCP server behind the proxy failed.
    Upstream,
    /// The operation was stopped by its caller.
    Interrupted,
    /// A defect in mcpm itself.
    Internal,
}

impl std::error::Error for McpmError {}
