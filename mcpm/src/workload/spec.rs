//! Defines the spec: the resolved configuration of a workload, with the origins of its values.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::{WorkloadName, resolve::remote_url::RemoteUrl};
use crate::{
    Error, ErrorKind, Result,
    image::verify::VerifiedImage,
    isolation::IsolationSpec,
    options::{RestartMode, Secret, SecretRef, Transport, WorkloadOptions},
    proxy::ProxySpec,
    redact::url::redact_url_text,
    runtime::{ContainerSpec, EngineName},
};

/// How long a server may take to become ready, unless an option says otherwise.
const DEFAULT_START_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest start timeout.
const MAX_START_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// A workload as it is started and recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSpec {
    /// The version of the format.
    pub version: u32,
    /// Its name.
    pub name: WorkloadName,
    /// Its group.
    pub group: String,
    /// The options, for exports and for resolving again.
    pub asked: WorkloadOptions,
    /// How the server speaks MCP.
    pub transport: Transport,
    /// The proxy.
    pub proxy: ProxySpec,
    /// The port of an HTTP server in a container; `None` for stdio and remote servers.
    pub target: Option<TargetSpec>,
    /// Where the server runs.
    pub place: Placement,
    /// The address of the engine that has the container. `None` for a remote server, and in old records.
    pub engine: Option<String>,
    /// The kind of that engine. `None` for a remote server, and in old records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<EngineName>,
    /// References to the server's secrets. Their values are read at each start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretRef>,
    /// How variables contain their secrets, by the variable; a secret without a format is the whole value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) secret_formats: BTreeMap<String, SecretFormat>,
    /// The network policy of an isolated container; `None` without isolation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<IsolationSpec>,
    /// Warnings at each start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The package that its image was built for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<PackageSpec>,
    /// The verified signer of its image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<VerifiedImage>,
    /// The origins of values, by name.
    pub origins: BTreeMap<String, ValueOrigin>,
}

impl WorkloadSpec {
    /// Returns the container it runs in; `None` for a remote server.
    pub fn container(&self) -> Option<&ContainerSpec> {
        match &self.place {
            Placement::Container(container) => Some(container),
            Placement::Remote(_) => None,
        }
    }

    /// Returns the names of the secrets that the server gets.
    pub fn secret_names(&self) -> Vec<String> {
        self.secrets.iter().map(|secret| secret.name.clone()).collect()
    }

    /// Returns the names of the secrets that the user typed, which are not stored.
    pub fn prompted_secret_names(&self) -> Vec<String> {
        let typed = |secret: &&SecretRef| self.secret_origin(secret) == Some(ValueOrigin::Answered);
        self.secrets.iter().filter(typed).map(|secret| secret.name.clone()).collect()
    }

    /// Returns when the server is started again.
    pub fn restart_mode(&self) -> RestartMode {
        self.asked.restart.unwrap_or(RestartMode::Always)
    }

    /// Returns how long the server may take to become ready.
    pub fn start_timeout(&self) -> Duration {
        self.asked.start_timeout.unwrap_or(DEFAULT_START_TIMEOUT)
    }

    /// Sets how long the server may take to become ready, from the next start on.
    ///
    /// # Errors
    /// `InvalidOption` for a timeout of zero or of more than an hour, and for a remote server.
    pub fn set_start_timeout(&mut self, timeout: Duration) -> Result<()> {
        check_start_timeout(timeout)?;
        if self.container().is_none() {
            let message = "`start_timeout` is for containers, but this server is remote";
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        self.asked.start_timeout = Some(timeout);
        Ok(())
    }

    pub(super) fn secret_origin(&self, secret: &SecretRef) -> Option<ValueOrigin> {
        let own = self.origins.get(&format!("secret.{}", secret.target));
        own.or_else(|| self.origins.get("secret")).copied()
    }
}

/// Rejects a start timeout that is out of bounds.
pub(super) fn check_start_timeout(timeout: Duration) -> Result<()> {
    if !timeout.is_zero() && timeout <= MAX_START_TIMEOUT {
        return Ok(());
    }
    let value = humantime::format_duration(timeout);
    let message = format!(
        "invalid value `{value}` for `start_timeout`: expected more than 0 seconds, and at most 1 hour"
    );
    Err(Error::new(ErrorKind::InvalidOption, message))
}

/// How a variable contains a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum SecretFormat {
    /// The secret is a part of the value.
    Part {
        /// The text before the secret.
        before: String,
        /// The text after it.
        after: String,
    },
    /// The secret is the whole value, but the user typed only parts of it.
    Whole,
}

impl SecretFormat {
    /// Returns the value of a variable.
    pub(super) fn apply(&self, secret: &Secret) -> Secret {
        match self {
            Self::Part { before, after } => {
                let text = secret.expose();
                let start = text.get(..before.len()).unwrap_or_default();
                // A secret may have been stored together with its scheme, such as `Bearer `. Another prefix may be a
                // part of the secret.
                let has_scheme = before.ends_with(' ') && start.eq_ignore_ascii_case(before);
                let before = if has_scheme { "" } else { before.as_str() };
                Secret::from(format!("{before}{text}{after}"))
            }
            Self::Whole => secret.clone(),
        }
    }
}

/// Where a server runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// In a container of this workload.
    Container(Box<ContainerSpec>),
    /// Remotely: mcpm neither starts nor stops the server.
    Remote(RemoteSpec),
}

/// The package that a server came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageSpec {
    /// The given package; a local project with an absolute path.
    pub reference: String,
    /// The installed version; `None` until the image is built, and for a local project.
    pub version: Option<String>,
}

impl fmt::Display for PackageSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(version) => write!(f, "{}, version {version}", self.reference),
            None => f.write_str(&self.reference),
        }
    }
}

/// A remote server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteSpec {
    /// Its URL, with path and query.
    pub url: String,
    /// Headers of each request to it, by name, without secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

impl RemoteSpec {
    /// Returns the URL for display, without its query, which often contains a key.
    pub fn redacted_url(&self) -> String {
        RemoteUrl::parse(&self.url).map_or_else(|_| redact_url_text(&self.url), |url| url.redacted())
    }
}

/// The address of an HTTP server in a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetSpec {
    /// The port that the server listens on in its container.
    pub port: u16,
    /// How the proxy connects to that port.
    pub via: Via,
}

/// How the proxy connects to a container's port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// The container's own address.
    ContainerAddress,
    /// A port of this machine that the engine chose.
    PublishedPort,
    /// A connection that the shim of the isolated container offers.
    Inbound,
    /// The container shares the machine's network: this host and the server's own port.
    Host(String),
}

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueOrigin {
    /// A command-line flag or a builder's setter.
    Given,
    /// An environment file.
    EnvFile,
    /// An exported configuration.
    ExportedFile,
    /// A permission profile.
    Profile,
    /// A registry entry.
    Registry,
    /// The manifest of an MCP bundle.
    Bundle,
    /// A prompt.
    Answered,
    /// The image.
    Image,
    /// Derived from other values.
    Derived,
    /// The declared default.
    Default,
}

impl fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Given => "given",
            Self::EnvFile => "environment file",
            Self::ExportedFile => "exported file",
            Self::Profile => "permission profile",
            Self::Registry => "registry",
            Self::Bundle => "bundle",
            Self::Answered => "answered",
            Self::Image => "image",
            Self::Derived => "derived",
            Self::Default => "default",
        })
    }
}
