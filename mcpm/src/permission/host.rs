//! Parses hosts and host rules, and decides which rules match a host.

use std::{fmt, net::IpAddr, str::FromStr};

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{PortRange, error::invalid};
use crate::{Error, Result, printable::Printable as _};

/// Longest name in DNS.
const MAX_NAME_LENGTH: usize = 253;
/// Longest part of a name.
const MAX_LABEL_LENGTH: usize = 63;

/// A host in canonical form: an address, or a name in lower-case ASCII.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Host {
    /// A name, without a final dot.
    Name(String),
    /// An address; an IPv4 address in IPv6 form is an IPv4 address.
    Address(IpAddr),
}

impl FromStr for Host {
    type Err = Error;

    /// Parses a name or an address, with or without brackets. Every spelling of an address that resolvers accept
    /// (`0x7f.1`) is an address.
    fn from_str(text: &str) -> Result<Self> {
        let bad = || invalid(format!("`{}` is not a valid host", text.printable()));
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Self::Address(address.to_canonical()));
        }
        // The URL parser would decode these characters, and resolvers do not.
        if bare.contains(['%', '[', ']', ':', '/', '*']) {
            return Err(bad());
        }
        let bare = bare.strip_suffix('.').unwrap_or(bare);
        match url::Host::parse(bare).map_err(|_| bad())? {
            url::Host::Ipv4(address) => Ok(Self::Address(address.into())),
            url::Host::Ipv6(address) => Ok(Self::Address(IpAddr::from(address).to_canonical())),
            url::Host::Domain(name) if is_name(&name) => Ok(Self::Name(name)),
            url::Host::Domain(_) => Err(bad()),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
        }
    }
}

/// Tells whether a lower-case name is a valid DNS name.
fn is_name(name: &str) -> bool {
    let sound = |label: &str| {
        (1..=MAX_LABEL_LENGTH).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
    };
    name.len() <= MAX_NAME_LENGTH && name.split('.').all(sound)
}

/// An entry of `allow_host`: a name, `.NAME` for it and its subdomains, `*.NAME` for its subdomains, an address or a
/// network; with `:PORTS`, for these ports only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRule {
    pattern: Pattern,
    /// If empty, `allow_port` applies.
    ports: Vec<PortRange>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Name(String),
    /// The name and its subdomains.
    Domain(String),
    /// The subdomains of the name.
    Subdomains(String),
    Network(IpNet),
}

impl HostRule {
    /// Returns the rule for one host and one port.
    ///
    /// # Errors
    /// `InvalidOption` for port 0.
    pub fn exact(host: &Host, port: u16) -> Result<Self> {
        Ok(Self { ports: vec![PortRange::one(port)?], ..Self::any_port(host) })
    }

    /// Returns the rule for one host, with the ports of `allow_port`.
    pub fn any_port(host: &Host) -> Self {
        let pattern = match host {
            Host::Name(name) => Pattern::Name(name.clone()),
            Host::Address(address) => Pattern::Network(IpNet::from(*address)),
        };
        Self { pattern, ports: Vec::new() }
    }

    /// Tells whether the rule matches a host.
    pub fn matches(&self, host: &Host) -> bool {
        let is_below = |name: &str, top: &str| name.strip_suffix(top).is_some_and(|rest| rest.ends_with('.'));
        match (&self.pattern, host) {
            (Pattern::Name(rule), Host::Name(name)) => rule == name,
            (Pattern::Domain(top), Host::Name(name)) => top == name || is_below(name, top),
            (Pattern::Subdomains(top), Host::Name(name)) => is_below(name, top),
            (Pattern::Network(network), Host::Address(address)) => network.contains(address),
            (Pattern::Network(_), Host::Name(_)) | (_, Host::Address(_)) => false,
        }
    }

    /// Returns the ports that the rule is limited to; none if `allow_port` applies.
    pub fn ports(&self) -> &[PortRange] {
        &self.ports
    }

    /// Returns the name of the rule.
    pub fn name(&self) -> Option<&str> {
        match &self.pattern {
            Pattern::Name(name) | Pattern::Domain(name) => Some(name),
            Pattern::Subdomains(_) | Pattern::Network(_) => None,
        }
    }

    /// Returns the name whose subdomains the rule matches.
    pub fn subdomains_of(&self) -> Option<&str> {
        match &self.pattern {
            Pattern::Domain(name) | Pattern::Subdomains(name) => Some(name),
            Pattern::Name(_) | Pattern::Network(_) => None,
        }
    }

    /// Returns the addresses that the rule matches.
    pub fn network(&self) -> Option<IpNet> {
        match &self.pattern {
            Pattern::Network(network) => Some(*network),
            _ => None,
        }
    }
}

impl FromStr for HostRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (host, ports) = split_ports(text)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let bad =
            |reason: &str| invalid(format!("`{}` is not a valid host rule: {reason}", text.printable()));
        let name = |name: &str| match name.parse::<Host>() {
            Ok(Host::Name(name)) => Ok(name),
            Ok(Host::Address(_)) | Err(_) => Err(bad("expected a name after `.` or `*.`")),
        };
        let pattern = if host == "*" {
            return Err(bad("set `insecure_allow_all` to allow every host"));
        } else if let Some(rest) = host.strip_prefix("*.") {
            Pattern::Subdomains(name(rest)?)
        } else if let Some(rest) = host.strip_prefix('.') {
            Pattern::Domain(name(rest)?)
        } else if host.contains('/') {
            let network: IpNet = host.parse().map_err(|_| bad("expected a network such as `10.0.0.0/8`"))?;
            if network != network.trunc() {
                return Err(bad(&format!(
                    "the network address has host bits set; use `{}`",
                    network.trunc()
                )));
            }
            Pattern::Network(network)
        } else {
            match host.parse::<Host>() {
                Ok(Host::Name(name)) => Pattern::Name(name),
                Ok(Host::Address(address)) => Pattern::Network(address.into()),
                Err(_) => return Err(bad("expected a name, `*.NAME`, an address or a network")),
            }
        };
        Ok(Self { pattern, ports })
    }
}

/// Splits the ports off a rule.
fn split_ports(text: &str) -> Result<(&str, Vec<PortRange>)> {
    let at = match text.strip_prefix('[') {
        Some(rest) => rest.find(']').map_or(text.len(), |at| at + 2),
        // An IPv6 address or network without brackets contains colons.
        None if text.matches(':').count() == 1 => text.find(':').unwrap_or(text.len()),
        None => text.len(),
    };
    let (host, rest) = text.split_at(at.min(text.len()));
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Ok((host, Vec::new())),
        None => Err(invalid(format!(
            "`{}` is not a valid host rule: expected `:PORTS` after `]`",
            text.printable()
        ))),
        Some(ports) => Ok((host, vec![ports.parse()?])),
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Pattern::Name(name) => f.write_str(name)?,
            Pattern::Domain(name) => write!(f, ".{name}")?,
            Pattern::Subdomains(name) => write!(f, "*.{name}")?,
            Pattern::Network(network) => {
                let whole = network.prefix_len() == network.max_prefix_len();
                match (network, whole) {
                    (IpNet::V6(network), true) if !self.ports.is_empty() => {
                        write!(f, "[{}]", network.addr())?
                    }
                    (_, true) => write!(f, "{}", network.addr())?,
                    (IpNet::V6(_), false) if !self.ports.is_empty() => write!(f, "[{network}]")?,
                    (_, false) => write!(f, "{network}")?,
                }
            }
        }
        self.ports.iter().try_for_each(|ports| write!(f, ":{ports}"))
    }
}

impl Serialize for HostRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
