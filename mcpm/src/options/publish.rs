//! Parses the container ports that are published on the host.

use std::{fmt, net::IpAddr, str::FromStr};

use super::{Protocol, ValueKind, value::invalid_value};
use crate::{Error, Result};

const EXPECTED: &str =
    "expected `[ip:]hostPort:containerPort[/udp]` or `containerPort[/udp]`, with ports up to 65535";

/// A published port: `[ip:]hostPort:containerPort[/udp]`, or `containerPort`. IPv6 addresses are written in
/// brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PublishSpec {
    /// The host address to bind; by default the loopback address.
    pub host_ip: Option<IpAddr>,
    /// The port on the host; if `None` or 0, any free port.
    pub host_port: Option<u16>,
    /// The port in the container.
    pub container_port: u16,
    /// The protocol.
    pub protocol: Protocol,
}

impl PublishSpec {
    /// Publishes a TCP port of the container on the same port of the host.
    pub fn same(port: u16) -> Self {
        Self::from((port, port))
    }
}

impl From<(u16, u16)> for PublishSpec {
    /// Converts (host port, container port), both TCP.
    fn from((host_port, container_port): (u16, u16)) -> Self {
        Self {
            host_ip: None,
            host_port: (host_port != 0).then_some(host_port),
            container_port,
            protocol: Protocol::Tcp,
        }
    }
}

impl FromStr for PublishSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (ports, protocol) = match text.split_once('/') {
            Some((ports, protocol)) => (ports, protocol.parse()?),
            None => (text, Protocol::Tcp),
        };
        let (host_ip, ports) = split_address(ports)?;
        let (host_port, container_port) = match (ports.split_once(':'), host_ip) {
            (Some(("", container)), Some(_)) => (None, container),
            (Some((host, container)), _) => (Some(port(host)?), container),
            (None, None) => (None, ports),
            (None, Some(_)) => return Err(invalid_value(EXPECTED)),
        };
        let container_port = port(container_port)?;
        if container_port == 0 {
            return Err(invalid_value("the container's port cannot be 0"));
        }
        Ok(Self { host_ip, host_port: host_port.filter(|port| *port != 0), container_port, protocol })
    }
}

/// Splits off the address of `[ip:]hostPort:containerPort`.
fn split_address(text: &str) -> Result<(Option<IpAddr>, &str)> {
    let (address, rest) = if let Some(bracketed) = text.strip_prefix('[') {
        bracketed.split_once("]:").ok_or_else(|| invalid_value(EXPECTED))?
    } else if text.matches(':').count() == 2 {
        text.split_once(':').ok_or_else(|| invalid_value(EXPECTED))?
    } else {
        return Ok((None, text));
    };
    let address: IpAddr =
        address.parse().map_err(|_| invalid_value("expected an IP address before the ports"))?;
    if address.is_ipv6() != text.starts_with('[') {
        return Err(invalid_value("an IPv6 address must be in brackets, and an IPv4 address must not"));
    }
    Ok((Some(address), rest))
}

fn port(text: &str) -> Result<u16> {
    if text.contains('-') && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        return Err(invalid_value("port ranges are not supported; repeat the option for each port"));
    }
    // `parse` alone would accept `+80`.
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or_else(|| invalid_value(EXPECTED))
}

impl fmt::Display for PublishSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host_ip {
            Some(IpAddr::V6(ip)) => write!(f, "[{ip}]:")?,
            Some(IpAddr::V4(ip)) => write!(f, "{ip}:")?,
            None => {}
        }
        match (self.host_port, self.host_ip) {
            (Some(port), _) => write!(f, "{port}:")?,
            (None, Some(_)) => f.write_str(":")?,
            (None, None) => {}
        }
        write!(f, "{}", self.container_port)?;
        match self.protocol {
            Protocol::Tcp => Ok(()),
            Protocol::Udp => write!(f, "/{}", self.protocol),
        }
    }
}

text_form!(PublishSpec => ValueKind::Compound("[ip:]hostPort:containerPort[/udp]"));
