//! Tests of the parts of the shim that need no system calls, with the configuration that mcpm sends.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{HostMap, config::encode, shim_records as records};

#[path = "../../shim/config.rs"]
mod config;
#[path = "../../shim/dns.rs"]
mod dns;
#[path = "../../shim/names.rs"]
mod names;
#[path = "../../shim/reverse_connections.rs"]
mod reverse_connections;

use config::Config;
use names::Names;
use reverse_connections::ReverseConnections;

fn layout(outbound: &str, target_port: Option<u16>) -> HostMap {
    HostMap::from_outbound(&serde_json::from_str(outbound).unwrap(), target_port)
}

fn configured(layout: &HostMap, command: &[&str], env: &[(&str, &str)]) -> Vec<u8> {
    let command: Vec<String> = command.iter().map(ToString::to_string).collect();
    let env = env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    encode(layout, &command, &env, false).unwrap()
}

#[test]
fn config_round_trips_through_the_shim() {
    let layout = layout(
        r#"{"allow_host": ["a.example", ".b.example:22", "*.c.example", "10.0.0.0/8"], "allow_port": [443, "8000-8001"]}"#,
        Some(8000),
    );
    let bytes = configured(&layout, &["server", "-v", ""], &[("A", "1"), ("B", "x=y\n")]);
    let config = Config::parse(&bytes).unwrap();
    let expected = Config {
        args: vec![b"server\0".to_vec(), b"-v\0".to_vec(), b"\0".to_vec()],
        env: vec![b"A=1\0".to_vec(), b"B=x=y\n\0".to_vec()],
        names: vec![b"a.example".to_vec(), b"b.example".to_vec()],
        parent_domains: vec![b"b.example".to_vec(), b"c.example".to_vec()],
        any_name: false,
        ports: vec![443, 8001, 22],
        proxy_port: 3128,
        inbound_port: Some(8000),
        report_bypass: true,
        report_lookups: false,
    };
    assert_eq!(config, expected);
    let reporting = encode(&layout, &["server".to_owned()], &BTreeMap::new(), true).unwrap();
    assert!(Config::parse(&reporting).unwrap().report_lookups);
    for cut in 0..bytes.len() {
        assert_eq!(Config::parse(&bytes[..cut]), None, "cut at {cut}");
    }
}

#[test]
fn a_name_has_a_public_address_where_connections_are_redirected() {
    let names = |redirected| Names::new(vec![b"a.example".to_vec()], Vec::new(), true, redirected);
    let (mut public, mut loopback) = (names(true), names(false));
    for (name, low) in [("a.example", 1), ("b.example", 2), ("a.example", 1)] {
        assert_eq!(public.address(name.as_bytes()), Some([25, 77, 0, low]));
        assert_eq!(loopback.address(name.as_bytes()), Some([127, 77, 0, low]));
        assert_eq!(public.name([names::LOOPBACK_FIRST_BYTE, 77, 0, low]), Some(name.as_bytes()));
    }
    assert_eq!((public.count(), loopback.count()), (2, 2));
    assert!(names::is_public(&[25, 77, 0, 1]) && !names::is_public(&[127, 77, 0, 1]));
    // An address that was not assigned stands for no name.
    assert_eq!(public.name([25, 77, 0, 1]), None);
}

#[test]
fn default_ports_are_listened_on_unless_rules_or_the_server_use_others() {
    for (outbound, target, ports) in [
        ("{}", None, &[][..]),
        (r#"{"insecure_allow_all": true}"#, None, &[80, 443]),
        (r#"{"insecure_allow_all": true}"#, Some(80), &[443]),
        (r#"{"allow_host": ["a.example"]}"#, None, &[80, 443]),
        (r#"{"allow_host": ["a.example"], "allow_port": [443]}"#, None, &[443]),
        (r#"{"allow_host": ["a.example:5432"]}"#, None, &[5432]),
        (r#"{"allow_host": ["a.example:5432", "b.example"]}"#, None, &[80, 443, 5432]),
    ] {
        assert_eq!(layout(outbound, target).ports, ports, "{outbound} {target:?}");
    }
    assert_eq!(layout("{}", Some(3128)).proxy_port, 3129);
}

#[test]
fn dynamic_names_are_evicted_and_listed_ones_stay() {
    let mut names = Names::new(vec![b"a.example".to_vec()], vec![b"b.example".to_vec()], false, false);
    assert_eq!(names.address(b"c.example"), None);
    assert_eq!(names.address(b"b.example"), None);
    assert_eq!(names.address(b"x.b.example"), Some([127, 77, 0, 2]));
    for number in 0..40_000 {
        let name = format!("{number}.b.example").into_bytes();
        let address = names.address(&name).unwrap();
        assert_eq!(names.name(address), Some(&*name));
    }
    assert_eq!(names.address(b"a.example"), Some([127, 77, 0, 1]));
    assert_eq!(names.name([127, 78, 0, 1]), None);
    assert_eq!(names.name([127, 77, 0, 0]), None);
}

#[test]
fn reverse_connections_reopen_at_once_when_claimed_and_back_off_when_lost() {
    assert_eq!((ReverseConnections::new(false).due(0), ReverseConnections::new(false).wait(0)), (0, None));
    let mut offers = ReverseConnections::new(true);
    let all = offers.due(5);
    assert!(all > 0);
    (0..all).for_each(|_| offers.opened());
    assert_eq!((offers.due(5), offers.wait(5)), (0, None));
    offers.claimed();
    assert_eq!((offers.due(5), offers.wait(5)), (1, Some(0)));
    offers.opened();
    // All connections fail at once, repeatedly; none is forgotten, and the delays grow up to their limit.
    let (mut now, mut longest) = (5, 0);
    for _ in 0..20 {
        (0..all).for_each(|_| offers.lost(now));
        let wait = offers.wait(now).unwrap();
        assert!(wait > 0 && wait >= longest && wait <= 2000, "{wait}");
        longest = wait;
        assert_eq!((offers.due(now), offers.due(now + wait)), (0, all));
        now += wait;
        (0..all).for_each(|_| offers.opened());
    }
    assert_eq!(longest, 2000);
    // A connection that is used resets the delay.
    offers.claimed();
    offers.opened();
    offers.lost(now);
    assert!(offers.wait(now).unwrap() < 100);
}

/// A query for a name.
fn question(name: &str, kind: u8) -> Vec<u8> {
    let mut packet = vec![7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        packet.push(u8::try_from(label.len()).unwrap());
        packet.extend_from_slice(label.as_bytes());
    }
    packet.extend_from_slice(&[0, 0, kind, 0, 1]);
    packet
}

#[test]
fn dns_names_are_answered_or_reported() {
    let known = |name: &[u8]| (name == b"a.example").then_some([127, 77, 0, 1]);
    let a = dns::answer(&question("A.Example", 1), known).unwrap();
    assert_eq!(a.refused, None);
    assert_eq!(a.bytes[..12], [7, 9, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    assert_eq!(a.bytes[a.bytes.len() - 6..], [0, 4, 127, 77, 0, 1]);
    let v6 = dns::answer(&question("a.example", 28), known).unwrap();
    assert_eq!((v6.bytes[3] & 15, v6.bytes[7], v6.refused), (0, 0, None));
    let other = dns::answer(&question("evil.example", 1), known).unwrap();
    assert_eq!((other.bytes[3] & 15, other.bytes[7]), (3, 0));
    assert_eq!(other.refused.as_deref(), Some(&b"evil.example"[..]));
    let strange = dns::answer(&question("a b", 1), known).unwrap();
    assert_eq!((strange.bytes[3] & 15, strange.refused), (1, None));
    assert_eq!(dns::answer(&a.bytes, known), None, "an answer is not answered");
}

proptest! {
    #[test]
    fn any_packet_is_answered_or_dropped(packet in prop::collection::vec(any::<u8>(), 0..600)) {
        if let Some(reply) = dns::answer(&packet, |_| Some([127, 77, 0, 1])) {
            prop_assert!(reply.bytes.len() <= packet.len() + 16);
            prop_assert_eq!(&reply.bytes[..2], &packet[..2]);
        }
    }

    #[test]
    fn any_configuration_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Config::parse(&bytes);
    }

    #[test]
    fn any_server_is_written_as_it_is(
        command in prop::collection::vec("[^\0]{0,20}", 1..4),
        env in prop::collection::btree_map("[A-Z]{1,5}", "[^\0]{0,20}", 0..4),
    ) {
        let config = Config::parse(&encode(&layout("{}", None), &command, &env, false).unwrap()).unwrap();
        let with_zero = |text: &str| [text.as_bytes(), b"\0"].concat();
        let args: Vec<_> = command.iter().map(|text| with_zero(text)).collect();
        let variables: Vec<_> = env.iter().map(|(name, value)| with_zero(&format!("{name}={value}"))).collect();
        prop_assert_eq!((config.args, config.env), (args, variables));
    }
}

#[test]
fn a_zero_byte_is_refused() {
    let refused = |command: &str, value: &str| {
        let env = BTreeMap::from([("A".to_owned(), value.to_owned())]);
        encode(&layout("{}", None), &[command.to_owned()], &env, false).is_err()
    };
    assert!(refused("a\0b", "") && refused("a", "\0") && !refused("a", ""));
}
