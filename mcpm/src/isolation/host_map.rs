//! Maps allowed hosts to loopback addresses and ports of the container.

use crate::permission::Outbound;

/// Port of the HTTP proxy, unless the server itself listens there.
const PROXY_PORT: u16 = 3128;
/// Ports of names whose rules list none.
const DEFAULT_PORTS: [u16; 2] = [80, 443];
/// Most ports that the shim listens on for connections to names.
const MAX_PORTS: usize = 128;
/// Most names with an address from the start.
const MAX_NAMES: usize = 1024;

/// The names and ports that the shim serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostMap {
    /// Names with an address from the start, in the order of their addresses.
    pub(crate) names: Vec<String>,
    /// Names whose subdomains get an address when they are looked up.
    pub(crate) parent_domains: Vec<String>,
    /// Whether every name gets an address.
    pub(crate) any_name: bool,
    pub(crate) ports: Vec<u16>,
    pub(crate) proxy_port: u16,
    /// Port that the server listens on.
    pub(crate) target_port: Option<u16>,
}

impl HostMap {
    pub(crate) fn from_outbound(outbound: &Outbound, target_port: Option<u16>) -> Self {
        let rules = || outbound.allow_host.iter();
        let listed: Vec<_> =
            outbound.allow_port.iter().chain(rules().flat_map(|rule| rule.ports())).copied().collect();
        // A rule without ports allows all of them; those below are the usual defaults.
        let usual = DEFAULT_PORTS.into_iter().filter(|port| {
            listed.is_empty() || listed.iter().any(|ports| ports.contains(*port)) || any_port(outbound)
        });
        let mut ports: Vec<u16> = if outbound.is_nothing() { Vec::new() } else { usual.collect() };
        for port in listed.iter().flat_map(|ports| ports.ports()).take(MAX_PORTS) {
            if !ports.contains(&port) && ports.len() < MAX_PORTS {
                ports.push(port);
            }
        }
        let proxy_port = if target_port == Some(PROXY_PORT) { PROXY_PORT + 1 } else { PROXY_PORT };
        // The port of the server and those of the shim are in use.
        ports.retain(|port| Some(*port) != target_port && *port != proxy_port);
        let mut names = Vec::new();
        for name in rules().filter_map(|rule| rule.name()) {
            if names.len() < MAX_NAMES && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        let any_name =
            outbound.insecure_allow_all || outbound.allow_host.is_empty() && !outbound.allow_port.is_empty();
        let below = rules().filter_map(|rule| rule.subdomains_of()).map(str::to_owned).collect();
        Self { names, parent_domains: below, any_name, ports, proxy_port, target_port }
    }

    /// The environment variables for the proxy.
    pub(crate) fn proxy_variables(&self) -> [(&'static str, String); 8] {
        let proxy = format!("http://127.0.0.1:{}", self.proxy_port);
        let around = "localhost,127.0.0.1,::1";
        [
            ("HTTP_PROXY", proxy.clone()),
            ("HTTPS_PROXY", proxy.clone()),
            ("ALL_PROXY", proxy.clone()),
            ("http_proxy", proxy.clone()),
            ("https_proxy", proxy.clone()),
            ("all_proxy", proxy),
            ("NO_PROXY", around.to_owned()),
            ("no_proxy", around.to_owned()),
        ]
    }

    pub(crate) fn listens_on(&self, port: u16) -> bool {
        port == self.proxy_port || self.ports.contains(&port)
    }
}

/// Whether any host is allowed on every port.
fn any_port(outbound: &Outbound) -> bool {
    outbound.allow_port.is_empty() && outbound.allow_host.iter().any(|rule| rule.ports().is_empty())
}
