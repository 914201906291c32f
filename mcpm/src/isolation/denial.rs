//! Decisions about connections, and the description of a denied connection.

use std::{fmt, net::IpAddr};

use serde::{Deserialize, Serialize};

use crate::{
    explain::{DenialId, DenialLog, DenialRecord, Reason},
    permission::Host,
};

/// A decision about a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EgressDecision {
    /// The connection was opened.
    Allowed {
        /// The host, as the server named it.
        host: Host,
        /// The port.
        port: u16,
        /// The address that was connected to.
        address: IpAddr,
    },
    /// The connection was denied.
    Denied(EgressDenial),
    /// An allowed name was looked up for the first time. Only reported while a profile is recorded.
    LookedUp {
        /// The name.
        host: Host,
    },
}

/// The rule that denied a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The profile allows no connections.
    NoNetwork,
    /// The profile does not list the host.
    HostNotAllowed,
    /// The profile lists the host, but not with that port.
    PortNotAllowed,
    /// The address is the engine's gateway, and so the machine of the engine.
    RuntimeGateway,
    /// The address is the metadata service of clouds, which has credentials.
    MetadataAddress,
    /// The address is a loopback address of this machine.
    LoopbackAddress,
    /// The address belongs to this machine.
    OwnAddress,
    /// The address is link-local.
    LinkLocalAddress,
    /// The address belongs to a private network.
    PrivateAddress,
    /// The address is not a valid destination.
    ReservedAddress,
    /// The name in the TLS handshake, or in a plain request, is not that of the connection.
    ServerNameMismatch,
    /// The TLS handshake, or a plain request, has no name, so it may be for any name of that address.
    ServerNameMissing,
    /// The connection was made neither to the proxy nor to an allowed name, so it could not be relayed.
    DirectConnection,
    /// Too many connections are open.
    TooManyConnections,
}

impl Rule {
    /// Returns the name of the rule.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoNetwork => "no-network",
            Self::HostNotAllowed => "host-not-allowed",
            Self::PortNotAllowed => "port-not-allowed",
            Self::RuntimeGateway => "runtime-gateway",
            Self::MetadataAddress => "metadata-address",
            Self::LoopbackAddress => "loopback-address",
            Self::OwnAddress => "own-address",
            Self::LinkLocalAddress => "link-local-address",
            Self::PrivateAddress => "private-address",
            Self::ReservedAddress => "reserved-address",
            Self::ServerNameMismatch => "server-name-mismatch",
            Self::ServerNameMissing => "server-name-missing",
            Self::DirectConnection => "direct-connection",
            Self::TooManyConnections => "too-many-connections",
        }
    }
}

impl Rule {
    /// Returns the reason with that name in the catalogue of reasons.
    pub const fn reason(self) -> Reason {
        match self {
            Self::NoNetwork => Reason::NoNetwork,
            Self::HostNotAllowed => Reason::EgressHost,
            Self::PortNotAllowed => Reason::EgressPort,
            Self::RuntimeGateway => Reason::EgressGateway,
            Self::MetadataAddress => Reason::EgressMetadata,
            Self::LoopbackAddress => Reason::EgressLoopback,
            Self::OwnAddress => Reason::EgressOwn,
            Self::LinkLocalAddress => Reason::EgressLinkLocal,
            Self::PrivateAddress => Reason::EgressPrivate,
            Self::ReservedAddress => Reason::EgressReserved,
            Self::ServerNameMismatch => Reason::EgressNameMismatch,
            Self::ServerNameMissing => Reason::EgressNameMissing,
            Self::DirectConnection => Reason::EgressDirect,
            Self::TooManyConnections => Reason::EgressTooMany,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A denied connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressDenial {
    /// The host, as the server named it.
    pub host: Host,
    /// The port; `None` for a lookup.
    pub port: Option<u16>,
    /// The address that caused the denial.
    pub address: Option<IpAddr>,
    /// The rule that denied the connection.
    pub rule: Rule,
    /// The smallest change that would allow the connection.
    pub fix: String,
    /// The id for `mcpm explain`.
    pub id: String,
}

impl EgressDenial {
    pub(super) fn new(host: &Host, port: Option<u16>, rule: Rule) -> Self {
        let refusal = DenialId::new().to_string();
        let mut denial =
            Self { host: host.clone(), port, address: None, rule, fix: String::new(), id: refusal };
        denial.fix = denial.suggested_fix();
        denial
    }

    pub(super) fn for_address(host: &Host, port: u16, address: IpAddr, rule: Rule) -> Self {
        let mut denial = Self::new(host, Some(port), rule);
        denial.address = Some(address);
        denial.fix = denial.suggested_fix();
        denial
    }

    /// Returns the record that is stored for `mcpm explain`.
    pub(crate) fn to_record(&self, recent: &DenialLog) -> Option<DenialRecord> {
        let id = DenialId::parse(&self.id)?;
        let mut refused = recent
            .record(&id, self.rule.reason())
            .rule(Some(self.rule.as_str()))
            .input("host", &self.host.to_string())
            .fix(Some(&self.fix));
        if let Some(port) = self.port {
            refused = refused.input("port", &port.to_string());
        }
        if let Some(address) = self.address {
            refused = refused.input("address", &address.to_string());
        }
        Some(refused.build())
    }

    fn suggested_fix(&self) -> String {
        let place = match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.to_string(),
        };
        // The server chose the destination, so a person has to decide whether to allow it. A built-in profile has no
        // file to add it to.
        let add = |entry: &str| {
            format!(
                "if the server should reach it, add `{entry}` to `network.outbound.allow_host` in the file of a \
                 permission profile"
            )
        };
        match self.rule {
            Rule::NoNetwork | Rule::HostNotAllowed | Rule::PortNotAllowed => add(&place),
            Rule::RuntimeGateway => {
                "if the server should reach this machine, set `allow_runtime_gateway` to `true`".to_owned()
            }
            Rule::MetadataAddress => Rule::MetadataAddress.reason().fix().to_owned(),
            Rule::LoopbackAddress
            | Rule::OwnAddress
            | Rule::LinkLocalAddress
            | Rule::PrivateAddress
            | Rule::ReservedAddress => match (self.address, self.port) {
                (Some(address), Some(port)) => add(&format!("{}:{port}", Host::Address(address))),
                _ => add(&place),
            },
            Rule::ServerNameMismatch => "connect to the host that the handshake or request names".to_owned(),
            Rule::ServerNameMissing => match (self.address, self.port) {
                (Some(address), Some(port)) => format!(
                    "send the name of the host (SNI or `Host`), or {}",
                    add(&format!("{}:{port}", Host::Address(address)))
                ),
                _ => "send the name of the host (SNI or `Host`)".to_owned(),
            },
            Rule::DirectConnection => {
                "connect by name, or through the HTTP proxy in the server's environment".to_owned()
            }
            Rule::TooManyConnections => "close connections before opening more".to_owned(),
        }
    }
}

impl fmt::Display for EgressDenial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => {
                write!(f, "a connection to `{}:{port}` was denied by the rule `{}`", self.host, self.rule)?
            }
            None => write!(f, "a look-up of `{}` was denied by the rule `{}`", self.host, self.rule)?,
        }
        if let Some(address) = self.address.filter(|address| self.host != Host::Address(*address)) {
            write!(f, " (its address is {address})")?;
        }
        write!(f, "; {}", self.fix)
    }
}
