//! Redacts URLs in messages, plans, lists and logs.
//!
//! A query often contains a key, userinfo may contain a password, and a fragment may contain a token.

use url::Url;

use crate::printable::Printable as _;

/// The URL without credentials, query and fragment.
pub(crate) fn redact_url(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Fails only for URLs that cannot have credentials.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

/// Splits a text at the `://` after its scheme; `None` if the text does not begin with a scheme (RFC 3986 section 3.1).
pub(crate) fn split_scheme(text: &str) -> Option<(&str, &str)> {
    text.split_once("://").filter(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    })
}

/// Redacts a text that should be a URL, like [`redact_url`]. If the text is not a URL and may contain credentials, only
/// the scheme is kept, because the position of the credentials is unknown.
pub(crate) fn redact_url_text(text: &str) -> String {
    let parts = split_scheme(text);
    // Otherwise the host of `host:1` would be parsed as a scheme.
    if parts.is_some()
        && let Ok(url) = Url::parse(text)
    {
        // The text is returned unchanged, because the normal form of a URL may have an additional `/`.
        let plain = url.username().is_empty() && url.password().is_none();
        return if plain { before_query(text) } else { redact_url(&url) };
    }
    match parts {
        _ if !text.contains('@') => before_query(text),
        Some((scheme, _)) => format!("{scheme}://…"),
        None => "…".to_owned(),
    }
}

/// The part before the query and the fragment.
fn before_query(text: &str) -> String {
    text.split(['?', '#']).next().unwrap_or_default().printable()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_secret_is_left_out() {
        for (text, expected) in [
            ("https://example.com", "https://example.com"),
            ("https://example.com/a/b?key=canary&c", "https://example.com/a/b"),
            ("https://example.com/a#canary", "https://example.com/a"),
            ("https://example.com/a?mail=me@canary", "https://example.com/a"),
            ("https://canary:canary@example.com/a", "https://example.com/a"),
            ("https://canary@example.com:1/a?canary", "https://example.com:1/a"),
            ("data:canary@x?canary", "…"),
            ("https://user:can/canary@example.com:99999", "https://…"),
            ("https://user:can?canary@example.com:99999", "https://…"),
            ("canary@example.com", "…"),
            ("me:canary@example.com/a?next=https://b", "…"),
            ("example.com?key=canary@&next=https://b", "…"),
            ("example.com/a?key=canary&next=https://b", "example.com/a"),
            ("https://example.com:99999?canary", "https://example.com:99999"),
            ("relative?canary", "relative"),
            ("host:1", "host:1"),
            ("https://a\nb?canary", "https://a\\nb"),
        ] {
            assert_eq!(redact_url_text(text), expected, "{text}");
            assert!(!redact_url_text(text).contains("canary"), "{text}");
            if let Some(url) = Url::parse(text).ok().filter(Url::has_host) {
                assert!(!redact_url(&url).contains("canary"), "{text}");
            }
        }
    }
}
