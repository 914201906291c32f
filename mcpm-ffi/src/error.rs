//! Exports the error type to Python and Swift.

use std::{collections::HashMap, fmt};

use mcpm::ErrorKind;

macro_rules! errors {
    ($($(#[doc = $help:literal])+ $kind:ident,)+) => {
        /// An error of an operation.
        #[derive(Debug, uniffi::Error)]
        #[uniffi::export(Display)]
        pub enum McpmError {
            $(
                $(#[doc = $help])+
                $kind {
                    /// What happened and what to do next, in one line.
                    message: String,
                    /// What to do next, if that is known.
                    hint: Option<String>,
                    /// The inputs of the operation, such as the option or the file, by their names.
                    context: HashMap<String, String>,
                },
            )+
        }

        impl From<mcpm::Error> for McpmError {
            fn from(error: mcpm::Error) -> Self {
                let (message, hint) = (error.to_string(), error.next_step().map(str::to_owned));
                let context = error.context().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                match error.kind() {
                    $( ErrorKind::$kind => Self::$kind { message, hint, context }, )+
                }
            }
        }

        impl From<McpmError> for mcpm::Error {
            fn from(error: McpmError) -> Self {
                match error {
                    $( McpmError::$kind { message, .. } => Self::new(ErrorKind::$kind, message), )+
                }
            }
        }

        #[uniffi::export]
        impl McpmError {
            /// Returns the stable name of the kind, as printed in JSON output.
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
                    $( Self::$kind { message, .. } => f.write_str(message), )+
                }
            }
        }
    };
}

errors! {
    /// An option has an invalid value, or options contradict each other.
    InvalidOption,
    /// The option, value or operation is known, but is not implemented or not included in this build.
    Unsupported,
    /// No workload, group or file with that name exists.
    NotFound,
    /// A workload or group with that name exists already.
    NameTaken,
    /// The port to listen on is in use.
    PortTaken,
    /// No container engine responded, or it denied access.
    EngineUnavailable,
    /// The image is not present locally and cannot be pulled.
    ImageUnavailable,
    /// The image must be signed, and has no valid signature.
    ImageUnverified,
    /// The secret store cannot be opened: a wrong or missing password, no keyring, or a failing program.
    SecretsUnavailable,
    /// The server exited or did not respond before it was ready.
    StartFailed,
    /// A file or folder could not be read or written, or a prompt failed.
    Io,
    /// A stored file is damaged or of an unsupported version.
    CorruptState,
    /// The engine rejected an operation or sent an invalid response.
    Engine,
    /// The registry cannot be read, or its entry for a server is not usable.
    Registry,
    /// The remote server requires a login, and no user can be asked to log in.
    LoginRequired,
    /// The MCP server or an identity provider failed.
    Upstream,
    /// The operation was cancelled by its caller, by the user in a prompt, or by a shutdown.
    Interrupted,
    /// A defect in mcpm.
    Internal,
}

impl std::error::Error for McpmError {}
