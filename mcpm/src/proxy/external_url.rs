//! Determines the URL of the proxy as clients see it behind a reverse proxy, from options and `X-Forwarded-*` headers.
//!
//! Responses to clients and telemetry contain the URL. Authorization never depends on these headers, because some
//! reverse proxies forward those that their clients send, so that a client could choose the URL.

use http::{HeaderMap, uri::Authority};

/// The external prefix of the proxy's paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ExternalUrl {
    /// `scheme://host[:port]`, if the reverse proxy sends it.
    pub(crate) origin: Option<String>,
    /// The path prefix, with a leading slash and without a trailing one; may be empty.
    pub(crate) prefix: String,
}

/// The configured prefix, and whether headers of a reverse proxy are trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ExternalUrlConfig {
    /// `--endpoint-prefix`.
    pub(crate) prefix: Option<String>,
    /// `--trust-proxy-headers`.
    pub(crate) trust_proxy_headers: bool,
}

impl ExternalUrlConfig {
    /// Resolves the external URL from the headers of a request.
    pub(crate) fn resolve(&self, headers: &HeaderMap) -> ExternalUrl {
        let header = |name: &str| {
            let mut lines = headers.get_all(name).iter();
            let line = lines.next().filter(|_| self.trust_proxy_headers)?;
            if lines.next().is_some() {
                // Of several header lines, it is unknown which one the reverse proxy wrote.
                return None;
            }
            // The reverse proxy appended the last value; earlier ones come from its client.
            let last = line.to_str().ok()?.rsplit(',').next().map(str::trim)?;
            (!last.is_empty() && !last.contains(char::is_whitespace)).then(|| last.to_owned())
        };
        let port = header("x-forwarded-port").filter(|port| port.parse::<u16>().is_ok());
        let origin = header("x-forwarded-host").filter(|host| is_authority(host)).map(|host| {
            let scheme =
                header("x-forwarded-proto").filter(|scheme| scheme == "https").map_or("http", |_| "https");
            let has_port =
                host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
            match &port {
                Some(port) if !has_port && !is_default(scheme, port) => format!("{scheme}://{host}:{port}"),
                _ => format!("{scheme}://{host}"),
            }
        });
        let prefix =
            self.prefix.clone().or_else(|| header("x-forwarded-prefix").filter(|prefix| is_prefix(prefix)));
        let prefix = prefix.unwrap_or_default();
        let prefix = prefix.trim_end_matches('/');
        let slash = if prefix.is_empty() || prefix.starts_with('/') { "" } else { "/" };
        ExternalUrl { origin, prefix: format!("{slash}{prefix}") }
    }
}

/// Whether a text is a host with an optional port, and can be quoted in a header.
pub(crate) fn is_authority(text: &str) -> bool {
    text.parse::<Authority>().is_ok() && !text.contains(['@', '"', '\\'])
}

/// Whether a text is a path prefix, and cannot be read as a host.
fn is_prefix(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/%".contains(&byte);
    text.bytes().all(plain) && !text.starts_with("//")
}

fn is_default(scheme: &str, port: &str) -> bool {
    matches!((scheme, port), ("http", "80") | ("https", "443"))
}

impl ExternalUrl {
    /// The external URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{}{path}", self.origin.as_deref().unwrap_or_default(), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(trusted: bool, prefix: Option<&str>, headers: &[(&'static str, &str)]) -> String {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(*name, value.parse().expect("a value"));
        }
        ExternalUrlConfig { prefix: prefix.map(str::to_owned), trust_proxy_headers: trusted }
            .resolve(&all)
            .url("/messages")
    }

    #[test]
    fn forwarded_headers_count_only_when_trusted() {
        let headers = [
            ("x-forwarded-host", "mcp.example"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-port", "8443"),
            ("x-forwarded-prefix", "tools/"),
        ];
        assert_eq!(seen(false, None, &headers), "/messages");
        assert_eq!(seen(true, None, &headers), "https://mcp.example:8443/tools/messages");
        assert_eq!(seen(true, Some("/own"), &headers), "https://mcp.example:8443/own/messages");
        assert_eq!(seen(true, None, &headers[..1]), "http://mcp.example/messages");
        assert_eq!(seen(false, Some("/own/"), &[]), "/own/messages");
    }

    #[test]
    fn forwarded_values_set_by_the_client_are_ignored() {
        let host = "x-forwarded-host";
        assert_eq!(seen(true, None, &[(host, "evil.example, mcp.example")]), "http://mcp.example/messages");
        for headers in [
            [(host, "evil.example"), (host, "mcp.example")],
            [(host, "a\"b"), ("x-forwarded-port", "1")],
            [(host, "user@a.example"), ("x-forwarded-proto", "https")],
            [(host, "a.example/x"), ("x-forwarded-prefix", "//evil.example")],
            [(host, "a\\b"), ("x-forwarded-prefix", "/a\"b")],
        ] {
            assert_eq!(seen(true, None, &headers), "/messages", "{headers:?}");
        }
        let port = [(host, "mcp.example"), ("x-forwarded-port", "1\"")];
        assert_eq!(seen(true, None, &port), "http://mcp.example/messages");
    }
}
