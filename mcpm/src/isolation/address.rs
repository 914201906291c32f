//! Classifies IP addresses. A rule for a name only allows the public addresses of that name.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::LazyLock,
};

use ipnet::IpNet;
use rustix::io::Errno;

use super::Rule;

/// Networks that are not public, narrow ones first.
const SPECIAL_PURPOSE_NETWORKS: [(&str, Rule); 34] = [
    // The metadata service of clouds, which has credentials.
    ("169.254.169.254/32", Rule::MetadataAddress),
    ("169.254.170.2/32", Rule::MetadataAddress),
    ("169.254.170.23/32", Rule::MetadataAddress),
    ("100.100.100.200/32", Rule::MetadataAddress),
    ("168.63.129.16/32", Rule::MetadataAddress),
    ("192.0.0.192/32", Rule::MetadataAddress),
    ("fd00:ec2::254/128", Rule::MetadataAddress),
    ("fd00:ec2::23/128", Rule::MetadataAddress),
    ("fd20:ce::254/128", Rule::MetadataAddress),
    ("127.0.0.0/8", Rule::LoopbackAddress),
    ("::1/128", Rule::LoopbackAddress),
    // A connection to the unspecified address reaches this machine.
    ("0.0.0.0/8", Rule::LoopbackAddress),
    ("::/128", Rule::LoopbackAddress),
    ("169.254.0.0/16", Rule::LinkLocalAddress),
    ("fe80::/10", Rule::LinkLocalAddress),
    ("10.0.0.0/8", Rule::PrivateAddress),
    ("172.16.0.0/12", Rule::PrivateAddress),
    ("192.168.0.0/16", Rule::PrivateAddress),
    ("100.64.0.0/10", Rule::PrivateAddress),
    ("198.18.0.0/15", Rule::PrivateAddress),
    ("fc00::/7", Rule::PrivateAddress),
    ("fec0::/10", Rule::PrivateAddress),
    ("64:ff9b:1::/48", Rule::PrivateAddress),
    ("192.0.0.0/24", Rule::ReservedAddress),
    ("224.0.0.0/4", Rule::ReservedAddress),
    ("240.0.0.0/4", Rule::ReservedAddress),
    ("192.88.99.0/24", Rule::ReservedAddress),
    ("::/96", Rule::ReservedAddress),
    ("100::/64", Rule::ReservedAddress),
    ("2001::/32", Rule::ReservedAddress),
    ("2001:20::/28", Rule::ReservedAddress),
    ("ff00::/8", Rule::ReservedAddress),
    ("5f00::/16", Rule::ReservedAddress),
    ("3fff::/20", Rule::ReservedAddress),
];

static PARSED_NETWORKS: LazyLock<Vec<(IpNet, Rule)>> = LazyLock::new(|| {
    let parsed = SPECIAL_PURPOSE_NETWORKS.iter().filter_map(|(text, rule)| Some((text.parse().ok()?, *rule)));
    parsed.collect()
});

/// Returns the non-public network that contains an address, and the rule that denies it.
pub(super) fn special_purpose_network(address: IpAddr) -> Option<(IpNet, Rule)> {
    let within =
        |address: IpAddr| PARSED_NETWORKS.iter().find(|(network, _)| network.contains(&address)).copied();
    let address = address.to_canonical();
    within(address).or_else(|| match address {
        // Behind a NAT64 or 6to4 gateway, the embedded address counts.
        IpAddr::V6(address) => embedded_ipv4(address)
            .and_then(|inner| within(inner.into()))
            .map(|(_, rule)| (IpNet::from(IpAddr::V6(address)), rule)),
        IpAddr::V4(_) => None,
    })
}

/// Returns the IPv4 address in a NAT64 or 6to4 address.
fn embedded_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let at = |start: usize| {
        let bytes: [u8; 4] = address.octets().get(start..start + 4)?.try_into().ok()?;
        Some(Ipv4Addr::from(bytes))
    };
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => at(12),
        [0x2002, ..] => at(2),
        _ => None,
    }
}

/// Whether an address belongs to this machine. Nothing is sent.
pub(super) fn is_local_address(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    is_local_address_by(address, UdpSocket::bind((any, 0)))
}

/// Checks an address with an unused socket. `socket` may be the error of creating it.
fn is_local_address_by(address: IpAddr, socket: io::Result<UdpSocket>) -> bool {
    let socket = match socket {
        Ok(socket) => socket,
        // If the machine does not support the address family, the address is not local. After any other error, such as
        // too many open files, it may be.
        Err(error) => {
            let errno = error.raw_os_error().map(Errno::from_raw_os_error);
            return !matches!(errno, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL));
        }
    };
    // The kernel chooses the source address for this destination; a local address is its own source.
    let from = socket.connect(SocketAddr::new(address, 9)).and_then(|()| socket.local_addr());
    from.is_ok_and(|from| from.ip() == address)
}

/// Whether an address belongs to the internet, and not to this machine or a private network.
pub(crate) fn is_public(address: IpAddr) -> bool {
    special_purpose_network(address).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_network_parses_and_has_no_host_bits() {
        assert_eq!(PARSED_NETWORKS.len(), SPECIAL_PURPOSE_NETWORKS.len());
        assert!(PARSED_NETWORKS.iter().all(|(network, _)| *network == network.trunc()));
    }

    #[test]
    fn classifies_special_purpose_addresses() {
        for (address, rule) in [
            ("169.254.169.254", Some(Rule::MetadataAddress)),
            ("::ffff:169.254.169.254", Some(Rule::MetadataAddress)),
            ("64:ff9b::a9fe:a9fe", Some(Rule::MetadataAddress)),
            ("2002:a9fe:a9fe::1", Some(Rule::MetadataAddress)),
            ("169.254.1.1", Some(Rule::LinkLocalAddress)),
            ("fe80::1", Some(Rule::LinkLocalAddress)),
            ("127.9.9.9", Some(Rule::LoopbackAddress)),
            ("0.0.0.0", Some(Rule::LoopbackAddress)),
            ("::", Some(Rule::LoopbackAddress)),
            ("::1", Some(Rule::LoopbackAddress)),
            ("::127.0.0.1", Some(Rule::ReservedAddress)),
            ("10.0.0.1", Some(Rule::PrivateAddress)),
            ("172.31.255.255", Some(Rule::PrivateAddress)),
            ("172.32.0.1", None),
            ("100.64.0.1", Some(Rule::PrivateAddress)),
            ("fd12::1", Some(Rule::PrivateAddress)),
            ("255.255.255.255", Some(Rule::ReservedAddress)),
            ("224.0.0.1", Some(Rule::ReservedAddress)),
            ("1.1.1.1", None),
            ("2606:4700::1111", None),
            ("64:ff9b::101:101", None),
        ] {
            assert_eq!(
                special_purpose_network(address.parse().unwrap()).map(|(_, rule)| rule),
                rule,
                "{address}"
            );
        }
    }

    #[test]
    fn local_addresses_are_recognized() {
        assert!(is_local_address(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_local_address(Ipv4Addr::new(192, 0, 2, 77).into()));
    }

    #[test]
    fn an_undecidable_address_counts_as_local() {
        let told = |errno: Errno| is_local_address_by(Ipv4Addr::new(192, 0, 2, 77).into(), Err(errno.into()));
        assert!(told(Errno::MFILE) && told(Errno::NFILE) && told(Errno::NOBUFS) && told(Errno::PERM));
        // Without the address family, no address of it is local.
        assert!(!told(Errno::AFNOSUPPORT) && !told(Errno::ADDRNOTAVAIL));
    }
}
