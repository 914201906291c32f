//! Parses the address of an engine's API.

use std::{fmt, path::PathBuf};

use crate::{Error, ErrorKind, Result, redact::url::redact_url_text};

/// The port of an engine's API without TLS.
const PLAIN_PORT: u16 = 2375;
/// The port of an engine's API with TLS.
const TLS_PORT: u16 = 2376;

/// The address of an engine's API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineEndpoint {
    /// A socket on this machine.
    Unix(PathBuf),
    /// Host and port of an API without TLS.
    Tcp(String),
}

impl EngineEndpoint {
    /// Parses an address in the syntax of `DOCKER_HOST` and `CONTAINER_HOST`.
    ///
    /// # Errors
    /// `Unsupported` for SSH, TLS and Windows pipes, `InvalidOption` for anything else that is not an address.
    pub fn parse(text: &str) -> Result<Self> {
        let shown = redact_url_text(text);
        let unsupported = |what: &str| {
            Error::new(ErrorKind::Unsupported, format!("cannot reach `{shown}`: {what} is not supported yet"))
                .hint("use the engine's `unix://` or `tcp://` address")
        };
        let invalid = || {
            Error::new(ErrorKind::InvalidOption, format!("`{shown}` is not the address of an engine"))
                .hint("write `unix:///path/to/socket` or `tcp://host:port`")
        };
        let (scheme, rest) = text.split_once("://").unwrap_or(("unix", text));
        match scheme {
            "unix" if rest.starts_with('/') => Ok(Self::Unix(PathBuf::from(rest))),
            "tcp" | "http" => {
                let authority = rest.trim_end_matches('/');
                let with_port = format!("{authority}:{PLAIN_PORT}");
                let parsed: http::uri::Authority = authority.parse().map_err(|_| invalid())?;
                match parsed.port_u16() {
                    Some(TLS_PORT) => Err(unsupported("TLS")),
                    _ if parsed.host().is_empty() || authority.contains(['/', '@']) => Err(invalid()),
                    Some(_) => Ok(Self::Tcp(authority.to_owned())),
                    None => Ok(Self::Tcp(with_port)),
                }
            }
            "https" => Err(unsupported("TLS")),
            "ssh" => Err(unsupported("SSH")),
            "npipe" => Err(unsupported("a Windows pipe")),
            _ => Err(invalid()),
        }
    }
}

impl fmt::Display for EngineEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(authority) => write!(f, "tcp://{authority}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        for (text, endpoint) in [
            ("unix:///var/run/docker.sock", "unix:///var/run/docker.sock"),
            ("/run/podman/podman.sock", "unix:///run/podman/podman.sock"),
            ("tcp://127.0.0.1:4000", "tcp://127.0.0.1:4000"),
            ("tcp://engine.example/", "tcp://engine.example:2375"),
            ("http://[::1]:2375", "tcp://[::1]:2375"),
        ] {
            assert_eq!(EngineEndpoint::parse(text).unwrap().to_string(), endpoint);
        }
    }

    #[test]
    fn unsupported_addresses_differ_from_invalid_ones() {
        for text in ["ssh://host", "https://host:2376", "tcp://host:2376", "npipe:////./pipe/docker_engine"] {
            let error = EngineEndpoint::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{text}");
            assert!(error.to_string().contains("not supported yet"), "{error}");
        }
        for text in
            ["", "unix://relative", "docker", "tcp://", "tcp://user@host:1", "ftp://host", "tcp://host/path"]
        {
            assert_eq!(EngineEndpoint::parse(text).unwrap_err().kind(), ErrorKind::InvalidOption, "{text}");
        }
        let error = EngineEndpoint::parse("tcp://me:canary@host:1").unwrap_err().to_string();
        assert!(error.starts_with("`tcp://host:1` is not"), "{error}");
    }
}
