//! Option types that are one of a few words.

use std::{fmt, path::PathBuf, str::FromStr};

use super::{ValueKind, value::invalid_value};
use crate::{Error, Result};

choice! {
    /// How the server speaks MCP.
    Transport {
        /// HTTP with server-sent events
        Sse = "sse",
        /// Streamable HTTP
        StreamableHttp = "streamable-http",
        /// Standard input and output
        Stdio = "stdio",
    }

    /// How the proxy of a stdio server speaks MCP to its clients.
    ProxyMode {
        /// Streamable HTTP
        StreamableHttp = "streamable-http",
        /// HTTP with server-sent events; deprecated and will be removed
        Sse = "sse",
    }

    /// What happens to an image whose provenance cannot be verified.
    ImageVerification {
        /// Starts it after a warning
        Warn = "warn",
        /// Refuses it
        Enabled = "enabled",
        /// Does not look
        Disabled = "disabled",
    }

    /// The kind of token that is exchanged for another.
    SubjectTokenType {
        /// An access token
        AccessToken = "access_token",
        /// An ID token, which some identity providers' security token service requires
        IdToken = "id_token",
    }

    /// How telemetry travels to its collector.
    OtlpProtocol {
        /// Protobuf over HTTP
        Http = "http",
        /// gRPC
        Grpc = "grpc",
    }

    /// The container engine a workload runs on.
    RuntimeChoice {
        /// The first engine that answers
        Auto = "auto",
        /// Docker
        Docker = "docker",
        /// Podman
        Podman = "podman",
    }

    /// Protocol of a published port.
    Protocol {
        /// TCP
        Tcp = "tcp",
        /// UDP
        Udp = "udp",
    }

    /// SELinux relabelling of a volume.
    Relabel {
        /// Shared between containers
        Shared = "z",
        /// Private to the container
        Private = "Z",
    }
}

/// What a container may do: a named profile, or the path to one in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PermissionProfile {
    /// `none`: nothing beyond the container itself. Not called `None`, which Swift would take for an absent option.
    Nothing,
    /// `network`: any network.
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
