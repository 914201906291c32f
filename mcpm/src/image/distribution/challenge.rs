//! Authentication challenges of image registries, and their token responses.

use serde::Deserialize;

/// A challenge.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// A token from a token service.
    Bearer {
        /// The URL of the token service.
        realm: String,
        /// The service that the token is for.
        service: Option<String>,
    },
    /// HTTP basic authentication.
    Basic,
}

impl Challenge {
    /// Parses a `WWW-Authenticate` header; `None` for other schemes.
    pub(super) fn parse(value: &str) -> Option<Self> {
        let (scheme, rest) = value.trim().split_once(' ').unwrap_or((value.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service, mut rest) = (None, None, rest.trim());
        while let Some((name, after)) = rest.split_once('=') {
            // Values are quoted, and may contain commas.
            let (value, after) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => after.split_once(',').unwrap_or((after, "")),
            };
            match name.trim().to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value.to_owned()),
                "service" => service = Some(value.to_owned()),
                _ => {}
            }
            rest = after.trim_start_matches([',', ' ']);
        }
        Some(Self::Bearer { realm: realm?, service })
    }
}

/// Returns the token in the response of a token service.
pub(super) fn parse_token(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct TokenResponse {
        token: Option<String>,
        access_token: Option<String>,
    }
    let answer: TokenResponse = serde_json::from_slice(body).ok()?;
    answer.token.or(answer.access_token).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_www_authenticate_challenges() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer { realm: realm.to_owned(), service: service.map(str::to_owned) })
        };
        for (text, meant) in [
            (
                r#"Bearer realm="https://a.example/token",service="a.example",scope="repository:a/b:pull,push""#,
                bearer("https://a.example/token", Some("a.example")),
            ),
            (
                r#"bearer scope="x", Realm="https://a.example/t?a=b" , error=none"#,
                bearer("https://a.example/t?a=b", None),
            ),
            (r#"Basic realm="private""#, Some(Challenge::Basic)),
            ("Basic", Some(Challenge::Basic)),
            (r#"Bearer service="a""#, None),
            (r#"Bearer realm="broken"#, None),
            ("Negotiate", None),
            ("", None),
        ] {
            assert_eq!(Challenge::parse(text), meant, "{text}");
        }
    }

    #[test]
    fn a_token_has_one_of_two_names() {
        assert_eq!(parse_token(br#"{"access_token": "a"}"#).as_deref(), Some("a"));
        assert_eq!(
            parse_token(br#"{"token": "t", "access_token": "a", "expires_in": 1}"#).as_deref(),
            Some("t")
        );
        for bad in [&b"{}"[..], br#"{"token": ""}"#, b"no"] {
            assert_eq!(parse_token(bad), None);
        }
    }
}
