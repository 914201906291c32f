//! Keeps web pages of other origins out (MCP 2025-11-25, transports, "Security Warning": DNS rebinding).
//!
//! `Origin` is checked always. `Host` is checked on a loopback listener, where a name that is not a loopback
//! one can only come from a page whose name was pointed here; elsewhere any name may be the machine's.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, StatusCode, Uri, header};

use crate::{
    explain::Reason,
    mcp::error_code,
    proxy::{
        denial::Denial,
        layer::{Answer, Layer, Next},
        respond::{self, Request},
    },
};

/// The layer.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// The name or address that was asked to be listened on, lower case.
    host: String,
    loopback: bool,
    /// Allowed beside loopback ones: `scheme://host[:port]`, lower case.
    allowed: Vec<String>,
    /// When it has names, these and no others.
    only_hosts: Vec<String>,
}

impl Origin {
    pub(crate) fn new(host: &str, loopback: bool, allowed: impl IntoIterator<Item = String>) -> Self {
        let allowed =
            allowed.into_iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()).collect();
        Self { host: host.to_ascii_lowercase(), loopback, allowed, only_hosts: Vec::new() }
    }

    /// Lets only these names pass in `Host`, if there are any, wherever the listener is.
    pub(crate) fn only_hosts(self, only_hosts: Vec<String>) -> Self {
        Self { only_hosts, ..self }
    }

    /// Says which header a request is refused for, if it is.
    fn refuses(&self, headers: &HeaderMap) -> Option<Strange> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        if let Some(origin) = origins.next() {
            let one = origins.next().is_none();
            if !one || !origin.to_str().is_ok_and(|origin| self.allows_origin(origin)) {
                return Some(Strange::Origin);
            }
        }
        if self.loopback || !self.only_hosts.is_empty() {
            let mut hosts = headers.get_all(header::HOST).iter();
            let host = hosts.next().and_then(|host| host.to_str().ok());
            if hosts.next().is_some() || !host.is_some_and(|host| self.allows_host(host)) {
                return Some(Strange::Host);
            }
        }
        None
    }

    fn allows_origin(&self, origin: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        if self.allowed.contains(&origin) {
            return true;
        }
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        self.loopback && host.and_then(name_of).is_some_and(is_loopback)
    }

    fn allows_host(&self, host: &str) -> bool {
        let Some(name) = name_of(host) else { return false };
        if !self.only_hosts.is_empty() {
            // They are written as hosts are, an IPv6 address in brackets.
            let is_it = |allowed: &String| allowed.trim_matches(['[', ']']).eq_ignore_ascii_case(name);
            return self.only_hosts.iter().any(is_it);
        }
        let of_allowed = |origin: &String| {
            let uri = origin.parse::<Uri>();
            uri.is_ok_and(|uri| uri.host().is_some_and(|host| host.eq_ignore_ascii_case(name)))
        };
        is_loopback(name) || name.eq_ignore_ascii_case(&self.host) || self.allowed.iter().any(of_allowed)
    }
}

/// The header that says that a request came from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strange {
    Origin,
    Host,
}

impl Strange {
    fn message(self) -> &'static str {
        match self {
            Self::Origin => "Origin not allowed",
            Self::Host => "Host not allowed",
        }
    }

    /// What is kept of a refusal by `layer`.
    fn denial(self, layer: &Origin, headers: &HeaderMap) -> Denial {
        let said = |name: HeaderName| {
            let values = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
            values.collect::<Vec<_>>().join(", ")
        };
        // What is said here may be pasted into a shell.
        let plain =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-+.:/[]_".contains(&byte));
        match self {
            Self::Origin => {
                let origin = said(header::ORIGIN);
                let denial = Denial::new(Reason::OriginNotAllowed).input("Origin", &origin);
                // What is more than one origin, or none of a page, cannot be named.
                let nameable = plain(&origin)
                    && origin.split_once("://").is_some_and(|(_, host)| name_of(host).is_some());
                if nameable { denial.fix(format!("add `--allowed-origins {origin}`")) } else { denial }
            }
            Self::Host => {
                let host = said(header::HOST);
                let denial = Denial::new(Reason::HostNotAllowed).input("Host", &host);
                match name_of(&host).filter(|name| plain(name)) {
                    None => denial,
                    Some(name) if layer.only_hosts.is_empty() => denial.fix(format!(
                        "add `--allowed-origins http://{name}`, or call the proxy by the name or address it listens on"
                    )),
                    Some(name) => denial.fix(format!(
                        "add `{name}` to `network.inbound.allow_host` of the permission profile"
                    )),
                }
            }
        }
    }
}

/// The name or address in `host[:port]`, brackets taken off.
fn name_of(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => host.bytes().position(|byte| byte == b':').map_or((host, ""), |at| host.split_at(at)),
    };
    let port = port.strip_prefix(':').unwrap_or(port);
    let sound = !name.is_empty()
        && port.bytes().all(|byte| byte.is_ascii_digit())
        && !name.bytes().any(|byte| matches!(byte, b'/' | b'@' | b'?'));
    sound.then_some(name)
}

fn is_loopback(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

impl Layer for Origin {
    fn handle<'a>(&'a self, request: Request, next: Next<'a>) -> Answer<'a> {
        match self.refuses(request.headers()) {
            None => next.handle(request),
            Some(strange) => {
                let (status, code) = (StatusCode::FORBIDDEN, error_code::INVALID_REQUEST);
                let denial = strange.denial(self, request.headers());
                let refused = respond::deny(status, code, strange.message(), b"", denial);
                Box::pin(std::future::ready(refused))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(layer: &Origin, host: &str, origins: &[&str]) -> Option<Strange> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().expect("a header value"));
        for origin in origins {
            headers.append(header::ORIGIN, origin.parse().expect("a header value"));
        }
        layer.refuses(&headers)
    }

    #[test]
    fn a_loopback_listener_takes_loopback_names_only() {
        let layer = Origin::new("127.0.0.1", true, []);
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:9", "[::1]:9", "127.0.0.2"] {
            assert_eq!(verdict(&layer, host, &[]), None, "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "",
            "localhost:x",
            "a@localhost",
        ] {
            assert_eq!(verdict(&layer, host, &[]), Some(Strange::Host), "{host}");
        }
    }

    #[test]
    fn an_origin_must_be_a_loopback_or_an_allowed_one() {
        let layer = Origin::new("127.0.0.1", true, ["https://App.example/".to_owned()]);
        for origin in ["http://localhost:6274", "http://[::1]", "https://127.0.0.1:1", "https://app.example"]
        {
            assert_eq!(verdict(&layer, "localhost", &[origin]), None, "{origin}");
        }
        for origin in [
            "null",
            "http://evil.example",
            "http://app.example",
            "https://app.example:444",
            "file://localhost",
        ] {
            assert_eq!(verdict(&layer, "localhost", &[origin]), Some(Strange::Origin), "{origin}");
        }
        assert!(verdict(&layer, "localhost", &["http://localhost", "http://localhost"]).is_some());
        assert_eq!(verdict(&layer, "app.example", &[]), None);
    }

    #[test]
    fn a_fix_holds_nothing_that_a_shell_would_act_on() {
        for (origin, named) in [
            ("https://app.example:8443", true),
            ("vscode-webview://0abc", true),
            ("http://[2001:db8::1]:80", true),
            ("http://$(reboot)", false),
            ("http://a`id`", false),
            ("http://a;id", false),
            ("$x://a", false),
            ("http://a b", false),
            ("http://a'b", false),
            ("null", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, origin.parse().expect("a header value"));
            let denial = Strange::Origin.denial(&Origin::new("127.0.0.1", true, []), &headers);
            let recent = crate::explain::Recent::new("s", None);
            assert_eq!(denial.refused(&recent).fix.contains(origin), named, "{origin}");
        }
    }

    #[test]
    fn names_of_a_profile_are_the_only_ones() {
        for loopback in [true, false] {
            let only = vec!["box.lan".to_owned(), "[::1]".to_owned()];
            let layer = Origin::new("127.0.0.1", loopback, []).only_hosts(only);
            assert_eq!(verdict(&layer, "BOX.lan:8080", &[]), None);
            assert_eq!(verdict(&layer, "[::1]:8080", &[]), None);
            assert_eq!(verdict(&layer, "localhost", &[]), Some(Strange::Host));
        }
    }

    #[test]
    fn a_wide_listener_takes_any_host_but_no_unlisted_origin() {
        let layer = Origin::new("0.0.0.0", false, []);
        assert_eq!(verdict(&layer, "box.lan:8080", &[]), None);
        assert!(verdict(&layer, "box.lan:8080", &["http://box.lan:8080"]).is_some());
        assert!(verdict(&layer, "box.lan:8080", &["http://localhost"]).is_some());
    }
}
