//! Parses the challenges in `WWW-Authenticate` (RFC 9110 section 11.6.1).

use http::{HeaderMap, header};

/// Maximum number of challenges that are read from one response.
const MAX_CHALLENGES: usize = 16;
/// Maximum number of scopes that are read from one challenge.
const MAX_SCOPES: usize = 64;

/// One challenge: a scheme and its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Challenge {
    scheme: String,
    params: Vec<(String, String)>,
}

impl Challenge {
    /// The value of a parameter; its name is case-insensitive.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        let mut params = self.params.iter();
        params.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The scopes that the challenge names (RFC 6750 section 3).
    pub(crate) fn scopes(&self) -> Vec<String> {
        let scopes = self.param("scope").unwrap_or_default().split(' ');
        scopes.filter(|scope| !scope.is_empty()).take(MAX_SCOPES).map(str::to_owned).collect()
    }
}

/// Returns the first `Bearer` challenge of a response (RFC 6750 section 3).
pub(crate) fn bearer_challenge(headers: &HeaderMap) -> Option<Challenge> {
    let values = headers.get_all(header::WWW_AUTHENTICATE).iter();
    let mut challenges = values.filter_map(|value| value.to_str().ok()).flat_map(parse).take(MAX_CHALLENGES);
    challenges.find(|challenge| challenge.scheme.eq_ignore_ascii_case("bearer"))
}

/// Parses the challenges of one field line. What follows a syntax error is ignored.
fn parse(text: &str) -> Vec<Challenge> {
    let mut challenges: Vec<Challenge> = Vec::new();
    let mut rest = text;
    while challenges.len() <= MAX_CHALLENGES {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (token, after) = take_token(rest);
        if token.is_empty() {
            break;
        }
        if let Some((value, after)) = take_value(after) {
            let Some(challenge) = challenges.last_mut() else { break };
            challenge.params.push((token.to_owned(), value));
            rest = after;
        } else {
            challenges.push(Challenge { scheme: token.to_owned(), params: Vec::new() });
            rest = skip_token68(after);
        }
    }
    challenges
}

fn take_token(text: &str) -> (&str, &str) {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    text.split_at(text.find(|c| !is_token(c)).unwrap_or(text.len()))
}

/// Reads `= value`, where the value is a token or a quoted string.
fn take_value(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start_matches([' ', '\t']).strip_prefix('=')?.trim_start_matches([' ', '\t']);
    let Some(quoted) = text.strip_prefix('"') else {
        let (token, after) = take_token(text);
        // `==` or an empty value ends a token68.
        return (!token.is_empty()).then(|| (token.to_owned(), after));
    };
    let (mut value, mut chars) = (String::new(), quoted.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, quoted.get(at + 1..)?)),
            '\\' => value.push(chars.next()?.1),
            _ => value.push(c),
        }
    }
    None
}

/// Skips credentials such as those of `Negotiate`, which are not parameters.
fn skip_token68(text: &str) -> &str {
    let Some(after_space) = text.strip_prefix(' ') else { return text };
    let begin = after_space.trim_start_matches(' ');
    let is_token68 = |c: char| c.is_ascii_alphanumeric() || "-._~+/".contains(c);
    let end = begin.find(|c| !is_token68(c)).unwrap_or(begin.len());
    let after = begin.get(end..).unwrap_or_default().trim_start_matches('=');
    // A token that is followed by a value is a parameter.
    match after.trim_start_matches([' ', '\t']) {
        rest if end > 0 && (rest.is_empty() || rest.starts_with(',')) => rest,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(lines: &[&str]) -> Option<Vec<(String, String)>> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::WWW_AUTHENTICATE, line.parse().expect("a value"));
        }
        bearer_challenge(&headers).map(|challenge| challenge.params)
    }

    fn params(list: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_bearer_challenge_is_found_among_others() {
        let expected = params(&[("resource_metadata", "https://a.example/x"), ("scope", "a b")]);
        for lines in [
            &[r#"Bearer resource_metadata="https://a.example/x", scope="a b""#][..],
            &[r#"BEARER resource_metadata = "https://a.example/x" ,, scope="a\ b""#],
            &["Basic realm=\"x, Bearer y\"", r#"bearer resource_metadata="https://a.example/x",scope="a b""#],
            &[
                r#"Negotiate YWJj==, Basic realm=x, Bearer resource_metadata="https://a.example/x", scope="a b""#,
            ],
            &[r#"Negotiate, Bearer resource_metadata="https://a.example/x", scope="a b", DPoP algs="ES256""#],
        ] {
            assert_eq!(bearer(lines), expected, "{lines:?}");
        }
        assert_eq!(bearer(&["Bearer"]), params(&[]));
        assert_eq!(bearer(&["Bearer error=invalid_token"]), params(&[("error", "invalid_token")]));
        for lines in
            [&[][..], &["Basic realm=\"Bearer\""], &["Bearers x"], &["x=\"Bearer\""], &["\"Bearer\""]]
        {
            assert_eq!(bearer(lines), None, "{lines:?}");
        }
    }

    #[test]
    fn what_follows_a_syntax_error_is_ignored() {
        assert_eq!(bearer(&["Bearer scope=\"a"]), params(&[]));
        assert_eq!(bearer(&["Bearer realm=a, scope=\"a"]), params(&[("realm", "a")]));
        let many = "Basic,".repeat(1000) + "Bearer";
        assert_eq!(bearer(&[&many]), None);
    }
}
