//! What will be done: nested, checked, with the origin of every value.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use super::{WorkloadName, resolve::remote_url::RemoteUrl};
use crate::{
    image::verify::VerifiedImage,
    isolation::IsolationSpec,
    options::{SecretRef, Transport, WorkloadOptions},
    proxy::ProxySpec,
    redact::url::redact_url_text,
    runtime::ContainerSpec,
};

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
    /// What was asked for, to be exported or resolved anew.
    pub asked: WorkloadOptions,
    /// How the server speaks MCP.
    pub transport: Transport,
    /// What stands in front of it.
    pub proxy: ProxySpec,
    /// Where an HTTP server in a container is reached; `None` for a stdio server and for a remote one.
    pub target: Option<TargetSpec>,
    /// Where the server runs.
    pub place: Placement,
    /// The address of the engine that has the container, so that whoever looks for it later asks no other one.
    /// `None` for a remote server, and in records that were written before this was known.
    pub engine: Option<String>,
    /// Secrets that the server gets: their names, and where it finds them. Their values are read at each start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretRef>,
    /// What the container may reach and how it is held to that; `None` when nothing holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<IsolationSpec>,
    /// What the user is told at each start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The package that its image was built for, where it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<PackageSpec>,
    /// Who signed its image, where that was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<VerifiedImage>,
    /// Where the values came from, by name.
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

    /// Returns the names of those that the user typed, which are kept only if the user sees to it.
    pub fn prompted_secret_names(&self) -> Vec<String> {
        let typed = |secret: &&SecretRef| self.secret_origin(secret) == Some(ValueOrigin::Answered);
        self.secrets.iter().filter(typed).map(|secret| secret.name.clone()).collect()
    }

    pub(super) fn secret_origin(&self, secret: &SecretRef) -> Option<ValueOrigin> {
        let own = self.origins.get(&format!("secret.{}", secret.target));
        own.or_else(|| self.origins.get("secret")).copied()
    }
}

/// Where a server runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// In a container of this workload.
    Container(Box<ContainerSpec>),
    /// Elsewhere; it is neither started nor stopped.
    Remote(RemoteSpec),
}

/// The package that a server came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageSpec {
    /// The package as it was asked for; a local project with an absolute path.
    pub reference: String,
    /// The version that was found for it; `None` until the image is built, and for a local project.
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

/// A server that others run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteSpec {
    /// Where it is, with its path and query.
    pub url: String,
    /// Headers of each request to it, by name, as far as they are no secrets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

impl RemoteSpec {
    /// Returns the URL for people: without its query, which often holds a key.
    pub fn redacted_url(&self) -> String {
        RemoteUrl::parse(&self.url).map_or_else(|_| redact_url_text(&self.url), |url| url.redacted())
    }
}

/// Where an HTTP server is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetSpec {
    /// Port the server listens on in its container.
    pub port: u16,
    /// How the proxy gets there.
    pub via: Via,
}

/// How the proxy gets to a container's port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// The container's own address.
    ContainerAddress,
    /// A port of this machine that the engine chose.
    PublishedPort,
    /// A connection that the isolated container offers.
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
    /// The registry says so.
    Registry,
    /// The user was asked for it.
    Answered,
    /// The image says so.
    Image,
    /// Worked out from other values.
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
            Self::Answered => "answered",
            Self::Image => "image",
            Self::Derived => "derived",
            Self::Default => "default",
        })
    }
}
