//! How clients see the proxy when another proxy stands in front of it.

use http::HeaderMap;

/// What clients put before the proxy's own paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Public {
    /// `scheme://host[:port]`, when the proxy in front says so.
    pub(crate) origin: Option<String>,
    /// Path prefix, with a leading slash and without a trailing one; empty when there is none.
    pub(crate) prefix: String,
}

/// Where the prefix comes from, and whether the headers of a proxy in front are believed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Publicity {
    /// `--endpoint-prefix`.
    pub(crate) prefix: Option<String>,
    /// `--trust-proxy-headers`.
    pub(crate) trusted: bool,
}

impl Publicity {
    /// Reads one request's headers.
    pub(crate) fn of(&self, headers: &HeaderMap) -> Public {
        let header = |name: &str| {
            let value = headers.get(name).filter(|_| self.trusted)?.to_str().ok()?;
            // The nearest client's proxy wrote the first of several values.
            let first = value.split(',').next().map(str::trim).filter(|value| !value.is_empty())?;
            (!first.contains(char::is_whitespace)).then(|| first.to_owned())
        };
        let origin = header("x-forwarded-host").map(|host| {
            let scheme =
                header("x-forwarded-proto").filter(|scheme| scheme == "https").map_or("http", |_| "https");
            let has_port =
                host.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()));
            match header("x-forwarded-port") {
                Some(port) if !has_port && !is_default(scheme, &port) => format!("{scheme}://{host}:{port}"),
                _ => format!("{scheme}://{host}"),
            }
        });
        let prefix = self.prefix.clone().or_else(|| header("x-forwarded-prefix")).unwrap_or_default();
        let prefix = prefix.trim_end_matches('/');
        let slash = if prefix.is_empty() || prefix.starts_with('/') { "" } else { "/" };
        Public { origin, prefix: format!("{slash}{prefix}") }
    }
}

fn is_default(scheme: &str, port: &str) -> bool {
    matches!((scheme, port), ("http", "80") | ("https", "443"))
}

impl Public {
    /// A path of the proxy as clients must write it.
    pub(crate) fn path(&self, path: &str) -> String {
        format!("{}{}{path}", self.origin.as_deref().unwrap_or_default(), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(trusted: bool, prefix: Option<&str>, headers: &[(&'static str, &str)]) -> String {
        let headers = headers
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().expect("a value")));
        Publicity { prefix: prefix.map(str::to_owned), trusted }.of(&headers.collect()).path("/messages")
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
}
