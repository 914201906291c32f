//! Says in our words what the engine tells of a container.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv4Addr},
};

use bollard::models::{
    ContainerInspectResponse, ContainerState as ApiState, ContainerStateStatusEnum as Status,
    NetworkSettings, PortMap,
};

use crate::{
    Error, ErrorKind, Result,
    runtime::{ContainerId, ContainerInfo, ContainerState, Exit, Protocol, PublishedPort, labels},
};

/// The engine's description of a container that carries our label.
#[derive(Debug)]
pub(super) struct Ours {
    /// The full id, which nothing else can take over.
    pub(super) id: String,
    found: ContainerInspectResponse,
}

impl Ours {
    /// Returns `None` when the container is not ours.
    pub(super) fn new(found: ContainerInspectResponse) -> Option<Self> {
        let labels = found.config.as_ref()?.labels.as_ref()?;
        if !is_managed(labels) {
            return None;
        }
        Some(Self { id: found.id.clone()?, found })
    }

    /// Returns what the engine tells of it.
    ///
    /// # Errors
    /// `Engine` when it does not tell whether the container lives.
    pub(super) fn info(self, same_kernel: bool) -> Result<ContainerInfo> {
        let state = self.found.state.as_ref();
        let pid = state.and_then(|state| state.pid).and_then(|pid| u32::try_from(pid).ok());
        let settings = self.found.network_settings.as_ref();
        Ok(ContainerInfo {
            state: state.and_then(container_state).ok_or_else(|| {
                Error::new(
                    ErrorKind::Engine,
                    format!("the engine does not tell the state of container `{}`", self.id),
                )
            })?,
            pid: pid.filter(|pid| *pid != 0 && same_kernel),
            addresses: settings.map(addresses).unwrap_or_default(),
            ports: settings
                .and_then(|settings| settings.ports.as_ref())
                .map(published_ports)
                .unwrap_or_default(),
            labels: self
                .found
                .config
                .and_then(|config| config.labels)
                .unwrap_or_default()
                .into_iter()
                .collect(),
            name: self.found.name.unwrap_or_default().trim_start_matches('/').to_owned(),
            id: ContainerId(self.id),
        })
    }

    /// Tells whether the kernel ended it for lack of memory.
    pub(super) fn ran_out_of_memory(&self) -> bool {
        self.found.state.as_ref().and_then(|state| state.oom_killed).unwrap_or(false)
    }
}

/// Tells whether labels mark a container as ours.
pub(super) fn is_managed(labels: &HashMap<String, String>) -> bool {
    labels.get(labels::MANAGED).is_some_and(|value| value == "true")
}

fn container_state(state: &ApiState) -> Option<ContainerState> {
    match state.status? {
        Status::CREATED => Some(ContainerState::Created),
        Status::RUNNING | Status::PAUSED | Status::RESTARTING | Status::STOPPING => {
            Some(ContainerState::Running)
        }
        Status::EXITED | Status::DEAD | Status::REMOVING => Some(ContainerState::Exited(Exit {
            code: state.exit_code.unwrap_or_default(),
            out_of_memory: state.oom_killed.unwrap_or(false),
        })),
        Status::EMPTY => None,
    }
}

fn addresses(settings: &NetworkSettings) -> BTreeMap<String, IpAddr> {
    let networks = settings.networks.iter().flatten();
    networks
        .filter_map(|(name, endpoint)| {
            let parse =
                |address: &Option<String>| address.as_deref().and_then(|address| address.parse().ok());
            let address = parse(&endpoint.ip_address).or_else(|| parse(&endpoint.global_ipv6_address))?;
            Some((name.clone(), address))
        })
        .collect()
}

fn published_ports(ports: &PortMap) -> Vec<PublishedPort> {
    let mut published: Vec<_> = ports
        .iter()
        .flat_map(|(key, bindings)| bindings.iter().flatten().map(move |binding| (key, binding)))
        .filter_map(|(key, binding)| {
            let (container_port, protocol) = parse_port(key)?;
            let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
            let host_ip = binding.host_ip.as_deref().and_then(|address| address.parse().ok()).unwrap_or(any);
            let host_port = binding.host_port.as_deref()?.parse().ok()?;
            Some(PublishedPort { host_ip, host_port, container_port, protocol })
        })
        .collect();
    published.sort_by_key(|port| (port.container_port, port.protocol, port.host_ip, port.host_port));
    published
}

/// Reads `8080/tcp`.
pub(super) fn parse_port(key: &str) -> Option<(u16, Protocol)> {
    let (port, protocol) = key.split_once('/').unwrap_or((key, "tcp"));
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => return None,
    };
    Some((port.parse().ok()?, protocol))
}
