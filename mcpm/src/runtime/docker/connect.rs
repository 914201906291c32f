//! Connects to an engine and learns what it is.

use std::{fmt, path::PathBuf, time::Duration};

use bollard::{API_DEFAULT_VERSION, BollardRequest, models::SystemVersion};
use serde::Deserialize;

use super::{Docker, errors::api_error, raw_get::get_json};
use crate::{
    Error, ErrorKind, Result,
    image::credentials::CredentialStore,
    runtime::{EngineInfo, EngineName},
};

/// The oldest API that is spoken: Docker Engine 20.10.
const MIN_API_VERSION: (u32, u32) = (1, 41);
/// How long an engine may take to answer its first request.
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an engine may take to describe itself.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long any later request may take until its answer begins. Stopping gets its grace on top.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// The port of an engine's API without TLS.
const PLAIN_PORT: u16 = 2375;
/// The port of an engine's API with TLS.
const TLS_PORT: u16 = 2376;

/// Where an engine's API is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineEndpoint {
    /// A socket on this machine.
    Unix(PathBuf),
    /// Host and port of an API without TLS.
    Tcp(String),
}

impl EngineEndpoint {
    /// Reads an address as `DOCKER_HOST` and `CONTAINER_HOST` hold it.
    ///
    /// # Errors
    /// `Unsupported` for SSH, TLS and Windows pipes, `InvalidOption` for anything that is no address.
    pub fn parse(text: &str) -> Result<Self> {
        let unsupported = |what: &str| {
            Error::new(ErrorKind::Unsupported, format!("cannot reach `{text}`: {what} is not supported yet"))
                .hint("use the engine's `unix://` or `tcp://` address")
        };
        let invalid = || {
            Error::new(ErrorKind::InvalidOption, format!("`{text}` is not the address of an engine"))
                .hint("write `unix:///path/to/socket` or `tcp://host:port`")
        };
        let (scheme, rest) = text.split_once("://").unwrap_or(("unix", text));
        match scheme {
            "unix" if rest.starts_with('/') => Ok(Self::Unix(PathBuf::from(rest))),
            "tcp" | "http" => {
                let authority = rest.trim_end_matches('/');
                let with_port = format!("{authority}:{PLAIN_PORT}");
                let parsed: http::uri::Authority = authority.parse().map_err(|_| invalid())?;
                match parsed.port_u16() {
                    Some(TLS_PORT) => Err(unsupported("TLS")),
                    _ if parsed.host().is_empty() || authority.contains(['/', '@']) => Err(invalid()),
                    Some(_) => Ok(Self::Tcp(authority.to_owned())),
                    None => Ok(Self::Tcp(with_port)),
                }
            }
            "https" => Err(unsupported("TLS")),
            "ssh" => Err(unsupported("SSH")),
            "npipe" => Err(unsupported("a Windows pipe")),
            _ => Err(invalid()),
        }
    }
}

impl fmt::Display for EngineEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(authority) => write!(f, "tcp://{authority}"),
        }
    }
}

impl Docker {
    /// Connects to the engine at `endpoint`, which has two seconds to answer.
    ///
    /// # Errors
    /// `EngineUnavailable` with the reason as its cause.
    pub async fn connect(endpoint: &EngineEndpoint, credentials: CredentialStore) -> Result<Self> {
        let operation = || format!("cannot use the engine at `{endpoint}`");
        let unavailable = |why: String| Error::new(ErrorKind::EngineUnavailable, operation()).source(why);
        let seconds = REQUEST_TIMEOUT.as_secs();
        let api = match endpoint {
            EngineEndpoint::Unix(path) => match path.to_str() {
                Some(path) => bollard::Docker::connect_with_unix(path, seconds, API_DEFAULT_VERSION),
                None => return Err(unavailable("its path is not UTF-8".to_owned())),
            },
            EngineEndpoint::Tcp(authority) => {
                bollard::Docker::connect_with_http(authority, seconds, API_DEFAULT_VERSION)
            }
        };
        let failed = |error| api_error(&error, operation());
        let late = |_| unavailable("no answer in time".to_owned());
        let api = api.map_err(failed)?;
        tokio::time::timeout(PING_TIMEOUT, api.ping()).await.map_err(late)?.map_err(failed)?;
        // Podman runs programs to find out its versions, which takes its time on a busy machine.
        let describe = async {
            let api = api.negotiate_version().await?;
            let version = api.version().await?;
            Ok((api, version))
        };
        let (api, version) =
            tokio::time::timeout(DESCRIBE_TIMEOUT, describe).await.map_err(late)?.map_err(failed)?;
        let offered = version.api_version.clone().unwrap_or_default();
        if !is_new_enough(&offered) {
            return Err(unavailable(format!("it speaks API {offered} only"))
                .hint("update it to Docker Engine 20.10 or Podman 4 at least"));
        }
        let spoken = api.client_version().to_string();
        let api = api.with_request_modifier(pin_version(&spoken));
        let path = format!("/v{spoken}/info");
        let info = tokio::time::timeout(DESCRIBE_TIMEOUT, get_json::<SystemInfo>(endpoint, &path))
            .await
            .map_err(late)?;
        let info = info.map_err(|failure| failure.into_error(operation()))?;
        let name = engine_name(&version);
        let traits = EngineCapabilities::detect(name, endpoint, &info);
        let engine = EngineInfo {
            name,
            version: version.version.unwrap_or_default(),
            api_version: spoken,
            endpoint: endpoint.to_string(),
            reaches_container_addresses: traits.same_kernel && !info.is_rootless(),
            shares_sockets: traits.same_kernel,
            architecture: info.architecture().to_owned(),
        };
        Ok(Self { api, endpoint: endpoint.clone(), engine, traits, credentials })
    }
}

/// What an engine tells of itself and its machine: the parts that matter here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct SystemInfo {
    kernel_version: String,
    architecture: String,
    logging_driver: String,
    init_commit: Commit,
    security_options: Option<Vec<String>>,
    /// Podman's way to say it.
    rootless: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Commit {
    #[serde(rename = "ID")]
    id: String,
}

impl SystemInfo {
    /// The processor, as Rust has it; one engine asks the kernel, the other the language it is written in.
    fn architecture(&self) -> &str {
        match self.architecture.as_str() {
            "amd64" => "x86_64",
            "arm64" => "aarch64",
            other => other,
        }
    }

    fn is_rootless(&self) -> bool {
        self.rootless || self.has_security_option("rootless")
    }

    fn has_security_option(&self, security: &str) -> bool {
        self.security_options.iter().flatten().any(|option| option.contains(security))
    }
}

/// What an engine can do, which requests depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EngineCapabilities {
    /// Whether it has the small init program that forwards signals and reaps processes.
    pub(super) init: bool,
    /// The log driver, when it is one whose size can be bounded.
    pub(super) bounded_log_driver: Option<String>,
    /// Whether a folder in memory begins with the image's files in it, unless told otherwise.
    pub(super) copies_image_into_tmpfs: bool,
    /// Whether the engine labels containers and files for SELinux.
    pub(super) selinux: bool,
    /// Whether containers run on the kernel that this process runs on.
    pub(super) same_kernel: bool,
}

impl EngineCapabilities {
    fn detect(name: EngineName, endpoint: &EngineEndpoint, info: &SystemInfo) -> Self {
        let log_driver = match name {
            EngineName::Docker => info.logging_driver.as_str(),
            // It does not tell its default, and always has its own.
            EngineName::Podman => "k8s-file",
        };
        let is_bounded = matches!(log_driver, "json-file" | "local" | "k8s-file");
        Self {
            // Docker writes this when it cannot run the program.
            init: info.init_commit.id != "N/A",
            bounded_log_driver: is_bounded.then(|| log_driver.to_owned()),
            copies_image_into_tmpfs: name == EngineName::Podman,
            selinux: info.has_security_option("selinux"),
            same_kernel: matches!(endpoint, EngineEndpoint::Unix(_)) && runs_on_this_kernel(info),
        }
    }
}

/// Puts the version of the API in front of each request's path. The client library settles one and then leaves it
/// out, which means whatever the engine takes for the newest.
fn pin_version(version: &str) -> impl Fn(BollardRequest) -> BollardRequest + Send + Sync + 'static {
    let prefix = format!("/v{version}");
    move |mut request| {
        let mut parts = request.uri().clone().into_parts();
        let path = parts.path_and_query.as_ref().map_or("/", |path| path.as_str());
        if !path.starts_with(&prefix) {
            parts.path_and_query = format!("{prefix}{path}").parse().ok();
            if let Ok(uri) = http::Uri::from_parts(parts) {
                *request.uri_mut() = uri;
            }
        }
        request
    }
}

fn engine_name(version: &SystemVersion) -> EngineName {
    let mut components = version.components.iter().flatten();
    if components.any(|part| part.name.to_ascii_lowercase().contains("podman")) {
        EngineName::Podman
    } else {
        EngineName::Docker
    }
}

/// A virtual machine shares its socket with this one, but not its kernel.
fn runs_on_this_kernel(info: &SystemInfo) -> bool {
    let ours = rustix::system::uname();
    ours.sysname().to_bytes() == b"Linux" && info.kernel_version.as_bytes() == ours.release().to_bytes()
}

fn is_new_enough(api: &str) -> bool {
    let parsed =
        api.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parsed.is_some_and(|version: (u32, u32)| version >= MIN_API_VERSION)
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
