//! Headers that concern one connection only go no further (RFC 9110 section 7.6.1).
//!
//! `Connection` names more of them. Whoever writes a header that a server is to get takes off what a client names there
//! before, or the client decides whether it gets there.

use http::{HeaderMap, HeaderName, header};

/// Removes the headers that concern one connection only, and others that `drops` names.
pub(super) fn strip(headers: &mut HeaderMap, drops: impl Fn(&str) -> bool) {
    // Looking at the few names there are is cheaper than looking up those that could be there.
    while let Some(name) = headers.keys().find(|name| is_hop_by_hop(name.as_str()) || drops(name.as_str())) {
        let name = name.clone();
        if name == header::CONNECTION {
            let lines = headers.get_all(&name).iter();
            let listed = lines.flat_map(|line| line.to_str().unwrap_or_default().split(','));
            let listed: Vec<HeaderName> = listed.filter_map(|name| name.trim().parse().ok()).collect();
            for name in &listed {
                headers.remove(name);
            }
        }
        headers.remove(&name);
    }
}

/// Whether a header's name is to some servers the same as another's that counts: those that show headers to programs as
/// variables (CGI, WSGI) do not tell `_` and `-` apart, nor one spelling that was checked from one that was not.
pub(super) fn is_underscore_variant(name: &str, counts: impl Fn(&str) -> bool) -> bool {
    name.contains('_') && counts(&name.replace('_', "-"))
}

/// Whether a header concerns one connection only (RFC 9110 section 7.6.1).
pub(super) fn is_hop_by_hop(name: &str) -> bool {
    matches!(
        name,
        "connection"
            | "keep-alive"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "proxy-connection"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hop_by_hop_headers_are_not_forwarded() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-One"),
            ("connection", "x-two"),
            ("x-one", "1"),
            ("x-two", "2"),
            ("x-three", "3"),
            ("x-four", "4"),
            ("te", "trailers"),
        ] {
            headers.append(HeaderName::from_static(name), http::HeaderValue::from_static(value));
        }
        strip(&mut headers, |name| name == "x-four");
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-three"]);
    }
}
