//! Container runtimes behind one trait.
//!
//! A [`Runtime`] pulls and builds images, and creates, starts, watches and removes containers. It is independent of
//! MCP: the workload module describes a container in a [`ContainerSpec`], the stdio module uses the [`Attachment`]. A
//! runtime never changes a container that mcpm did not create, whatever its name: in an engine, the label
//! [`labels::MANAGED`] marks mcpm's containers.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
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
#[cfg(any(feature = "docker", all(feature = "builtin", target_os = "linux")))]
mod build_log;
#[cfg_attr(
    not(all(
        feature = "builtin",
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )),
    path = "builtin/off.rs"
)]
pub mod builtin;
#[cfg_attr(not(feature = "docker"), path = "discover/off.rs")]
pub mod discover;
#[cfg(feature = "docker")]
pub mod docker;
pub mod labels;
pub(crate) mod output_log;

/// The operations of a container runtime.
#[async_trait]
pub trait Runtime: Send + Sync + fmt::Debug {
    /// Returns the description of the engine, after checking that it still responds.
    async fn engine(&self) -> Result<EngineInfo>;

    /// Returns the information about an image, or `None` if it is not on the machine of the engine.
    async fn image(&self, reference: &ImageReference) -> Result<Option<ImageInfo>>;

    /// Returns this runtime with further certificate authorities for image registries, from a PEM file; `None` if the
    /// runtime does not pull images itself. A container engine uses its own authorities.
    fn with_ca_bundle(&self, _path: &Path) -> Option<Arc<dyn Runtime>> {
        None
    }

    /// Pulls an image, reporting to `progress`.
    ///
    /// # Errors
    /// `ImageUnavailable` names the image, the registry and what to do.
    async fn pull(
        &self,
        reference: &ImageReference,
        progress: &(dyn Fn(PullProgress) + Send + Sync),
    ) -> Result<ImageInfo>;

    /// Builds an image from a build context and returns its id, reporting to `progress`.
    ///
    /// Dropping the future cancels the build.
    ///
    /// # Errors
    /// `ImageUnavailable` names the step that failed, its exit code and its last output.
    async fn build(
        &self,
        request: BuildRequest,
        progress: &(dyn Fn(BuildProgress) + Send + Sync),
    ) -> Result<String>;

    /// Lists images that have a label and no name, and that no other image is based on.
    async fn untagged_images(&self, label: &str) -> Result<Vec<UntaggedImage>>;

    /// Removes an image, and its unnamed parents that no other image uses. An image in use is not removed. If the image
    /// is gone already, that counts as success.
    async fn remove_image(&self, id: &str) -> Result<()>;

    /// Whether a network with that name exists.
    ///
    /// # Errors
    /// `Unsupported` if the runtime has no such networks.
    async fn network_exists(&self, name: &str) -> Result<bool>;

    /// Returns the addresses by which containers reach the engine's machine.
    async fn gateways(&self) -> Result<Vec<IpAddr>>;

    /// Creates a container and returns its id. Nothing is left behind on failure.
    ///
    /// # Errors
    /// `NameTaken` if any container with that name exists, `ImageUnavailable` if the engine does not
    /// have the image, `InvalidOption` if a mounted path does not exist.
    async fn create(&self, spec: &ContainerSpec) -> Result<ContainerId>;

    /// Attaches to the container's standard streams. Call it before [`start`](Self::start) to lose no output.
    async fn attach(&self, id: &ContainerId) -> Result<Attachment>;

    /// Starts a created or exited container. If it runs already, that counts as success.
    ///
    /// # Errors
    /// `PortTaken` if a published port is in use, `StartFailed` if the image's program cannot be run.
    async fn start(&self, id: &ContainerId) -> Result<()>;

    /// Waits until a started container exits; returns at once if it has exited already.
    ///
    /// # Errors
    /// `EngineUnavailable` if the engine stops meanwhile: the container may keep running, so wait again.
    async fn wait(&self, id: &ContainerId) -> Result<Exit>;

    /// Returns the container with that id or name, or `None` if there is none or mcpm did not create it.
    async fn inspect(&self, id_or_name: &str) -> Result<Option<ContainerInfo>>;

    /// Lists the containers that mcpm created, running or not.
    async fn list(&self) -> Result<Vec<ContainerInfo>>;

    /// Copies a program into a folder of a container, which must be in a volume of its own or writable. All users of
    /// the container may run it.
    async fn upload(&self, id: &ContainerId, folder: &str, name: &str, program: &[u8]) -> Result<()>;

    /// Runs a further program in a running container, and attaches to its standard streams.
    async fn execute(&self, id: &ContainerId, command: &[String]) -> Result<Attachment>;

    /// Streams the output of the container, oldest first.
    async fn logs(
        &self,
        id: &ContainerId,
        options: LogOptions,
    ) -> Result<BoxStream<'static, Result<LogChunk>>>;

    /// Stops the container, and kills it after `grace`, in whole seconds. If it is gone already, that is a success.
    async fn stop(&self, id: &ContainerId, grace: Duration) -> Result<()>;

    /// Removes a container that mcpm created, with its anonymous volumes. If it is gone already, that is a success.
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

/// A supported container runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineName {
    /// Docker Engine, or another engine with its API.
    Docker,
    /// Podman, through its Docker-compatible API.
    Podman,
    /// Containers that mcpm runs itself, without an engine.
    Builtin,
}

impl EngineName {
    /// Returns the name in the syntax of options.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Builtin => "builtin",
        }
    }
}

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The description of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineInfo {
    /// Which engine it is.
    pub name: EngineName,
    /// Version of the engine.
    pub version: String,
    /// Version of the API in use.
    pub api_version: String,
    /// The address of the engine, such as `unix:///var/run/docker.sock`.
    pub endpoint: String,
    /// Whether this process can connect to the addresses of containers: an engine on this Linux machine, neither
    /// rootless nor in a virtual machine.
    pub reaches_container_addresses: bool,
    /// Whether a container can connect to a mounted socket of this machine: an engine on the same kernel, and this
    /// process on Linux.
    pub shares_sockets: bool,
    /// The architecture of its containers, such as `x86_64` or `aarch64`.
    pub architecture: String,
    /// Whether its containers can only use the machine's own network or, like isolated containers, connect through
    /// mcpm.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub connects_through_mcpm: bool,
}

/// The information about a local image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageInfo {
    /// The engine's image id, a digest of its configuration.
    pub id: String,
    /// `name@sha256:…` if the image was pulled from a registry.
    pub digest: Option<String>,
    /// TCP ports that the image exposes, ascending.
    pub exposed_ports: Vec<u16>,
    /// Entry point and default command, for the plan.
    pub entrypoint: Vec<String>,
    /// Default arguments, replaced by the user's.
    pub command: Vec<String>,
    /// Labels of a package build; others are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// The progress of a pull.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullProgress {
    /// Downloaded bytes of all layers known so far.
    pub current: u64,
    /// Size of all layers known so far; grows while layers are found.
    pub total: u64,
}

/// The specification of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContainerSpec {
    /// Name of the container.
    pub name: String,
    /// The image to start, in the engine's syntax.
    pub image: String,
    /// Arguments that replace the image's default command; empty keeps it.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// All labels, including those of mcpm.
    pub labels: BTreeMap<String, String>,
    /// Mounted folders and files.
    pub mounts: Vec<Mount>,
    /// Empty files and folders that hide parts of the mounts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlays: Vec<Mount>,
    /// The network mode of the container.
    pub network: Network,
    /// Ports published on this machine.
    pub ports: Vec<PublishedPort>,
    /// Whether standard input stays open, for a stdio server.
    pub stdin: bool,
    /// Whether the engine keeps no log of the output; the process that attaches to the container then handles it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unlogged: bool,
    /// Most processes and threads at once.
    pub pids_limit: i64,
    /// Further limits.
    #[serde(default, skip_serializing_if = "Confinement::is_default")]
    pub confinement: Confinement,
    /// A program that runs in place of the image's program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<EntrypointOverride>,
}

/// Optional limits of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Confinement {
    /// Most bytes of memory, swap included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Most processor time, in billionths of a processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nano_cpus: Option<u64>,
    /// Whether the image's own files are read-only.
    pub read_only_root: bool,
    /// `tmpfs` folders: absolute paths in the container, and the most bytes in each.
    pub tmpfs: BTreeMap<String, u64>,
    /// Whether the container is privileged.
    pub privileged: bool,
}

impl Confinement {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A program that is the first process of a container and starts the image's program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntrypointOverride {
    /// The path of the program in the container, and its arguments.
    pub command: Vec<String>,
    /// Names of `/etc/hosts` in records of earlier versions. Unused: these names are now resolved by DNS.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, Ipv4Addr>,
    /// The address of the DNS server, on the container's port 53, which any user may listen on.
    pub name_server: Ipv4Addr,
    /// A folder of the container that is a volume, into which the program is copied before each start; `None` if it
    /// is mounted.
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

/// Creates the error for a network that only an engine may have.
pub(crate) fn network_of_engines(name: &str) -> crate::Error {
    use crate::{Error, ErrorKind, printable::Printable as _};

    let message = format!("the built-in runtime has no network `{}`", name.printable());
    Error::new(ErrorKind::Unsupported, message).hint("select a container engine with `runtime`")
}

/// Creates the error for a mount whose source does not exist.
#[cfg(any(feature = "docker", all(feature = "builtin", target_os = "linux")))]
pub(crate) fn missing_source(source: &str) -> crate::Error {
    use crate::{Error, ErrorKind};

    Error::new(ErrorKind::InvalidOption, format!("cannot mount `{source}`: it does not exist"))
        .hint("create it first, or correct the path")
}

/// The network mode of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// The engine's default bridge.
    Bridge,
    /// The machine's own network.
    Host,
    /// No network at all.
    None,
    /// A network with that name, or any other mode of the engine, such as `container:NAME`.
    Custom(String),
}

impl Network {
    /// Whether this is the network of another container.
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
    /// Address to bind; loopback unless the user chose another.
    pub host_ip: IpAddr,
    /// Port on this machine; 0 lets the engine choose.
    pub host_port: u16,
    /// Port in the container.
    pub container_port: u16,
    /// `tcp` or `udp`.
    pub protocol: Protocol,
}

/// The information about a container that mcpm created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerInfo {
    /// Its id.
    pub id: ContainerId,
    /// Its name, without a leading slash.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Whether its process runs.
    pub state: ContainerState,
    /// The process id of the first process on this machine; `None` if it does not run, or runs on another kernel.
    /// Always `None` in lists.
    pub pid: Option<u32>,
    /// Its addresses, by network name. Always empty in lists.
    pub addresses: BTreeMap<String, IpAddr>,
    /// Published ports with the host ports the engine chose. Always empty in lists.
    pub ports: Vec<PublishedPort>,
    /// The engine's name for its kind of network, such as `host` or `none`; if the container shares the network of
    /// another container, the kind of that network. Always empty in lists.
    pub network_mode: String,
    /// Whether it runs without control groups, so that nothing limits its memory and processor time. Always `false` with
    /// an engine, and for a container that does not run.
    pub lacks_control_groups: bool,
}

/// The state of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerState {
    /// Created, never started.
    Created,
    /// Its process runs.
    Running,
    /// Its process exited.
    Exited(Exit),
}

/// How a container exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Its exit code; 128 + n after signal n.
    pub code: i64,
    /// Whether the kernel killed it for lack of memory.
    pub out_of_memory: bool,
    /// Whether mcpm killed it because it used too much disk space. Only the process that started it knows that.
    #[serde(default)]
    pub exceeded_disk_limit: bool,
}

impl Exit {
    /// An exit with an exit code, and no other known cause.
    pub(crate) fn with_code(code: i64) -> Self {
        Self { code, out_of_memory: false, exceeded_disk_limit: false }
    }
}

/// Options for reading a container's output.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogOptions {
    /// Keep streaming until the container exits.
    pub follow: bool,
    /// Number of last lines; all if `None`.
    pub tail: Option<usize>,
}

/// A chunk of a container's output; not aligned to lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChunk {
    /// The stream that it was written to.
    pub stream: LogStream,
    /// The bytes.
    pub bytes: Bytes,
    /// When it was written to the log of a workload; `None` for output that is read from a container or from its
    /// engine.
    pub time: Option<SystemTime>,
}

/// A container's output stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// The attached standard streams of a container.
pub struct Attachment {
    /// Standard input.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Standard output and error; ends when the container exits or the engine stops.
    pub output: BoxStream<'static, Result<LogChunk>>,
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attachment(..)")
    }
}
