//! Serializes the configuration of the shim, which `mcpm/shim/config.rs` parses.

use std::collections::BTreeMap;

use super::HostMap;
use crate::{Error, ErrorKind, Result};

/// Serializes a configuration.
///
/// # Errors
/// `InvalidOption` for a text that cannot be an argument or variable of a program.
pub(super) fn encode(
    layout: &HostMap,
    command: &[String],
    env: &BTreeMap<String, String>,
    report_lookups: bool,
) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut put = |letter: u8, value: &[u8]| -> Result<()> {
        let too_long = |error| Error::new(ErrorKind::InvalidOption, "a value is too long").source(error);
        let length = u32::try_from(value.len()).map_err(too_long)?;
        bytes.push(letter);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(value);
        Ok(())
    };
    let text = |text: &str| {
        let zero = || Error::new(ErrorKind::InvalidOption, "an argument or a variable contains a NUL byte");
        if text.contains('\0') { Err(zero()) } else { Ok(()) }
    };
    for argument in command {
        text(argument)?;
        put(b'a', argument.as_bytes())?;
    }
    for (name, value) in env {
        let variable = format!("{name}={value}");
        text(&variable)?;
        put(b'e', variable.as_bytes())?;
    }
    layout.names.iter().try_for_each(|name| put(b'n', name.as_bytes()))?;
    layout.parent_domains.iter().try_for_each(|name| put(b'b', name.as_bytes()))?;
    if layout.any_name {
        put(b'*', b"")?;
    }
    layout.ports.iter().try_for_each(|port| put(b'p', &port.to_le_bytes()))?;
    put(b'h', &layout.proxy_port.to_le_bytes())?;
    if let Some(port) = layout.target_port {
        put(b'i', &port.to_le_bytes())?;
    }
    put(b'w', b"")?;
    if report_lookups {
        put(b'l', b"")?;
    }
    put(b'.', b"")?;
    Ok(bytes)
}
