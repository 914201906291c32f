//! The proxy as a protected resource: its resource identifiers (RFC 8707) and the URL of its metadata (RFC 9728).

use std::net::SocketAddr;

use http::{HeaderMap, header};
use url::Url;

use super::external_url::{ExternalUrlConfig, is_authority};

/// The well-known URI of the metadata, without the path of the resource.
pub(crate) const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The identifiers of the proxy.
#[derive(Debug)]
pub(crate) struct ProtectedResource {
    /// `--resource-url`.
    configured_url: Option<String>,
    /// `host:port` as local clients may write it; the configured one is first.
    authorities: Vec<String>,
    /// The path of the MCP endpoint.
    path: String,
    publicity: ExternalUrlConfig,
}

/// The URLs as one client sees them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ResourceUrls {
    /// The resource identifier.
    pub(crate) resource: String,
    /// The URL of its metadata.
    pub(crate) metadata: String,
}

impl ProtectedResource {
    /// Creates it from the listener's address, the configured host, and the path of the endpoint.
    pub(crate) fn new(
        explicit: Option<String>,
        host: &str,
        address: SocketAddr,
        path: &str,
        publicity: ExternalUrlConfig,
    ) -> Self {
        let port = address.port();
        let host = host.trim_matches(['[', ']']);
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let mut own = vec![format!("{host}:{port}")];
        if address.ip().is_loopback() {
            own.extend(["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{port}")));
        }
        Self {
            configured_url: explicit,
            authorities: own,
            path: if path == "/" { String::new() } else { path.to_owned() },
            publicity,
        }
    }

    /// The URLs as the client of a request sees them.
    pub(crate) fn urls(&self, headers: &HeaderMap) -> ResourceUrls {
        if let Some(explicit) = &self.configured_url {
            return ResourceUrls { resource: explicit.clone(), metadata: metadata_url(explicit) };
        }
        let public = self.publicity.resolve(headers);
        let origin = public.origin.unwrap_or_else(|| {
            let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
            let host = host.filter(|host| is_authority(host));
            format!(
                "http://{}",
                host.or_else(|| self.authorities.first().map(String::as_str)).unwrap_or_default()
            )
        });
        let prefix = public.prefix;
        // With a prefix, the metadata is below the prefix, because other paths are not routed to the proxy.
        ResourceUrls {
            resource: format!("{origin}{prefix}{}", self.path),
            metadata: format!("{origin}{prefix}{WELL_KNOWN}{}", self.path),
        }
    }

    /// The accepted audiences if none is configured. They do not depend on headers, trusted or not: otherwise a
    /// client could choose another resource and present a token for that one.
    pub(crate) fn audiences(&self) -> Vec<String> {
        if let Some(explicit) = &self.configured_url {
            return vec![explicit.clone()];
        }
        // Without a request, only the configured prefix applies.
        let prefix = self.publicity.resolve(&HeaderMap::new()).prefix;
        let mut audiences: Vec<String> =
            self.authorities.iter().map(|own| format!("http://{own}{prefix}{}", self.path)).collect();
        if self.path.is_empty() && prefix.is_empty() {
            // Many clients write an empty path as `/`.
            audiences.extend(audiences.clone().into_iter().map(|audience| format!("{audience}/")));
        }
        audiences
    }

    /// Whether a path is that of the metadata: with the resource's path, or without.
    pub(crate) fn is_metadata_path(&self, suffix: &str, headers: &HeaderMap) -> bool {
        let suffix = suffix.trim_end_matches('/');
        let explicit = || {
            let url = self.configured_url.as_deref().and_then(|explicit| Url::parse(explicit).ok());
            url.is_some_and(|url| url.path().trim_end_matches('/') == suffix)
        };
        suffix.is_empty()
            || suffix == self.path
            || explicit()
            || suffix == format!("{}{}", self.publicity.resolve(headers).prefix, self.path)
    }
}

/// The URL of a resource's metadata (RFC 9728 section 3.1).
fn metadata_url(resource: &str) -> String {
    match Url::parse(resource) {
        Ok(mut url) => {
            let path = url.path().trim_end_matches('/').to_owned();
            url.set_path(&format!("{WELL_KNOWN}{path}"));
            url.into()
        }
        Err(_) => WELL_KNOWN.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(explicit: Option<&str>, host: &str, trusted: bool, path: &str) -> ProtectedResource {
        let address = match host {
            "0.0.0.0" => "0.0.0.0:80",
            _ => "127.0.0.1:80",
        };
        let publicity = ExternalUrlConfig { prefix: None, trust_proxy_headers: trusted };
        ProtectedResource::new(
            explicit.map(str::to_owned),
            host,
            address.parse().expect("one"),
            path,
            publicity,
        )
    }

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let name = http::HeaderName::from_static;
        list.iter().map(|(key, value)| (name(key), value.parse().expect("a value"))).collect()
    }

    #[test]
    fn the_resource_is_the_requested_url_unless_configured() {
        let seen = |resource: &ProtectedResource, list: &[_]| {
            let ResourceUrls { resource, metadata } = resource.urls(&headers(list));
            (resource, metadata)
        };
        let host = [("host", "localhost:80")];
        let own = resource(None, "127.0.0.1", false, "/mcp");
        let (name, place) = seen(&own, &host);
        assert_eq!(name, "http://localhost:80/mcp");
        assert_eq!(place, "http://localhost:80/.well-known/oauth-protected-resource/mcp");
        let forwarded = [
            ("host", "a:1"),
            ("x-forwarded-host", "mcp.example"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-prefix", "/team"),
        ];
        assert_eq!(seen(&own, &forwarded).0, "http://a:1/mcp");
        let trusting = resource(None, "0.0.0.0", true, "/mcp");
        let (name, place) = seen(&trusting, &forwarded);
        assert_eq!(name, "https://mcp.example/team/mcp");
        assert_eq!(place, "https://mcp.example/team/.well-known/oauth-protected-resource/mcp");
        let told = resource(Some("https://mcp.example/v1/mcp"), "0.0.0.0", false, "/mcp");
        let (name, place) = seen(&told, &host);
        assert_eq!(name, "https://mcp.example/v1/mcp");
        assert_eq!(place, "https://mcp.example/.well-known/oauth-protected-resource/v1/mcp");
        assert_eq!(seen(&own, &[("host", "a\"b")]).0, "http://127.0.0.1:80/mcp");
    }

    #[test]
    fn a_client_cannot_choose_the_audience() {
        let audiences = resource(None, "127.0.0.1", true, "/mcp").audiences();
        assert!(audiences.contains(&"http://localhost:80/mcp".to_owned()), "{audiences:?}");
        let root = resource(None, "127.0.0.1", false, "/").audiences();
        assert!(root.contains(&"http://127.0.0.1:80".to_owned()));
        assert!(root.contains(&"http://127.0.0.1:80/".to_owned()));
        let told = resource(Some("https://mcp.example/mcp"), "0.0.0.0", true, "/mcp");
        assert_eq!(told.audiences(), ["https://mcp.example/mcp"]);
    }

    #[test]
    fn the_metadata_is_at_the_root_and_at_the_path_of_the_resource() {
        let told = resource(Some("https://mcp.example/v1/mcp"), "0.0.0.0", false, "/mcp");
        let none = headers(&[]);
        for suffix in ["", "/", "/mcp", "/v1/mcp", "/mcp/"] {
            assert!(told.is_metadata_path(suffix, &none), "{suffix}");
        }
        for suffix in ["/other", "mcp", "/mcp/x"] {
            assert!(!told.is_metadata_path(suffix, &none), "{suffix}");
        }
    }
}
