//! The types of option values as Python and Swift see them.
//!
//! Each mirrors a type of the library; one that differs does not compile.

use std::{
    net::{AddrParseError, IpAddr},
    path::PathBuf,
};

use mcpm::{
    Error, ErrorKind,
    options::{
        Attributes, EnvVar, Header, HeaderSecret, ImageVerification, KeyValue, OtlpProtocol,
        PermissionProfile, Protocol, ProxyMode, PublishSpec, Relabel, RuntimeChoice, Secret, SecretRef,
        SubjectTokenType, Transport, VolumeSpec,
    },
    state::Phase,
};

use crate::McpmError;

uniffi::custom_type!(PathBuf, String, {
    remote,
    lower: |path| path.to_string_lossy().into_owned(),
    try_lift: |text| Ok(PathBuf::from(text)),
});

uniffi::custom_type!(IpAddr, String, {
    remote,
    lower: |address| address.to_string(),
    try_lift: |text| text.parse().map_err(|error: AddrParseError| {
        let refused = Error::new(ErrorKind::InvalidOption, format!("`{text}` is no IP address")).source(error);
        McpmError::from(refused).into()
    }),
});

// A record is never handed back with its secrets.
uniffi::custom_type!(Secret, String, {
    remote,
    lower: |_secret| String::new(),
    try_lift: |text| Ok(Secret::from(text)),
});

/// How the server speaks MCP.
#[uniffi::remote(Enum)]
pub enum Transport {
    /// HTTP with server-sent events.
    Sse,
    /// Streamable HTTP.
    StreamableHttp,
    /// Standard input and output.
    Stdio,
}

/// How the proxy of a stdio server speaks MCP to its clients.
#[uniffi::remote(Enum)]
pub enum ProxyMode {
    /// Streamable HTTP.
    StreamableHttp,
    /// HTTP with server-sent events; deprecated and will be removed.
    Sse,
}

/// What happens to an image whose provenance cannot be verified.
#[uniffi::remote(Enum)]
pub enum ImageVerification {
    /// Starts it after a warning.
    Warn,
    /// Refuses it.
    Enabled,
    /// Does not look.
    Disabled,
}

/// The kind of token that is exchanged for another.
#[uniffi::remote(Enum)]
pub enum SubjectTokenType {
    /// An access token.
    AccessToken,
    /// An ID token.
    IdToken,
}

/// How telemetry travels to its collector.
#[uniffi::remote(Enum)]
pub enum OtlpProtocol {
    /// Protobuf over HTTP.
    Http,
    /// gRPC.
    Grpc,
}

/// The container engine a workload runs on.
#[uniffi::remote(Enum)]
pub enum RuntimeChoice {
    /// The first engine that answers.
    Auto,
    /// Docker.
    Docker,
    /// Podman.
    Podman,
}

/// Where a workload or a proxy is in its life.
#[uniffi::remote(Enum)]
pub enum Phase {
    /// On its way to its first answer.
    Starting,
    /// Answering.
    Running,
    /// Its server ended and is being started again.
    Restarting,
    /// On its way down, as asked.
    Stopping,
    /// Down, as asked.
    Stopped,
    /// Down for a reason that nobody asked for.
    Failed,
}

/// Protocol of a published port.
#[uniffi::remote(Enum)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// SELinux relabelling of a volume.
#[uniffi::remote(Enum)]
pub enum Relabel {
    /// Shared between containers.
    Shared,
    /// Private to the container.
    Private,
}

/// What a container may do.
#[uniffi::remote(Enum)]
pub enum PermissionProfile {
    /// Nothing beyond the container itself.
    Nothing,
    /// Any network.
    Network,
    /// What a JSON file says.
    File(PathBuf),
}

/// One `key=value`.
#[uniffi::remote(Record)]
pub struct KeyValue {
    /// Its key; never empty.
    pub key: String,
    /// Its value; may be empty.
    pub value: String,
}

/// Custom resource attributes.
#[uniffi::remote(Record)]
pub struct Attributes {
    /// The attributes in their order.
    pub entries: Vec<KeyValue>,
}

/// One environment variable of the server.
#[uniffi::remote(Record)]
pub struct EnvVar {
    /// Its name; never empty.
    pub name: String,
    /// Its value; may be empty.
    pub value: String,
}

/// A secret of the secrets manager that the server gets as an environment variable or as a file.
#[uniffi::remote(Record)]
pub struct SecretRef {
    /// Name of the secret.
    pub name: String,
    /// Name of the environment variable, or `file:` and an absolute path in the container.
    pub target: String,
}

/// One HTTP header; its value is treated as a secret.
#[uniffi::remote(Record)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Secret,
}

/// One HTTP header whose value is in the secrets manager.
#[uniffi::remote(Record)]
pub struct HeaderSecret {
    /// Its name.
    pub name: String,
    /// Name of the secret that is its value.
    pub secret: String,
}

/// A container port that is published on this machine.
#[uniffi::remote(Record)]
pub struct PublishSpec {
    /// Address to bind; the loopback address when left out.
    #[uniffi(default)]
    pub host_ip: Option<IpAddr>,
    /// Port on this machine; any free one when left out.
    #[uniffi(default)]
    pub host_port: Option<u16>,
    /// Port in the container.
    pub container_port: u16,
    /// Protocol of both.
    pub protocol: Protocol,
}

/// A file or folder of this machine that the container sees.
#[uniffi::remote(Record)]
pub struct VolumeSpec {
    /// Path on this machine; a relative one is resolved when the workload starts.
    pub host_path: PathBuf,
    /// Absolute path in the container.
    pub container_path: String,
    /// Whether the container may only read it.
    #[uniffi(default = false)]
    pub read_only: bool,
    /// SELinux relabelling.
    #[uniffi(default)]
    pub relabel: Option<Relabel>,
}
