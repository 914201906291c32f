//! Parses the configuration of the shim, which consists of records.
//!
//! mcpm serializes it in `isolation/config.rs`, and `isolation/shim_tests.rs` parses the result with this file.

use alloc::vec::Vec;

use super::records::{next_record, nul_terminated};

/// The configuration of the shim.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    /// The server's program and arguments, each with a zero byte at the end.
    pub(crate) args: Vec<Vec<u8>>,
    /// Variables that take precedence over those of the engine, `NAME=VALUE` with a zero byte at the end.
    pub(crate) env: Vec<Vec<u8>>,
    /// Names with an address from the start, in the order of their addresses.
    pub(crate) names: Vec<Vec<u8>>,
    /// Names whose subdomains get an address when they are looked up.
    pub(crate) parent_domains: Vec<Vec<u8>>,
    /// Whether every name gets an address.
    pub(crate) any_name: bool,
    /// Ports that the shim listens on for connections to names.
    pub(crate) ports: Vec<u16>,
    /// Port of the HTTP proxy.
    pub(crate) proxy_port: u16,
    /// Port that the server listens on.
    pub(crate) inbound_port: Option<u16>,
    /// Whether attempts to bypass the proxy are reported to mcpm.
    pub(crate) report_bypass: bool,
    /// Whether lookups of allowed names are reported to mcpm.
    pub(crate) report_lookups: bool,
}

impl Config {
    /// Parses a configuration; `None` if it is incomplete or invalid.
    pub(crate) fn parse(mut bytes: &[u8]) -> Option<Self> {
        let mut config = Self::default();
        loop {
            let (letter, value) = next_record(&mut bytes)?;
            let port = || Some(u16::from_le_bytes(value.try_into().ok()?));
            match letter {
                b'a' => config.args.push(nul_terminated(value)?),
                b'e' => config.env.push(nul_terminated(value).filter(|text| text.contains(&b'='))?),
                b'n' => config.names.push(value.to_vec()),
                b'b' => config.parent_domains.push(value.to_vec()),
                b'*' => config.any_name = true,
                b'p' => config.ports.push(port()?),
                b'h' => config.proxy_port = port()?,
                b'i' => config.inbound_port = Some(port()?),
                b'w' => config.report_bypass = true,
                b'l' => config.report_lookups = true,
                b'.' => return (bytes.is_empty() && !config.args.is_empty()).then_some(config),
                _ => return None,
            }
        }
    }
}
