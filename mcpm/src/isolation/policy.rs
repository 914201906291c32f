//! Decides about a connection: by host and port, then by every address that the name resolves to.
//!
//! Connections are made only to addresses that were checked, except through a proxy that is configured for a build:
//! this proxy resolves the name itself.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _},
    sync::Arc,
    time::Duration,
};

use tokio::sync::Semaphore;

use super::{EgressDenial, Rule, address};
use crate::permission::{Host, HostRule, Outbound, OutboundDenial, PortRange};

/// Timeout of a name lookup.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);
/// Most name lookups at once, because they use threads of the whole process.
const MAX_CONCURRENT_LOOKUPS: usize = 16;
/// Most addresses of a name that are tried, because the owner of the name chooses how many it has.
const MAX_ADDRESSES: usize = 16;
/// Names that engines give to their machine.
const GATEWAY_NAMES: [&str; 3] =
    ["host.docker.internal", "gateway.docker.internal", "host.containers.internal"];
/// The gateway of Docker's default network, unless it was configured otherwise.
const DEFAULT_GATEWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(172, 17, 0, 1));

/// The network policy of a container.
#[derive(Debug)]
pub(super) struct EgressPolicy {
    outbound: Outbound,
    runtime_gateway: bool,
    gateways: Vec<IpAddr>,
    lookups: LookupLimiter,
}

/// Limits the concurrent lookups of a server.
#[derive(Debug)]
struct LookupLimiter(Arc<Semaphore>);

impl LookupLimiter {
    /// Runs a lookup on a blocking thread. The lookup cannot be cancelled there, so it counts against the limit until
    /// it ends, even if its caller is gone.
    async fn run_limited<T: Send + 'static>(
        &self,
        lookup: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let permit = Arc::clone(&self.0).acquire_owned().await.map_err(io::Error::other)?;
        let done = tokio::task::spawn_blocking(move || {
            let found = lookup();
            drop(permit);
            found
        });
        done.await.map_err(io::Error::other)?
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum EgressError {
    /// The connection is denied.
    Denied(Box<EgressDenial>),
    /// The connection is allowed, but failed.
    Failed(String),
}

impl From<EgressDenial> for EgressError {
    fn from(denial: EgressDenial) -> Self {
        Self::Denied(Box::new(denial))
    }
}

impl EgressPolicy {
    pub(super) fn new(outbound: Outbound, runtime_gateway: bool, mut gateways: Vec<IpAddr>) -> Self {
        if !gateways.contains(&DEFAULT_GATEWAY) {
            gateways.push(DEFAULT_GATEWAY);
        }
        let lookups = LookupLimiter(Arc::new(Semaphore::new(MAX_CONCURRENT_LOOKUPS)));
        Self { outbound, runtime_gateway, gateways, lookups }
    }

    /// Returns the addresses that may be connected to, at least one.
    pub(super) async fn allowed_addresses(
        &self,
        host: &Host,
        port: u16,
    ) -> Result<Vec<SocketAddr>, EgressError> {
        if self.is_gateway(host) {
            return self.gateway_addresses(host, port).map_err(EgressError::from);
        }
        self.check_host(host, port)?;
        let found: Vec<IpAddr> = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => {
                let failed = |why: &str| EgressError::Failed(format!("`{host}` cannot be resolved: {why}"));
                let name = name.clone();
                let lookup = move || (name.as_str(), port).to_socket_addrs();
                let found = tokio::time::timeout(LOOKUP_TIMEOUT, self.lookups.run_limited(lookup)).await;
                let found = found.map_err(|_| failed("no response in time"))?;
                found
                    .map_err(|error| failed(&error.to_string()))?
                    .map(|found| found.ip().to_canonical())
                    .collect()
            }
        };
        let mut allowed = Vec::new();
        let mut refused = None;
        for address in found {
            match self.check_address(host, port, address) {
                Ok(()) if !allowed.contains(&SocketAddr::new(address, port)) => {
                    allowed.push(SocketAddr::new(address, port));
                }
                Ok(()) => {}
                Err(denial) => drop(refused.get_or_insert(denial)),
            }
        }
        match refused {
            Some(denial) if allowed.is_empty() => Err(denial.into()),
            None if allowed.is_empty() => Err(EgressError::Failed(format!("`{host}` has no address"))),
            _ => {
                allowed.truncate(MAX_ADDRESSES);
                Ok(allowed)
            }
        }
    }

    /// Returns the denial of an attempt that bypassed the proxy, if the policy denies it.
    pub(super) fn denial_for_attempt(&self, host: &Host, port: Option<u16>) -> Option<EgressDenial> {
        if self.is_gateway(host) {
            return (!self.runtime_gateway).then(|| EgressDenial::new(host, port, Rule::RuntimeGateway));
        }
        match (host, port) {
            (Host::Address(address), Some(port)) => {
                self.check_host(host, port).and_then(|()| self.check_address(host, port, *address)).err()
            }
            (_, Some(port)) => self.check_host(host, port).err(),
            (Host::Name(name), None) if self.outbound.allows_name(name) => None,
            (_, None) => {
                let rule = if self.outbound.is_nothing() { Rule::NoNetwork } else { Rule::HostNotAllowed };
                Some(EgressDenial::new(host, None, rule))
            }
        }
    }

    /// Whether a name may be looked up.
    pub(super) fn allows_lookup(&self, host: &Host) -> bool {
        self.denial_for_attempt(host, None).is_none()
    }

    /// Whether an address may be connected to by itself, for any name.
    pub(super) fn allows_address(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        self.outbound.decide(&Host::Address(ip), address.port()).is_ok()
            || self.runtime_gateway && self.gateways.contains(&ip)
    }

    fn check_host(&self, host: &Host, port: u16) -> Result<(), EgressDenial> {
        self.outbound.decide(host, port).map_err(|refusal| {
            let rule = match refusal {
                OutboundDenial::NoNetwork => Rule::NoNetwork,
                OutboundDenial::Host => Rule::HostNotAllowed,
                OutboundDenial::Port => Rule::PortNotAllowed,
            };
            EgressDenial::new(host, Some(port), rule)
        })
    }

    fn is_gateway(&self, host: &Host) -> bool {
        match host {
            Host::Name(name) => GATEWAY_NAMES.contains(&name.as_str()),
            Host::Address(address) => self.gateways.contains(address),
        }
    }

    /// Returns the addresses of the gateway, if the flag for the gateway allows them. No other rule allows the gateway,
    /// since it leads to the machine itself and not to the network.
    fn gateway_addresses(&self, host: &Host, port: u16) -> Result<Vec<SocketAddr>, EgressDenial> {
        if !self.runtime_gateway {
            return Err(EgressDenial::new(host, Some(port), Rule::RuntimeGateway));
        }
        let place = |address: &IpAddr| SocketAddr::new(*address, port);
        Ok(match host {
            Host::Address(address) => vec![place(address)],
            Host::Name(_) => self.gateways.iter().map(place).collect(),
        })
    }

    fn check_address(&self, host: &Host, port: u16, address: IpAddr) -> Result<(), EgressDenial> {
        let denied = |rule| Err(EgressDenial::for_address(host, port, address, rule));
        if self.gateways.contains(&address) {
            // A name that resolves to the gateway does not bypass the flag.
            return if self.runtime_gateway { Ok(()) } else { denied(Rule::RuntimeGateway) };
        }
        if let Some((network, rule)) = address::special_purpose_network(address) {
            // A rule for a network that is larger than this special network does not allow it.
            let vouches = |found: &HostRule| {
                found
                    .network()
                    .is_some_and(|of_rule| of_rule.contains(&address) && network.contains(&of_rule))
            };
            if !self.rules_for_port(port).any(vouches) {
                return denied(rule);
            }
        }
        let is_exact = |found: &HostRule| found.network() == Some(address.into());
        let is_loopback = address.is_loopback();
        if !is_loopback && address::is_local_address(address) && !self.rules_for_port(port).any(is_exact) {
            return denied(Rule::OwnAddress);
        }
        Ok(())
    }

    /// Returns the rules that allow a port; a rule without ports allows those of the list.
    fn rules_for_port(&self, port: u16) -> impl Iterator<Item = &HostRule> {
        let Outbound { insecure_allow_all, allow_host, allow_port } = &self.outbound;
        let contain = move |ports: &[PortRange]| ports.iter().any(|ports| ports.contains(port));
        let listed = *insecure_allow_all || allow_port.is_empty() || contain(allow_port);
        allow_host.iter().filter(move |rule| match rule.ports() {
            [] => listed,
            own => contain(own),
        })
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
