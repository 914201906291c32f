//! Defines the option types whose values are keywords, and the permission profile.

use std::{fmt, path::PathBuf, str::FromStr};

use super::{ValueKind, value::invalid_value};
use crate::{Error, Result};

choice! {
    /// The MCP transport of the server.
    Transport {
        /// HTTP with server-sent events
        Sse = "sse",
        /// Streamable HTTP
        StreamableHttp = "streamable-http",
        /// Standard input and output
        Stdio = "stdio",
    }

    /// The transport that the proxy of a stdio server offers to clients.
    ProxyMode {
        /// Streamable HTTP
        StreamableHttp = "streamable-http",
        /// HTTP with server-sent events; deprecated and will be removed
        Sse = "sse",
    }

    /// What to do if the signature of an image is missing or invalid.
    ImageVerification {
        /// Warn and start
        Warn = "warn",
        /// Refuse to start
        Enabled = "enabled",
        /// Skip verification
        Disabled = "disabled",
    }

    /// The type of the token that is exchanged.
    SubjectTokenType {
        /// An access token
        AccessToken = "access_token",
        /// An ID token, which some identity providers' security token service requires
        IdToken = "id_token",
    }

    /// The transport of OTLP.
    OtlpProtocol {
        /// Protobuf over HTTP
        Http = "http",
        /// gRPC
        Grpc = "grpc",
    }

    /// The container runtime that a workload runs on.
    RuntimeChoice {
        /// The first engine that responds, or the built-in runtime
        Auto = "auto",
        /// Docker
        Docker = "docker",
        /// Podman
        Podman = "podman",
        /// Containers of mcpm itself, without an engine (Linux)
        Builtin = "builtin",
    }

    /// When a server that has exited is started again.
    RestartMode {
        /// Never; the workload ends with the server
        No = "no",
        /// Only if it exited with a code other than 0
        OnFailure = "on-failure",
        /// After every exit
        Always = "always",
    }

    /// The protocol of a published port.
    Protocol {
        /// TCP
        Tcp = "tcp",
        /// UDP
        Udp = "udp",
    }

    /// The SELinux relabelling of a volume.
    Relabel {
        /// Shared between containers
        Shared = "z",
        /// Private to the container
        Private = "Z",
    }
}

/// The permissions of a container: a built-in profile, or the path to a profile in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PermissionProfile {
    /// `none`: no connections, and no files of the host. Not called `None`, which Swift would confuse with an absent
    /// option.
    Nothing,
    /// `network`: access to any network.
    Network,
    /// A JSON file.
    File(PathBuf),
}

impl FromStr for PermissionProfile {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "" => Err(invalid_value("expected `none`, `network` or the path to a JSON file")),
            "none" => Ok(Self::Nothing),
            "network" => Ok(Self::Network),
            path => Ok(Self::File(path.into())),
        }
    }
}

impl fmt::Display for PermissionProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("none"),
            Self::Network => f.write_str("network"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

text_form!(PermissionProfile => ValueKind::Compound("none|network|FILE"));
