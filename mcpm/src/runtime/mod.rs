//! Container runtimes behind one trait.
//!
//! A [`Runtime`] creates, starts, watches and removes containers. It knows nothing of MCP: the workload module
//! says what to start in a [`ContainerSpec`], the transport module speaks over the [`Attachment`]. A runtime
//! touches only containers that carry [`labels::MANAGED`], whatever their name.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWrite;

pub use crate::options::{Protocol, Relabel};
use crate::{Result, image::ImageReference};
pub use build::{BuildProgress, BuildRequest, UntaggedImage};

mod build;
pub mod discover;
pub mod docker;
pub mod labels;

/// What a runtime can do for a workload.
#[async_trait]
pub trait Runtime: Send + Sync + fmt::Debug {
    /// Returns what the engine said of itself, once it is known to answer still.
    async fn engine(&self) -> Result<EngineInfo>;

    /// Returns what is known of an image on this machine, or `None` when it is not here.
    async fn image(&self, reference: &ImageReference) -> Result<Option<ImageInfo>>;

    /// Pulls an image, telling `progress` how far it is.
    ///
    /// # Errors
    /// `ImageUnavailable` names the image, the registry and what to do.
    async fn pull(
        &self,
        reference: &ImageReference,
        progress: &(dyn Fn(PullProgress) + Send + Sync),
    ) -> Result<ImageInfo>;

    /// Builds an image from a build context and returns its id, telling `progress` what happens.
    ///
    /// A build that is no longer waited for is ended.
    ///
    /// # Errors
    /// `ImageUnavailable` names the step that failed, its exit code and what it last wrote.
    async fn build(
        &self,
        request: BuildRequest,
        progress: &(dyn Fn(BuildProgress) + Send + Sync),
    ) -> Result<String>;

    /// Lists images that have a label and no name, and that no other image is based on.
    async fn untagged_images(&self, label: &str) -> Result<Vec<UntaggedImage>>;

    /// Removes an image, and those without a name that only it was based on. One that is in use stays, and one that is
    /// gone already is success.
    async fn remove_image(&self, id: &str) -> Result<()>;

    /// Tells whether a network of that name exists.
    async fn network_exists(&self, name: &str) -> Result<bool>;

    /// Returns the addresses by which containers reach the engine's machine.
    async fn gateways(&self) -> Result<Vec<IpAddr>>;

    /// Creates a container and returns its id. Nothing of it is left behind on failure.
    ///
    /// # Errors
    /// `NameTaken` when a container of that name exists, ours or not, `ImageUnavailable` when the image is not
    /// here, `InvalidOption` when a mounted path does not exist.
    async fn create(&self, spec: &ContainerSpec) -> Result<ContainerId>;

    /// Opens the container's standard streams. Call it before [`start`](Self::start) to lose nothing.
    async fn attach(&self, id: &ContainerId) -> Result<Attachment>;

    /// Starts a created or ended container. Running already is success.
    ///
    /// # Errors
    /// `PortTaken` when a published port is in use, `StartFailed` when the image's program cannot be run.
    async fn start(&self, id: &ContainerId) -> Result<()>;

    /// Waits until a started container ends; returns at once when it has.
    ///
    /// # Errors
    /// `EngineUnavailable` when the engine goes away meanwhile: the container may live on, so wait again.
    async fn wait(&self, id: &ContainerId) -> Result<Exit>;

    /// Returns the container of that id or name, or `None` when there is none or it is not ours.
    async fn inspect(&self, id_or_name: &str) -> Result<Option<ContainerInfo>>;

    /// Lists our containers, running or not.
    async fn list(&self) -> Result<Vec<ContainerInfo>>;

    /// Puts a program into a folder of a container, which must be in a volume of its own or can be written to.
    /// Anybody in the container may run it.
    async fn upload(&self, id: &ContainerId, folder: &str, name: &str, program: &[u8]) -> Result<()>;

    /// Runs a further program in a running container and opens its standard streams.
    async fn execute(&self, id: &ContainerId, command: &[String]) -> Result<Attachment>;

    /// Streams what the container wrote, oldest first.
    async fn logs(
        &self,
        id: &ContainerId,
        options: LogOptions,
    ) -> Result<BoxStream<'static, Result<LogChunk>>>;

    /// Asks the container to end and kills it after `grace`, in whole seconds. Ended or gone already is success.
    async fn stop(&self, id: &ContainerId, grace: Duration) -> Result<()>;

    /// Removes an ended or running container of ours and its anonymous volumes. Gone already is success.
    async fn remove(&self, id: &ContainerId) -> Result<()>;
}

/// The engine's id of a container.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContainerId(pub String);

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A container engine that mcpm can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// Docker Engine, and whatever else speaks its API.
    Docker,
    /// Podman, through its Docker-compatible API.
    Podman,
}

impl EngineName {
    /// Returns the name as users write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an engine says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineInfo {
    /// Which engine it is.
    pub name: EngineName,
    /// Version of the engine.
    pub version: String,
    /// Version of the API spoken with it.
    pub api_version: String,
    /// Where it was found, such as `unix:///var/run/docker.sock`.
    pub endpoint: String,
    /// Whether containers' own addresses can be reached from this process: an engine on this Linux machine,
    /// not rootless and not in a virtual machine.
    pub reaches_container_addresses: bool,
    /// Whether a socket that is mounted into a container can be connected to there: an engine on this machine's
    /// kernel, and this process on Linux.
    pub shares_sockets: bool,
    /// The processor its containers' programs are for, such as `x86_64` or `aarch64`.
    pub architecture: String,
}

/// What is known of an image that is here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageInfo {
    /// The engine's image id, a digest of its configuration.
    pub id: String,
    /// `name@sha256:…` when the image came from a registry.
    pub digest: Option<String>,
    /// TCP ports the image says it listens on, ascending.
    pub exposed_ports: Vec<u16>,
    /// Entry point and default command, for the plan.
    pub entrypoint: Vec<String>,
    /// Default arguments, replaced by the user's.
    pub command: Vec<String>,
    /// Labels of a build for a package; others are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// How far a pull is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullProgress {
    /// Bytes fetched of all layers known so far.
    pub current: u64,
    /// Bytes of all layers known so far; grows while layers are found.
    pub total: u64,
}

/// Everything a container is created from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerSpec {
    /// Name of the container.
    pub name: String,
    /// Image to start, as the engine is told.
    pub image: String,
    /// Arguments that replace the image's default command; empty keeps it.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// All labels, ours included.
    pub labels: BTreeMap<String, String>,
    /// Mounted folders and files.
    pub mounts: Vec<Mount>,
    /// Empty files and folders that cover parts of what is mounted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlays: Vec<Mount>,
    /// How the container is joined to the network.
    pub network: Network,
    /// Ports published on this machine.
    pub ports: Vec<PublishedPort>,
    /// Whether standard input stays open, for a stdio server.
    pub stdin: bool,
    /// Most processes and threads at once.
    pub pids_limit: i64,
    /// What else it is confined by.
    #[serde(default, skip_serializing_if = "Confinement::is_default")]
    pub confinement: Confinement,
    /// A program that runs in place of the image's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntrypointOverride>,
}

/// Bounds of a container beyond those that each has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Confinement {
    /// Most bytes of memory, swap included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Most processor time, in billionths of a processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nano_cpus: Option<u64>,
    /// Whether the image's own files cannot be changed.
    pub read_only_root: bool,
    /// Folders in memory: absolute paths in the container, and the most bytes in each.
    pub tmpfs: BTreeMap<String, u64>,
    /// Whether there are no fences at all.
    pub privileged: bool,
}

impl Confinement {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A program that is a container's first process and starts the image's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntrypointOverride {
    /// The program, by its path in the container, and its arguments.
    pub command: Vec<String>,
    /// Names of `/etc/hosts` in records of earlier versions. They are looked up now, and this is not used.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, Ipv4Addr>,
    /// Where names are looked up, on the container's port 53 which any user may listen on.
    pub name_server: Ipv4Addr,
    /// A folder of the container that is a volume of its own, which the program is brought into before each start;
    /// `None` when it is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
}

/// One bind mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// Absolute path on this machine; it exists.
    pub source: PathBuf,
    /// Absolute path in the container.
    pub target: String,
    /// Whether the container may only read it.
    pub read_only: bool,
    /// SELinux relabelling: `z` (shared) or `Z` (private).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relabel: Option<Relabel>,
}

/// How a container is joined to the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// The engine's default bridge.
    Bridge,
    /// The machine's own network.
    Host,
    /// No network at all.
    None,
    /// A network of that name, or any other mode the engine knows, such as `container:NAME`.
    Custom(String),
}

impl Network {
    /// Tells whether it is the network of another container.
    pub(crate) fn is_of_container(&self) -> bool {
        matches!(self, Self::Custom(mode) if mode.starts_with("container:"))
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bridge => "bridge",
            Self::Host => "host",
            Self::None => "none",
            Self::Custom(name) => name,
        })
    }
}

/// A container port published on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedPort {
    /// Address to bind; loopback unless the user wrote another.
    pub host_ip: IpAddr,
    /// Port on this machine; 0 lets the engine choose.
    pub host_port: u16,
    /// Port in the container.
    pub container_port: u16,
    /// `tcp` or `udp`.
    pub protocol: Protocol,
}

/// What the engine says of a container of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerInfo {
    /// Its id.
    pub id: ContainerId,
    /// Its name, without a leading slash.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether its process lives.
    pub state: ContainerState,
    /// The first process as seen from this machine; `None` when it does not run or runs on another kernel.
    /// Always `None` in lists.
    pub pid: Option<u32>,
    /// Its addresses, by network name. Always empty in lists.
    pub addresses: BTreeMap<String, IpAddr>,
    /// Published ports with the host ports the engine chose. Always empty in lists.
    pub ports: Vec<PublishedPort>,
    /// The engine's word for the kind of its network, such as `host` and `none`; of another container's, where it is in
    /// that one's. Always empty in lists.
    pub network_mode: String,
}

/// Whether a container lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerState {
    /// Created, never started.
    Created,
    /// Its process lives.
    Running,
    /// Its process ended.
    Exited(Exit),
}

/// How a container ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Its exit code; 128 + n after signal n.
    pub code: i64,
    /// Whether the kernel ended it for lack of memory.
    pub out_of_memory: bool,
}

/// What to read of a container's output.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogOptions {
    /// Keep on streaming until the container ends.
    pub follow: bool,
    /// Only that many last lines; all when `None`.
    pub tail: Option<usize>,
}

/// A piece of a container's output; not aligned to lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChunk {
    /// Which stream it was written to.
    pub stream: LogStream,
    /// The bytes.
    pub bytes: Bytes,
}

/// A container's output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A container's open standard streams.
pub struct Attachment {
    /// Standard input.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Standard output and error as they come; ends when the container does or the engine goes away.
    pub output: BoxStream<'static, Result<LogChunk>>,
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attachment(..)")
    }
}
