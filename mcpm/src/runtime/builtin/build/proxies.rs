//! Opens connections of builds through the HTTP proxies that are configured for them.

use std::{collections::BTreeMap, io, net::IpAddr, sync::Arc, time::Duration};

use http::Uri;
use hyper_util::client::{
    legacy::connect::{HttpConnector, proxy::Tunnel},
    proxy::matcher::{Intercept, Matcher},
};
use tokio::net::TcpStream;
use tower_service::Service as _;

use crate::{Error, ErrorKind, Result, printable::Printable as _};

/// How long opening a tunnel may take.
const TUNNEL_TIMEOUT: Duration = Duration::from_secs(20);

/// Connects to hosts and ports through the configured proxies, by tunnels (`CONNECT`).
#[derive(Clone)]
pub(super) struct UpstreamProxies(Arc<Matcher>);

impl UpstreamProxies {
    /// Reads the variables for proxies, in both spellings.
    ///
    /// # Errors
    /// `Unsupported` names the variable of a proxy that requires TLS or SOCKS.
    pub(super) fn from_variables(variables: &BTreeMap<String, String>) -> Result<Self> {
        let find = |name: &str| {
            let lower = name.to_ascii_lowercase();
            variables.get_key_value(name).or_else(|| variables.get_key_value(lower.as_str()))
        };
        let proxy = |name: &str| {
            let Some((name, value)) = find(name) else { return Ok(String::new()) };
            match value.split_once("://") {
                Some((scheme, _)) if !scheme.eq_ignore_ascii_case("http") => {
                    let scheme = scheme.printable();
                    let message = format!(
                        "builds without an engine cannot use the proxy in `{name}`: its scheme is `{scheme}`"
                    );
                    Err(Error::new(ErrorKind::Unsupported, message)
                        .hint("set the variable to an `http://` proxy, or use a container engine"))
                }
                _ => Ok(value.clone()),
            }
        };
        let matcher = Matcher::builder()
            .all(proxy("ALL_PROXY")?)
            .http(proxy("HTTP_PROXY")?)
            .https(proxy("HTTPS_PROXY")?)
            .no(find("NO_PROXY").map_or(String::new(), |(_, value)| value.clone()));
        Ok(Self(Arc::new(matcher.build())))
    }

    /// Opens a tunnel to a host; `None` if no proxy is configured for it.
    pub(super) fn connect(
        &self,
        host: &str,
        port: u16,
    ) -> Option<impl Future<Output = io::Result<TcpStream>> + Send + 'static> {
        let scheme = if port == 80 { "http" } else { "https" };
        let host = if host.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        let uri: Uri = format!("{scheme}://{host}:{port}/").parse().ok()?;
        let proxy = self.0.intercept(&uri)?;
        Some(open_tunnel(proxy, uri))
    }
}

async fn open_tunnel(proxy: Intercept, uri: Uri) -> io::Result<TcpStream> {
    let mut tunnel = Tunnel::new(proxy.uri().clone(), HttpConnector::new());
    if let Some(credentials) = proxy.basic_auth() {
        tunnel = tunnel.with_auth(credentials.clone());
    }
    let opening = tokio::time::timeout(TUNNEL_TIMEOUT, tunnel.call(uri)).await;
    let opened = opening.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
    opened
        .map(hyper_util::rt::TokioIo::into_inner)
        .map_err(|error| io::Error::other(format!("the configured proxy did not open a tunnel: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_that_cannot_be_used_is_named() {
        for (name, value, is_usable) in [
            ("HTTPS_PROXY", "http://proxy.example:3128", true),
            ("https_proxy", "proxy.example:3128", true),
            ("ALL_PROXY", "", true),
            ("all_proxy", "socks5h://user:word@127.0.0.1:1080", false),
            ("HTTP_PROXY", "https://proxy.example", false),
        ] {
            let outcome = UpstreamProxies::from_variables(&[(name.to_owned(), value.to_owned())].into());
            match outcome {
                Ok(_) => assert!(is_usable, "{name}"),
                Err(error) => {
                    assert_eq!((error.kind(), is_usable), (ErrorKind::Unsupported, false), "{name}");
                    assert!(error.message().contains(name) && !error.to_string().contains("word"), "{error}");
                }
            }
        }
    }

    #[test]
    fn each_host_has_the_proxy_that_is_configured_for_it() {
        let variables = [("https_proxy", "http://a.example"), ("NO_PROXY", "direct.example")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let proxies = UpstreamProxies::from_variables(&variables).unwrap();
        for (host, port, expected) in [
            ("pypi.org", 443, true),
            ("pypi.org", 80, false),
            ("direct.example", 443, false),
            ("2001:db8::1", 8443, true),
        ] {
            assert_eq!(proxies.connect(host, port).is_some(), expected, "{host}");
        }
    }
}
