//! Decides about a connection: by host and port, then by every address that the name has. Only addresses that
//! were looked at are connected to.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _},
    sync::Arc,
    time::Duration,
};

use tokio::sync::Semaphore;

use super::{Denial, Rule, address};
use crate::permission::{Host, HostRule, Outbound, PortRange, Refusal};

/// How long looking up a name may take.
const LOOKUP: Duration = Duration::from_secs(10);
/// Most names that are looked up at once. The threads for that are those of the whole process.
const LOOKUPS: usize = 16;
/// Most addresses of a name that are tried: whoever controls the name chooses how many it has.
const MAX_ADDRESSES: usize = 16;
/// Names that engines give the machine they run on.
const GATEWAY_NAMES: [&str; 3] =
    ["host.docker.internal", "gateway.docker.internal", "host.containers.internal"];
/// The gateway of Docker's first network, unless it was configured otherwise.
const USUAL_GATEWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(172, 17, 0, 1));

/// What connections are held against.
#[derive(Debug)]
pub(super) struct Policy {
    outbound: Outbound,
    runtime_gateway: bool,
    gateways: Vec<IpAddr>,
    lookups: Lookups,
}

/// Bounds the lookups that a server can have under way.
#[derive(Debug)]
struct Lookups(Arc<Semaphore>);

impl Lookups {
    /// Runs one on a thread that may wait. Nobody can end it there, so it counts until it has ended by itself,
    /// also when nobody waits for it any more.
    async fn run<T: Send + 'static>(
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
pub(super) enum No {
    /// It is not allowed.
    Denied(Box<Denial>),
    /// It is, but nobody is reached.
    Failed(String),
}

impl From<Denial> for No {
    fn from(denial: Denial) -> Self {
        Self::Denied(Box::new(denial))
    }
}

impl Policy {
    pub(super) fn new(outbound: Outbound, runtime_gateway: bool, mut gateways: Vec<IpAddr>) -> Self {
        if !gateways.contains(&USUAL_GATEWAY) {
            gateways.push(USUAL_GATEWAY);
        }
        let lookups = Lookups(Arc::new(Semaphore::new(LOOKUPS)));
        Self { outbound, runtime_gateway, gateways, lookups }
    }

    /// The addresses that may be connected to, one at least.
    pub(super) async fn addresses(&self, host: &Host, port: u16) -> Result<Vec<SocketAddr>, No> {
        if self.is_gateway(host) {
            return self.gateway(host, port).map_err(No::from);
        }
        self.decide(host, port)?;
        let found: Vec<IpAddr> = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => {
                let failed = |why: &str| No::Failed(format!("`{host}` cannot be looked up: {why}"));
                let name = name.clone();
                let lookup = move || (name.as_str(), port).to_socket_addrs();
                let found = tokio::time::timeout(LOOKUP, self.lookups.run(lookup)).await;
                let found = found.map_err(|_| failed("no answer in time"))?;
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
            None if allowed.is_empty() => Err(No::Failed(format!("`{host}` has no address"))),
            _ => {
                allowed.truncate(MAX_ADDRESSES);
                Ok(allowed)
            }
        }
    }

    /// Says why something that was tried without the proxy would not have come about with it, if so.
    pub(super) fn refusal_of_attempt(&self, host: &Host, port: Option<u16>) -> Option<Denial> {
        if self.is_gateway(host) {
            return (!self.runtime_gateway).then(|| Denial::new(host, port, Rule::RuntimeGateway));
        }
        match (host, port) {
            (Host::Address(address), Some(port)) => {
                self.decide(host, port).and_then(|()| self.check_address(host, port, *address)).err()
            }
            (_, Some(port)) => self.decide(host, port).err(),
            (Host::Name(name), None) if self.outbound.allows_name(name) => None,
            (_, None) => {
                let rule = if self.outbound.is_nothing() { Rule::NoNetwork } else { Rule::HostNotAllowed };
                Some(Denial::new(host, None, rule))
            }
        }
    }

    /// Tells whether a name may be looked up.
    pub(super) fn allows_lookup(&self, host: &Host) -> bool {
        self.refusal_of_attempt(host, None).is_none()
    }

    /// Tells whether an address may be connected to by itself, whatever name leads there.
    pub(super) fn allows_address(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        self.outbound.decide(&Host::Address(ip), address.port()).is_ok()
            || self.runtime_gateway && self.gateways.contains(&ip)
    }

    fn decide(&self, host: &Host, port: u16) -> Result<(), Denial> {
        self.outbound.decide(host, port).map_err(|refusal| {
            let rule = match refusal {
                Refusal::Nothing => Rule::NoNetwork,
                Refusal::Host => Rule::HostNotAllowed,
                Refusal::Port => Rule::PortNotAllowed,
            };
            Denial::new(host, Some(port), rule)
        })
    }

    fn is_gateway(&self, host: &Host) -> bool {
        match host {
            Host::Name(name) => GATEWAY_NAMES.contains(&name.as_str()),
            Host::Address(address) => self.gateways.contains(address),
        }
    }

    /// The gateway is allowed by its own flag alone: other rules speak of the network, and this is the machine.
    fn gateway(&self, host: &Host, port: u16) -> Result<Vec<SocketAddr>, Denial> {
        if !self.runtime_gateway {
            return Err(Denial::new(host, Some(port), Rule::RuntimeGateway));
        }
        let place = |address: &IpAddr| SocketAddr::new(*address, port);
        Ok(match host {
            Host::Address(address) => vec![place(address)],
            Host::Name(_) => self.gateways.iter().map(place).collect(),
        })
    }

    fn check_address(&self, host: &Host, port: u16, address: IpAddr) -> Result<(), Denial> {
        let denied = |rule| Err(Denial::of_address(host, port, address, rule));
        if self.gateways.contains(&address) {
            // A name that leads there is no way around the flag.
            return if self.runtime_gateway { Ok(()) } else { denied(Rule::RuntimeGateway) };
        }
        if let Some((network, rule)) = address::special(address) {
            // A rule for a wider network does not mean this one.
            let vouches = |found: &HostRule| {
                found
                    .network()
                    .is_some_and(|of_rule| of_rule.contains(&address) && network.contains(&of_rule))
            };
            if !self.rules(port).any(vouches) {
                return denied(rule);
            }
        }
        let is_exact = |found: &HostRule| found.network() == Some(address.into());
        let is_loopback = address.is_loopback();
        if !is_loopback && address::is_own(address) && !self.rules(port).any(is_exact) {
            return denied(Rule::OwnAddress);
        }
        Ok(())
    }

    /// The rules that allow a port; one without ports of its own allows those of the list.
    fn rules(&self, port: u16) -> impl Iterator<Item = &HostRule> {
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
