//! How a URL is shown to people: in messages, plans, lists and logs.
//!
//! A query often holds a key, what stands before `@` is a password, and a fragment is nobody's business. Whatever
//! says something of a URL says it through here.

use url::Url;

/// The URL without credentials, query and fragment.
pub(crate) fn redact_url(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // A URL that can have neither has none.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.into()
}

/// The same of a text that should be a URL. Of one that is none and may hold credentials, no more than the scheme is
/// left: where they begin and end is not known then.
pub(crate) fn redact_url_text(text: &str) -> String {
    // Otherwise the host of `host:1` were a scheme.
    if text.contains("://")
        && let Ok(url) = Url::parse(text)
    {
        // As it was written: the form of a URL may have one `/` more.
        let plain = url.username().is_empty() && url.password().is_none();
        return if plain { before_query(text) } else { redact_url(&url) };
    }
    match text.split_once("://") {
        _ if !text.contains('@') => before_query(text),
        Some((scheme, _)) => format!("{}://…", scheme.escape_debug()),
        None => "…".to_owned(),
    }
}

/// What stands before the query and the fragment.
fn before_query(text: &str) -> String {
    text.split(['?', '#']).next().unwrap_or_default().escape_debug().to_string()
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
