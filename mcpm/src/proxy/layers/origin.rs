//! Rejects requests of web pages from other origins (MCP 2025-11-25, transports, "Security Warning": DNS
//! rebinding).
//!
//! `Origin` is always checked. `Host` is checked too, because after DNS rebinding, a page sends no `Origin` with a GET,
//! but its own name in `Host`. Loopback names, the configured `host`, the hosts of `allowed_origins` and the names in
//! `allowed_hosts` are accepted. A listener beyond loopback also accepts IP addresses, because DNS rebinding needs a
//! name; if callers are authenticated, it accepts any `Host`. If the permission profile lists names, only those and
//! `allowed_hosts` are accepted, on any listener.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, StatusCode, Uri, header};

use crate::{
    Result,
    config_file::invalid,
    explain::Reason,
    mcp::error_code,
    printable::Printable as _,
    proxy::{
        denial::Denial,
        layer::{Inspection, Layer},
        respond::{self, Request},
    },
};

/// The layer.
#[derive(Debug, Clone)]
pub(crate) struct OriginCheck {
    /// The configured host of the listener, in lower case.
    host: String,
    loopback: bool,
    /// Allowed origins in addition to loopback ones: `scheme://host[:port]`, in lower case.
    allowed: Vec<String>,
    /// If not empty, only these names are allowed.
    only_hosts: Vec<String>,
    /// Additional names that clients may use.
    more_hosts: Vec<String>,
    /// Whether callers are authenticated; then any name is allowed on a listener beyond loopback.
    authenticated: bool,
}

impl OriginCheck {
    pub(crate) fn new(host: &str, loopback: bool, allowed: impl IntoIterator<Item = String>) -> Self {
        let allowed =
            allowed.into_iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()).collect();
        Self {
            host: host.trim_matches(['[', ']']).to_ascii_lowercase(),
            loopback,
            allowed,
            only_hosts: Vec::new(),
            more_hosts: Vec::new(),
            authenticated: false,
        }
    }

    /// Allows additional names in `Host`.
    pub(crate) fn more_hosts(self, more_hosts: Vec<String>) -> Self {
        Self { more_hosts, ..self }
    }

    /// Sets whether callers are authenticated.
    pub(crate) fn authenticated(self, authenticated: bool) -> Self {
        Self { authenticated, ..self }
    }

    /// Allows only these names in `Host`, on any listener, unless the list is empty.
    pub(crate) fn only_hosts(self, only_hosts: Vec<String>) -> Self {
        Self { only_hosts, ..self }
    }

    /// Returns which header causes a denial, if any.
    fn disallowed_header(&self, headers: &HeaderMap) -> Option<DisallowedHeader> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        if let Some(origin) = origins.next() {
            let one = origins.next().is_none();
            if !one || !origin.to_str().is_ok_and(|origin| self.allows_origin(origin)) {
                return Some(DisallowedHeader::Origin);
            }
        }
        if self.loopback || !self.only_hosts.is_empty() || !self.authenticated {
            let mut hosts = headers.get_all(header::HOST).iter();
            let host = hosts.next().and_then(|host| host.to_str().ok());
            if hosts.next().is_some() || !host.is_some_and(|host| self.allows_host(host)) {
                return Some(DisallowedHeader::Host);
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
        self.loopback && host.and_then(host_name).is_some_and(is_loopback)
    }

    fn allows_host(&self, host: &str) -> bool {
        let Some(name) = host_name(host) else { return false };
        // In `Host`, IPv6 addresses are in brackets.
        let is_it = |allowed: &String| allowed.trim_matches(['[', ']']).eq_ignore_ascii_case(name);
        if !self.only_hosts.is_empty() || self.more_hosts.iter().any(is_it) {
            return self.only_hosts.iter().chain(&self.more_hosts).any(is_it);
        }
        if !self.loopback && name.parse::<IpAddr>().is_ok() {
            return true;
        }
        let of_allowed = |origin: &String| {
            let uri = origin.parse::<Uri>();
            uri.is_ok_and(|uri| uri.host().is_some_and(|host| host.eq_ignore_ascii_case(name)))
        };
        is_loopback(name) || name.eq_ignore_ascii_case(&self.host) || self.allowed.iter().any(of_allowed)
    }
}

/// The header that causes the denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DisallowedHeader {
    Origin,
    Host,
}

impl DisallowedHeader {
    fn message(self) -> &'static str {
        match self {
            Self::Origin => "Origin not allowed",
            Self::Host => "Host not allowed",
        }
    }

    /// The denial by `layer`.
    fn denial(self, layer: &OriginCheck, headers: &HeaderMap) -> Denial {
        let header_text = |name: HeaderName| {
            let values = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
            values.collect::<Vec<_>>().join(", ")
        };
        // The text may be pasted into a shell.
        let plain =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-+.:/[]_".contains(&byte));
        match self {
            Self::Origin => {
                let origin = header_text(header::ORIGIN);
                let denial = Denial::new(Reason::OriginNotAllowed).input("Origin", &origin);
                // The option can only name a single origin that is not opaque.
                let nameable = plain(&origin)
                    && origin.split_once("://").is_some_and(|(_, host)| host_name(host).is_some());
                match nameable {
                    true => denial
                        .fix(format!("if you trust the page, add `{origin}` to option `allowed_origins`")),
                    false => denial,
                }
            }
            Self::Host => {
                let host = header_text(header::HOST);
                let denial = Denial::new(Reason::HostNotAllowed).input("Host", &host);
                match host_name(&host).filter(|name| plain(name)) {
                    None => denial,
                    Some(name) if layer.only_hosts.is_empty() => denial.fix(format!(
                        "if the name is the proxy's own, add `{name}` to option `allowed_hosts`; otherwise call the proxy by the \
                         name or address it listens on"
                    )),
                    Some(name) => denial.fix(format!(
                        "if the name is the proxy's own, add `{name}` to `network.inbound.allow_host` of the \
                         permission profile"
                    )),
                }
            }
        }
    }
}

/// The name or the address in `host[:port]`, without the brackets of an IPv6 address.
fn host_name(host: &str) -> Option<&str> {
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

impl Layer for OriginCheck {
    fn inspect(&self, request: &mut Request) -> Inspection {
        match self.disallowed_header(request.headers()) {
            None => Inspection::Pass,
            Some(strange) => {
                let (status, code) = (StatusCode::FORBIDDEN, error_code::INVALID_REQUEST);
                let denial = strange.denial(self, request.headers());
                let response = respond::deny(status, code, strange.message(), b"", denial);
                Inspection::Respond(Box::new(response))
            }
        }
    }
}

/// Checks names and addresses that clients may use.
///
/// # Errors
/// `InvalidOption` for anything else, such as a URL or a name with a port.
pub(crate) fn check_hosts(hosts: &[String]) -> Result<()> {
    let is_host = |host: &str| {
        let of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        is_address || (!host.is_empty() && host.bytes().all(of_name))
    };
    match hosts.iter().find(|host| !is_host(host)) {
        None => Ok(()),
        Some(host) => Err(invalid(format!("`{}` is not a host name or address", host.printable()))
            .hint("use a name without scheme, port and path, such as `mcp.example`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_and_addresses() {
        for (host, sound) in [
            ("mcp.example", true),
            ("box_1", true),
            ("192.0.2.1", true),
            ("[::1]", true),
            ("2001:db8::1", true),
            ("", false),
            ("mcp.example:80", false),
            ("http://mcp.example", false),
            ("*.example", false),
            ("a b", false),
        ] {
            let outcome = check_hosts(&[host.to_owned()]);
            assert_eq!(outcome.is_ok(), sound, "{host}: {outcome:?}");
        }
    }

    fn verdict(layer: &OriginCheck, host: &str, origins: &[&str]) -> Option<DisallowedHeader> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().expect("a header value"));
        for origin in origins {
            headers.append(header::ORIGIN, origin.parse().expect("a header value"));
        }
        layer.disallowed_header(&headers)
    }

    #[test]
    fn a_loopback_listener_takes_loopback_names_only() {
        let layer = OriginCheck::new("127.0.0.1", true, []);
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
            assert_eq!(verdict(&layer, host, &[]), Some(DisallowedHeader::Host), "{host}");
        }
    }

    #[test]
    fn an_origin_must_be_a_loopback_or_an_allowed_one() {
        let layer = OriginCheck::new("127.0.0.1", true, ["https://App.example/".to_owned()]);
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
            assert_eq!(verdict(&layer, "localhost", &[origin]), Some(DisallowedHeader::Origin), "{origin}");
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
            let denial = DisallowedHeader::Origin.denial(&OriginCheck::new("127.0.0.1", true, []), &headers);
            let recent = crate::explain::DenialLog::new("s", None);
            assert_eq!(denial.to_record(&recent).fix.contains(origin), named, "{origin}");
        }
    }

    #[test]
    fn names_of_a_profile_are_the_only_ones() {
        for loopback in [true, false] {
            let only = vec!["box.lan".to_owned(), "[::1]".to_owned()];
            let layer = OriginCheck::new("127.0.0.1", loopback, []).only_hosts(only);
            assert_eq!(verdict(&layer, "BOX.lan:8080", &[]), None);
            assert_eq!(verdict(&layer, "[::1]:8080", &[]), None);
            assert_eq!(verdict(&layer, "localhost", &[]), Some(DisallowedHeader::Host));
        }
    }

    #[test]
    fn a_non_loopback_listener_accepts_addresses_and_configured_names() {
        let more = vec!["box.lan".to_owned(), "Mcp.Example".to_owned()];
        let origins = ["https://app.example".to_owned()];
        let layer = OriginCheck::new("mcp-host", false, origins).more_hosts(more);
        for host in [
            "127.0.0.1:1",
            "localhost",
            "192.0.2.7:80",
            "[2001:db8::1]:80",
            "BOX.lan:8080",
            "mcp.example",
            "mcp-host:1",
            "app.example",
        ] {
            assert_eq!(verdict(&layer, host, &[]), None, "{host}");
        }
        for host in ["evil.example", "192.0.2.7.evil.example", "lan", "", "box.lan.evil.example:8080"] {
            assert_eq!(verdict(&layer, host, &[]), Some(DisallowedHeader::Host), "{host}");
        }
        // The additional names also apply if a profile restricts the names.
        let layer = layer.only_hosts(vec!["inner".to_owned()]);
        for (host, passes) in [("inner", true), ("box.lan", true), ("192.0.2.7", false), ("mcp-host", false)]
        {
            assert_eq!(verdict(&layer, host, &[]).is_none(), passes, "{host}");
        }
    }

    #[test]
    fn a_non_loopback_listener_with_authentication_accepts_any_host_but_no_unlisted_origin() {
        let layer = OriginCheck::new("0.0.0.0", false, []).authenticated(true);
        assert_eq!(verdict(&layer, "box.lan:8080", &[]), None);
        assert!(verdict(&layer, "box.lan:8080", &["http://box.lan:8080"]).is_some());
        assert!(verdict(&layer, "box.lan:8080", &["http://localhost"]).is_some());
    }
}
