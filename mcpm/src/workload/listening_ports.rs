//! Finds the ports that a container's processes listen on, to explain why a server does not respond. Linux only, and
//! only for containers whose processes run on this machine.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use super::container::Containers;
use crate::runtime::{ContainerId, Network};

/// State of a listening socket in `/proc/PID/net/tcp`.
const TCP_LISTEN_STATE: &str = "0A";

/// A listening port, and its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListeningPort {
    pub(super) port: u16,
    pub(super) loopback_only: bool,
}

/// Returns the ports that a container's server listens on, ascending; none if it uses the network of the machine or of
/// another container, where other programs listen too.
pub(super) async fn listening_ports(containers: &Containers, id: &ContainerId) -> Vec<ListeningPort> {
    let network = &containers.spec.network;
    if *network == Network::Host || network.is_of_container() {
        return Vec::new();
    }
    let Ok(Some(info)) = containers.runtime.inspect(&id.0).await else { return Vec::new() };
    let Some(pid) = info.pid else { return Vec::new() };
    // The pid may be of another namespace, if mcpm itself runs in a container. Only root can always read the link.
    let network_of = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    if network_of(&pid.to_string()).is_some_and(|of_pid| Some(of_pid) == network_of("self")) {
        return Vec::new();
    }
    let mut found: Vec<ListeningPort> = ["tcp", "tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).ok())
        .flat_map(|table| table.lines().filter_map(parse_row).collect::<Vec<_>>())
        .collect();
    if let Some(isolation) = &containers.isolation {
        found.retain(|listening| !isolation.listens_on(listening.port));
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn parse_row(line: &str) -> Option<ListeningPort> {
    let mut fields = line.split_whitespace();
    let local = fields.nth(1)?;
    if fields.nth(1)? != TCP_LISTEN_STATE {
        return None;
    }
    let (address, port) = local.split_once(':')?;
    let loopback_only = match address.len() {
        8 => IpAddr::from(Ipv4Addr::from(u32::from_str_radix(address, 16).ok()?.swap_bytes())),
        // Four words, each in the machine's byte order.
        32 => {
            let words =
                (0..4).map(|word| u32::from_str_radix(&address[word * 8..][..8], 16).map(u32::swap_bytes));
            let words: Vec<u32> = words.collect::<Result<_, _>>().ok()?;
            let bits = words.iter().fold(0_u128, |bits, word| bits << 32 | u128::from(*word));
            IpAddr::from(Ipv6Addr::from(bits))
        }
        _ => return None,
    }
    .is_loopback();
    Some(ListeningPort { port: u16::from_str_radix(port, 16).ok()?, loopback_only })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_listening_sockets_are_read() {
        let rows = [
            ("   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000", Some((8080, true))),
            ("   1: 00000000:0BB8 00000000:0000 0A 0", Some((3000, false))),
            ("   2: 00000000000000000000000001000000:0016 0:0 0A 0", Some((22, true))),
            ("   3: 00000000000000000000000000000000:0050 0:0 0A 0", Some((80, false))),
            ("   4: 0100007F:1F90 0100007F:0BB8 01 0", None),
            ("  sl  local_address rem_address   st tx_queue", None),
        ];
        for (line, expected) in rows {
            let expected = expected.map(|(port, loopback_only)| ListeningPort { port, loopback_only });
            assert_eq!(parse_row(line), expected, "{line}");
        }
    }
}
