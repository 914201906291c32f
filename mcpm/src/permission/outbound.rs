//! Decides by host and port which outbound connections a permission profile allows.
//!
//! The keys are those of ToolHive. `insecure_allow_all` allows every host and port. Without it, `allow_host` and
//! `allow_port` decide. If both lists are empty, no connection is allowed; if one list is empty, only the other
//! restricts connections. `allow_port` does not apply to a host rule that lists its own ports.

use serde::{Deserialize, Serialize};

use super::{Host, HostRule, PortRange};

/// Connections that a server may open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Outbound {
    /// Every public host and port.
    pub insecure_allow_all: bool,
    /// Hosts.
    pub allow_host: Vec<HostRule>,
    /// Ports.
    pub allow_port: Vec<PortRange>,
}

/// Why a connection is denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutboundDenial {
    /// No connection is allowed.
    NoNetwork,
    /// The host is not allowed.
    Host,
    /// The host is allowed, but not on this port.
    Port,
}

impl Outbound {
    /// Tells whether no connection is allowed.
    pub fn is_nothing(&self) -> bool {
        !self.insecure_allow_all && self.allow_host.is_empty() && self.allow_port.is_empty()
    }

    /// Tells whether some connections are allowed and others are not.
    pub fn is_limited(&self) -> bool {
        !self.insecure_allow_all && !self.is_nothing()
    }

    /// Decides whether a host is allowed on a port, regardless of its address.
    pub fn decide(&self, host: &Host, port: u16) -> Result<(), OutboundDenial> {
        if self.insecure_allow_all {
            return Ok(());
        }
        if self.is_nothing() {
            return Err(OutboundDenial::NoNetwork);
        }
        let listed = |ports: &[PortRange]| ports.is_empty() || ports.iter().any(|ports| ports.contains(port));
        if self.allow_host.is_empty() {
            return if listed(&self.allow_port) { Ok(()) } else { Err(OutboundDenial::Port) };
        }
        let mut named = self.allow_host.iter().filter(|rule| rule.matches(host)).peekable();
        if named.peek().is_none() {
            return Err(OutboundDenial::Host);
        }
        let allows = |rule: &HostRule| match rule.ports() {
            [] => listed(&self.allow_port),
            own => listed(own),
        };
        if named.any(allows) { Ok(()) } else { Err(OutboundDenial::Port) }
    }

    /// Tells whether a name may be resolved, that is, whether it is allowed on some port.
    pub fn allows_name(&self, name: &str) -> bool {
        let host = Host::Name(name.to_owned());
        let by_port = self.allow_host.is_empty() && !self.allow_port.is_empty();
        self.insecure_allow_all || by_port || self.allow_host.iter().any(|rule| rule.matches(&host))
    }
}
