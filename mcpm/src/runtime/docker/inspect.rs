//! Parses the engine's descriptions of containers.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv4Addr},
};

use serde::Deserialize;

use crate::{
    Error, ErrorKind, Result,
    runtime::{ContainerId, ContainerInfo, ContainerState, Exit, Protocol, PublishedPort, labels},
};

/// The fields of an engine's description of a container that mcpm uses. Each of them is missing in some engine.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Description {
    pub(super) id: String,
    name: String,
    config: Config,
    state: State,
    host_config: HostConfig,
    network_settings: NetworkSettings,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct HostConfig {
    network_mode: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Config {
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct State {
    status: String,
    pid: i64,
    exit_code: i64,
    #[serde(rename = "OOMKilled")]
    out_of_memory: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct NetworkSettings {
    ports: Option<HashMap<String, Option<Vec<Binding>>>>,
    networks: Option<HashMap<String, Option<JoinedNetwork>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Binding {
    host_ip: String,
    host_port: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JoinedNetwork {
    #[serde(rename = "IPAddress")]
    v4: String,
    #[serde(rename = "GlobalIPv6Address")]
    v6: String,
}

/// One container of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Summary {
    pub(super) id: String,
}

impl Description {
    /// Whether the container has exactly that name or id. The check is needed since engines also accept a prefix of an
    /// id.
    pub(super) fn matches_name_or_id(&self, id_or_name: &str) -> bool {
        self.bare_name() == id_or_name || self.id == id_or_name
    }

    /// Returns the container whose network this container shares, if any.
    pub(super) fn network_container(&self) -> Option<&str> {
        self.host_config.network_mode.strip_prefix("container:")
    }

    /// Copies the network and its addresses from `other`, the container whose network this one shares.
    pub(super) fn with_network_of(mut self, other: Self) -> Self {
        self.network_settings.networks = other.network_settings.networks;
        self.host_config.network_mode = other.host_config.network_mode;
        self
    }

    /// Whether its labels mark it as created by mcpm.
    pub(super) fn is_managed(&self) -> bool {
        self.config
            .labels
            .as_ref()
            .and_then(|labels| labels.get(labels::MANAGED))
            .is_some_and(|mark| mark == "true")
    }

    /// Whether the kernel killed it for lack of memory.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        self.state.out_of_memory
    }

    /// Returns the information about the container. The id of its process is only included if the engine runs on this
    /// kernel.
    ///
    /// # Errors
    /// `Engine` if the engine does not state whether the container runs.
    pub(super) fn info(self, same_kernel: bool) -> Result<ContainerInfo> {
        Ok(ContainerInfo {
            state: self.container_state()?,
            name: self.bare_name().to_owned(),
            pid: u32::try_from(self.state.pid).ok().filter(|pid| *pid != 0 && same_kernel),
            addresses: self.network_settings.addresses(),
            ports: self.network_settings.published_ports(),
            network_mode: self.host_config.network_mode,
            labels: self.config.labels.unwrap_or_default(),
            id: ContainerId(self.id),
            lacks_control_groups: false,
        })
    }

    fn bare_name(&self) -> &str {
        self.name.trim_start_matches('/')
    }

    fn container_state(&self) -> Result<ContainerState> {
        match self.state.status.as_str() {
            "" => Err(Error::new(
                ErrorKind::Engine,
                format!("the engine does not report the state of container `{}`", self.id),
            )),
            // Podman reports `initialized` for a created container once a client is attached to it.
            "created" | "configured" | "initialized" => Ok(ContainerState::Created),
            // Podman reports `stopped` for an exited container until it has cleaned up.
            "exited" | "stopped" | "dead" | "removing" => Ok(ContainerState::Exited(Exit {
                out_of_memory: self.state.out_of_memory,
                ..Exit::with_code(self.state.exit_code)
            })),
            // The other states are running, paused, restarting and stopping.
            _ => Ok(ContainerState::Running),
        }
    }
}

impl NetworkSettings {
    fn addresses(&self) -> BTreeMap<String, IpAddr> {
        let joined =
            self.networks.iter().flatten().filter_map(|(name, joined)| Some((name, joined.as_ref()?)));
        joined
            .filter_map(|(name, joined)| {
                let address = joined.v4.parse().or_else(|_| joined.v6.parse()).ok()?;
                Some((name.clone(), address))
            })
            .collect()
    }

    fn published_ports(&self) -> Vec<PublishedPort> {
        let bindings = self.ports.iter().flatten();
        let bindings =
            bindings.flat_map(|(port, all)| all.iter().flatten().map(move |binding| (port, binding)));
        let mut published: Vec<_> = bindings
            .filter_map(|(port, binding)| {
                let (container_port, protocol) = parse_port(port)?;
                let host_ip = binding.host_ip.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
                let host_port = binding.host_port.parse().ok()?;
                Some(PublishedPort { host_ip, host_port, container_port, protocol })
            })
            .collect();
        published.sort_by_key(|port| (port.container_port, port.protocol, port.host_ip, port.host_port));
        published
    }
}

/// Parses `8080/tcp`.
pub(super) fn parse_port(text: &str) -> Option<(u16, Protocol)> {
    let (port, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => return None,
    };
    Some((port.parse().ok()?, protocol))
}

#[cfg(test)]
#[path = "inspect_tests.rs"]
mod tests;
