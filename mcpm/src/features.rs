//! Lists the Cargo features of the library, except `mcp-client` and the internal `containers`, and creates the error
//! for an option or an operation that needs a disabled feature.

use std::fmt;

use crate::{Error, ErrorKind};

/// A Cargo feature of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// Containers and images without an engine, on Linux.
    Builtin,
    /// Entries of workloads in the configuration files of MCP clients.
    Clients,
    /// Container engines.
    Docker,
    /// The keyring of the desktop as a store of secrets.
    Keyring,
    /// Logins to remote servers, and bearer tokens for them.
    Login,
    /// Authorization by Cedar policies.
    Policy,
    /// The encrypted file as a store of secrets.
    Secrets,
    /// Traces and metrics.
    Telemetry,
    /// Image signatures.
    Verify,
}

impl Feature {
    /// All features that can be off.
    pub const ALL: &'static [Self] = &[
        Self::Builtin,
        Self::Clients,
        Self::Docker,
        Self::Keyring,
        Self::Login,
        Self::Policy,
        Self::Secrets,
        Self::Telemetry,
        Self::Verify,
    ];

    /// Returns the name in `Cargo.toml`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Clients => "clients",
            Self::Docker => "docker",
            Self::Keyring => "keyring",
            Self::Login => "login",
            Self::Policy => "policy",
            Self::Secrets => "secrets",
            Self::Telemetry => "telemetry",
            Self::Verify => "verify",
        }
    }

    /// Returns whether this build includes the feature.
    pub const fn is_enabled(self) -> bool {
        match self {
            Self::Builtin => cfg!(feature = "builtin"),
            Self::Clients => cfg!(feature = "clients"),
            Self::Docker => cfg!(feature = "docker"),
            Self::Keyring => cfg!(feature = "keyring"),
            Self::Login => cfg!(feature = "login"),
            Self::Policy => cfg!(feature = "policy"),
            Self::Secrets => cfg!(feature = "secrets"),
            Self::Telemetry => cfg!(feature = "telemetry"),
            Self::Verify => cfg!(feature = "verify"),
        }
    }

    /// Returns the error for `subject`, which needs the feature.
    pub(crate) fn missing(self, subject: &str) -> Error {
        Error::new(ErrorKind::Unsupported, format!("{subject} needs the Cargo feature `{self}`"))
            .hint("build mcpm with this Cargo feature")
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
