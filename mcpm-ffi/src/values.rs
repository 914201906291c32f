//! Exports the types of option values, states and log streams to Python and Swift.
//!
//! Each enum and record here mirrors a type of the library. If the two differ, this module does not compile.

use std::{
    net::{AddrParseError, IpAddr},
    path::PathBuf,
};

use mcpm::{
    Error, ErrorKind,
    options::{
        Attributes, EnvVar, Header, HeaderSecret, ImageVerification, KeyValue, OtlpProtocol,
        PermissionProfile, Protocol, ProxyMode, PublishSpec, Relabel, RestartMode, RuntimeChoice, Secret,
        SecretRef, SubjectTokenType, Transport, VolumeSpec,
    },
    runtime::LogStream,
    state::{LoginState, Phase, WorkloadState},
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
        let refused = Error::new(ErrorKind::InvalidOption, format!("`{text}` is not an IP address")).source(error);
        McpmError::from(refused).into()
    }),
});

// Records are never returned with their secrets.
uniffi::custom_type!(Secret, String, {
    remote,
    lower: |_secret| String::new(),
    try_lift: |text| Ok(Secret::from(text)),
});

/// The MCP transport of the server.
#[uniffi::remote(Enum)]
pub enum Transport {
    /// HTTP with server-sent events.
    Sse,
    /// Streamable HTTP.
    StreamableHttp,
    /// Standard input and output.
    Stdio,
}

/// The transport that the proxy of a stdio server offers to clients.
#[uniffi::remote(Enum)]
pub enum ProxyMode {
    /// Streamable HTTP.
    StreamableHttp,
    /// HTTP with server-sent events; deprecated and will be removed.
    Sse,
}

/// What to do if the signature of an image is missing or invalid.
#[uniffi::remote(Enum)]
pub enum ImageVerification {
    /// Warn and start.
    Warn,
    /// Refuse to start.
    Enabled,
    /// Skip verification.
    Disabled,
}

/// The type of the token that is exchanged.
#[uniffi::remote(Enum)]
pub enum SubjectTokenType {
    /// An access token.
    AccessToken,
    /// An ID token.
    IdToken,
}

/// The transport of OTLP.
#[uniffi::remote(Enum)]
pub enum OtlpProtocol {
    /// Protobuf over HTTP.
    Http,
    /// gRPC.
    Grpc,
}

/// The container runtime that a workload runs on.
#[uniffi::remote(Enum)]
pub enum RuntimeChoice {
    /// The first engine that responds, or the built-in runtime.
    Auto,
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// Containers of mcpm itself, without an engine (Linux).
    Builtin,
}

/// When a server that has exited is started again.
#[uniffi::remote(Enum)]
pub enum RestartMode {
    /// Never; the workload ends with the server.
    No,
    /// Unless the server exited with code 0.
    OnFailure,
    /// Always, whatever the exit code.
    Always,
}

/// The phase of a workload's or a proxy's life cycle.
#[uniffi::remote(Enum)]
pub enum Phase {
    /// Starting; not ready yet.
    Starting,
    /// Ready for requests.
    Running,
    /// The server exited and is being restarted.
    Restarting,
    /// Stopping on request.
    Stopping,
    /// Stopped on request.
    Stopped,
    /// Ended without a request to stop.
    Failed,
}

/// The phase of a recorded workload.
#[uniffi::remote(Enum)]
pub enum WorkloadState {
    /// Starting; not ready yet.
    Starting,
    /// Ready for requests.
    Running,
    /// The server exited and is being restarted.
    Restarting,
    /// Stopping on request.
    Stopping,
    /// Stopped on request.
    Stopped,
    /// Ended without a request to stop.
    Failed,
    /// The container is running, but no process of mcpm manages it, and it has no proxy.
    Orphaned,
    /// The engine cannot be reached.
    Unknown,
}

/// A stream of a server's output.
#[uniffi::remote(Enum)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The state of the login to a remote server.
#[uniffi::remote(Enum)]
pub enum LoginState {
    /// Requests have a valid token.
    Authenticated,
    /// The token is being renewed, or cannot be renewed because the authorization server cannot be reached.
    Refreshing,
    /// The login has ended or lacks scopes, so that the user has to log in.
    NeedsLogin,
}

/// The protocol of a published port.
#[uniffi::remote(Enum)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// The SELinux relabelling of a volume.
#[uniffi::remote(Enum)]
pub enum Relabel {
    /// Shared between containers.
    Shared,
    /// Private to the container.
    Private,
}

/// The permissions of a container.
#[uniffi::remote(Enum)]
pub enum PermissionProfile {
    /// No access to the network or to host folders.
    Nothing,
    /// Access to any network.
    Network,
    /// The profile in a JSON file.
    File(PathBuf),
}

/// A `key=value` pair.
#[uniffi::remote(Record)]
pub struct KeyValue {
    /// The key; never empty.
    pub key: String,
    /// The value; may be empty.
    pub value: String,
}

/// Additional resource attributes.
#[uniffi::remote(Record)]
pub struct Attributes {
    /// The attributes in their original order.
    pub entries: Vec<KeyValue>,
}

/// An environment variable of the server.
#[uniffi::remote(Record)]
pub struct EnvVar {
    /// The name; never empty.
    pub name: String,
    /// The value; may be empty.
    pub value: String,
}

/// A reference to a secret in the secret store. The server gets the value as an environment variable or as a file.
#[uniffi::remote(Record)]
pub struct SecretRef {
    /// The name of the secret.
    pub name: String,
    /// The name of the environment variable, or `file:` and an absolute path in the container.
    pub target: String,
}

/// An HTTP header; its value is treated as a secret.
#[uniffi::remote(Record)]
pub struct Header {
    /// The name.
    pub name: String,
    /// The value.
    pub value: Secret,
}

/// An HTTP header whose value is in the secret store.
#[uniffi::remote(Record)]
pub struct HeaderSecret {
    /// The name.
    pub name: String,
    /// The name of the secret that contains the value.
    pub secret: String,
}

/// A published container port.
#[uniffi::remote(Record)]
pub struct PublishSpec {
    /// The host address to bind; by default the loopback address.
    #[uniffi(default)]
    pub host_ip: Option<IpAddr>,
    /// The port on the host; by default any free port.
    #[uniffi(default)]
    pub host_port: Option<u16>,
    /// The port in the container.
    pub container_port: u16,
    /// The protocol.
    pub protocol: Protocol,
}

/// A bind mount of a host file or folder.
#[uniffi::remote(Record)]
pub struct VolumeSpec {
    /// The host path; a relative one is resolved when the workload starts.
    pub host_path: PathBuf,
    /// The absolute path in the container.
    pub container_path: String,
    /// Whether the mount is read-only.
    #[uniffi(default = false)]
    pub read_only: bool,
    /// The SELinux relabelling.
    #[uniffi(default)]
    pub relabel: Option<Relabel>,
}
