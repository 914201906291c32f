//! Resolves the address of a server in a container: its port, its host, and its published ports.
//!
//! Options that cannot work with the transport or the network are rejected.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use super::{mounts::has_remote_address, request::WorkloadRequest};
use crate::{
    Error, ErrorKind, Result,
    options::{OptionSet as _, ProxyMode, PublishSpec, Transport, WorkloadOptions},
    printable::Printable as _,
    runtime::{EngineInfo, Network, PublishedPort},
    workload::{ValueOrigin, Via},
};

/// Port of an HTTP server whose image exposes none; it is passed to the server in variables.
const DEFAULT_TARGET_PORT: u16 = 8080;
/// How long looking up the name of the target host may take.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

pub(in crate::workload) fn reject_http_options(request: &WorkloadRequest) -> Result<()> {
    for name in ["target_port", "target_host"] {
        if request.options.is_given(name) {
            let message =
                format!("`{name}` is for the transports `sse` and `streamable-http`, not for `stdio`");
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
    }
    if request.options.is_given("token_exchange_url") {
        let message = "`token_exchange_url` is for the transports `sse` and `streamable-http`: a stdio \
                       server receives no headers, and so no token";
        return Err(Error::new(ErrorKind::InvalidOption, message)
            .hint("give the server its own credentials with the option `secret`"));
    }
    Ok(())
}

/// Rejects a proxy mode that differs from the transport of a server that speaks HTTP, since its messages are forwarded
/// unchanged.
pub(in crate::workload) fn reject_proxy_mode(request: &WorkloadRequest, transport: Transport) -> Result<()> {
    let own_mode = match transport {
        Transport::Stdio => return Ok(()),
        Transport::StreamableHttp => ProxyMode::StreamableHttp,
        Transport::Sse => ProxyMode::Sse,
    };
    match request.options.proxy_mode {
        Some(mode) if mode != own_mode => {
            let message = format!(
                "`proxy_mode` set to `{mode}` is for servers that speak `stdio`; this one speaks `{transport}`, and so does its proxy"
            );
            Err(Error::new(ErrorKind::InvalidOption, message).hint("leave out `proxy_mode`"))
        }
        _ => Ok(()),
    }
}

pub(in crate::workload) fn target_port(
    request: &WorkloadRequest,
    exposed: &[u16],
) -> Result<(u16, ValueOrigin)> {
    if let Some(port) = request.without_defaults().target_port {
        return Ok((port, request.origin("target_port")));
    }
    match exposed {
        [] => Ok((DEFAULT_TARGET_PORT, ValueOrigin::Derived)),
        [port] => Ok((*port, ValueOrigin::Image)),
        several => {
            let list = several.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
            Err(Error::new(ErrorKind::InvalidOption, format!("the image exposes several ports ({list})"))
                .hint("set `target_port` to the port that the server listens on"))
        }
    }
}

/// Returns how the proxy connects to the server. The server's port is published on loopback only, unless the user
/// names another host.
pub(in crate::workload) fn target_route(
    request: &WorkloadRequest,
    network: &Network,
    engine: &EngineInfo,
) -> Result<Via> {
    reject_no_network(network)?;
    let host = request.options.target_host.clone();
    if network.is_of_container() {
        let refused = |message, hint| Err(Error::new(ErrorKind::InvalidOption, message).hint(hint));
        // Ports can only be published when the other container is created.
        return match host {
            None if engine.reaches_container_addresses => Ok(Via::ContainerAddress),
            None => refused(
                "this engine does not let mcpm reach a server in another container's network",
                "use another network, or an engine that runs as root on this machine",
            ),
            Some(_) => refused(
                "a server in another container's network is reached at that container's address",
                "leave out `target_host`",
            ),
        };
    }
    Ok(match network {
        Network::Host => Via::Host(host.unwrap_or_else(|| Ipv4Addr::LOCALHOST.to_string())),
        _ if host.is_none() && engine.reaches_container_addresses => Via::ContainerAddress,
        _ => Via::PublishedPort,
    })
}

/// Returns a warning if the network `host` is that of another machine, such as the virtual machine that an engine runs
/// in. It is not an error, since some engines forward the ports of that machine to this one.
pub(in crate::workload) fn host_network_warning(
    network: &Network,
    target_host: Option<&str>,
    engine: &EngineInfo,
) -> Option<String> {
    let is_in_virtual_machine = engine.endpoint.starts_with("unix:") && !engine.shares_sockets;
    let is_elsewhere = is_in_virtual_machine || has_remote_address(&engine.endpoint);
    (*network == Network::Host && target_host.is_none() && is_elsewhere).then(|| {
        "the network `host` is the network of the engine's machine, not of this machine: the server cannot connect to \
         `localhost` of this machine, and mcpm can only connect to the server if the engine forwards its port"
            .to_owned()
    })
}

/// Rejects a network in which a server that speaks HTTP cannot be reached.
pub(in crate::workload) fn reject_no_network(network: &Network) -> Result<()> {
    let refused = |message| Err(Error::new(ErrorKind::InvalidOption, message));
    match network {
        Network::None => refused("a server that speaks HTTP cannot be reached with `network` set to `none`")
            .map_err(|error| error.hint("set `transport` to `stdio`, or use another network")),
        Network::Bridge | Network::Host | Network::Custom(_) => Ok(()),
    }
}

/// Returns the address that the server's port is published on for the proxy. A name is resolved.
///
/// # Errors
/// `InvalidOption` for a name that cannot be resolved.
pub(in crate::workload) async fn target_address(options: &WorkloadOptions) -> Result<IpAddr> {
    let host = match options.target_host.as_deref() {
        None | Some("localhost") => return Ok(Ipv4Addr::LOCALHOST.into()),
        Some(host) => host.trim_matches(['[', ']']),
    };
    if let Ok(address) = host.parse() {
        return Ok(address);
    }
    let failed = |cause: String| {
        Error::new(ErrorKind::InvalidOption, format!("cannot resolve the target host `{}`", host.printable()))
            .source(cause)
            .hint("set `target_host` to an address or a name of the engine's machine")
    };
    let found = tokio::time::timeout(LOOKUP_TIMEOUT, tokio::net::lookup_host((host, 0))).await;
    let found = found.map_err(|_| failed("no answer in time".to_owned()))?;
    let found: Vec<IpAddr> =
        found.map_err(|error| failed(error.to_string()))?.map(|found| found.ip()).collect();
    // IPv4 is preferred, since every engine can publish ports on it.
    let first = found.iter().find(|address| address.is_ipv4()).or_else(|| found.first());
    first.copied().ok_or_else(|| failed("it has no address".to_owned()))
}

pub(in crate::workload) fn published_ports(options: &WorkloadOptions) -> Vec<PublishedPort> {
    let one = |publish: &PublishSpec| PublishedPort {
        host_ip: publish.host_ip.unwrap_or(Ipv4Addr::LOCALHOST.into()),
        host_port: publish.host_port.unwrap_or(0),
        container_port: publish.container_port,
        protocol: publish.protocol,
    };
    options.publish.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::EngineName;

    #[test]
    fn the_host_network_of_another_machine_is_warned_about() {
        let warns = |endpoint: &str, shares_sockets, network, target_host| {
            let engine = EngineInfo {
                name: EngineName::Docker,
                version: "1".to_owned(),
                api_version: "1.43".to_owned(),
                endpoint: endpoint.to_owned(),
                reaches_container_addresses: shares_sockets,
                shares_sockets,
                architecture: std::env::consts::ARCH.to_owned(),
                connects_through_mcpm: false,
            };
            host_network_warning(network, target_host, &engine).is_some()
        };
        let (here, elsewhere) = ("unix:///var/run/docker.sock", "tcp://10.0.0.9:2375");
        assert!(!warns(here, true, &Network::Host, None));
        assert!(warns(here, false, &Network::Host, None), "a virtual machine");
        assert!(warns(elsewhere, false, &Network::Host, None));
        assert!(!warns("tcp://127.0.0.1:2375", false, &Network::Host, None), "not known");
        assert!(!warns(here, false, &Network::Bridge, None));
        assert!(!warns(here, false, &Network::Host, Some("192.168.64.2")));
    }
}
