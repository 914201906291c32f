//! Removes hop-by-hop headers (RFC 9110 section 7.6.1).
//!
//! The header `Connection` names additional hop-by-hop headers. Code that sets a header for the server must first
//! remove the headers that the client names there; otherwise, the client could cause the new header to be removed.

use http::{HeaderMap, HeaderName, header};

/// Removes hop-by-hop headers, and further headers that `drops` selects.
pub(super) fn strip(headers: &mut HeaderMap, drops: impl Fn(&str) -> bool) {
    // Iterating over the existing names is cheaper than looking up all possible ones.
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

/// Whether some servers treat a header's name as equal to a name that `counts` selects: servers that pass headers as
/// variables (CGI, WSGI) do not distinguish `_` and `-`, so an unchecked header could replace a checked one.
pub(super) fn is_underscore_variant(name: &str, counts: impl Fn(&str) -> bool) -> bool {
    name.contains('_') && counts(&name.replace('_', "-"))
}

/// Whether a header is hop-by-hop (RFC 9110 section 7.6.1).
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
