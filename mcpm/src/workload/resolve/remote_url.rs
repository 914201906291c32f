//! Parses the URLs of remote servers.

use std::{fmt, net::IpAddr};

use url::{Host, Url};

use crate::{
    Error, ErrorKind, Result,
    name::WorkloadName,
    proxy::target::Target,
    redact::url::{redact_url, redact_url_text},
};

/// Second-level domains below which domains are registered, as in `example.co.uk`.
const PUBLIC_SECOND_LEVEL_DOMAINS: &[&str] = &["ac", "co", "com", "edu", "gov", "net", "or", "org"];

/// The URL of a remote server, without a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::workload) struct RemoteUrl(Url);

impl RemoteUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// `InvalidOption` for schemes other than `http` and `https`, and for a URL with credentials.
    pub(in crate::workload) fn parse(text: &str) -> Result<Self> {
        let mut url = Url::parse(text).map_err(|error| {
            Error::new(ErrorKind::InvalidOption, format!("`{}` is not a valid URL", redact_url_text(text)))
                .source(error)
        })?;
        if !url.username().is_empty() || url.password().is_some() {
            // The error does not repeat the URL, which would show the credentials.
            return Err(Error::new(ErrorKind::InvalidOption, "the URL of the server contains credentials")
                .hint("remove the user name and the password before `@`"));
        }
        url.set_fragment(None);
        Target::parse(url.as_str())?;
        Ok(Self(url))
    }

    /// Returns the generated name of a workload: the registered part of the host name.
    pub(in crate::workload) fn workload_name(&self) -> WorkloadName {
        let address = |ip: IpAddr| WorkloadName::sanitized(&format!("remote-{ip}").replace(['.', ':'], "-"));
        match self.0.host() {
            Some(Host::Ipv4(ip)) => address(ip.into()),
            Some(Host::Ipv6(ip)) => address(ip.into()),
            Some(Host::Domain(domain)) => WorkloadName::sanitized(registered_label(domain)),
            None => WorkloadName::sanitized(""),
        }
    }

    /// Returns the URL without its query, for display.
    pub(in crate::workload) fn redacted(&self) -> String {
        redact_url(&self.0)
    }

    /// Tells whether requests are encrypted or stay on this machine.
    pub(in crate::workload) fn is_confidential(&self) -> bool {
        self.0.scheme() == "https"
            || match self.0.host() {
                Some(Host::Domain(name)) => name == "localhost",
                Some(Host::Ipv4(ip)) => ip.is_loopback(),
                Some(Host::Ipv6(ip)) => ip.is_loopback(),
                None => false,
            }
    }

    /// Returns the path, which is also that of the proxy.
    pub(in crate::workload) fn path(&self) -> &str {
        self.0.path()
    }
}

impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// Returns `github` for `api.github.com`, `example` for `mcp.example.co.uk`, and `localhost` for itself.
fn registered_label(domain: &str) -> &str {
    let labels: Vec<&str> = domain.split('.').filter(|label| !label.is_empty()).collect();
    match labels.as_slice() {
        [.., owner, second, top] if top.len() == 2 && PUBLIC_SECOND_LEVEL_DOMAINS.contains(second) => owner,
        [.., owner, _] => owner,
        [only] => only,
        [] => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_the_owner_of_the_host_registered() {
        for (url, name) in [
            ("https://api.github.com/mcp", "github"),
            ("https://mcp.example.co.uk/", "example"),
            ("https://example.co.uk", "example"),
            ("https://x.co", "x-server"),
            ("https://localhost:8080/mcp", "localhost"),
            ("http://127.0.0.1:1/mcp", "remote-127-0-0-1"),
            ("http://[::1]:1/mcp", "remote-1"),
            ("http://[2001:db8::7]/mcp", "remote-2001-db8-7"),
            ("https://MCP.Example.COM./x", "example"),
        ] {
            assert_eq!(RemoteUrl::parse(url).unwrap().workload_name().as_str(), name, "{url}");
        }
    }

    #[test]
    fn the_url_keeps_path_and_query_without_the_fragment() {
        let url = RemoteUrl::parse("https://example.com/v1/mcp?key=secret#top").unwrap();
        assert_eq!(url.to_string(), "https://example.com/v1/mcp?key=secret");
        assert_eq!(url.redacted(), "https://example.com/v1/mcp");
        assert_eq!(url.path(), "/v1/mcp");
    }
}
