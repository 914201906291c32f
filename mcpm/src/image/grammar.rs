//! Splits image references, and validates their parts.

use std::net::Ipv6Addr;

use crate::printable::Printable as _;

/// Splits off the domain: the first part of a name is a domain if it cannot be a namespace, or is `localhost`.
pub(super) fn split_domain(name: &str) -> (Option<&str>, &str) {
    match name.split_once('/') {
        Some((first, path))
            if first.contains(['.', ':'])
                || first == "localhost"
                || first.bytes().any(|byte| byte.is_ascii_uppercase()) =>
        {
            (Some(first), path)
        }
        _ => (None, name),
    }
}

/// Tells whether a text is a host name or an address, with an optional port.
pub(super) fn is_domain(domain: &str) -> bool {
    let (host, port) = match domain.rsplit_once(':') {
        // The last colon of `[::1]` is not followed by a port.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (domain, None),
    };
    let host_is_valid = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => host.split('.').all(|part| {
            !part.is_empty()
                && !part.starts_with('-')
                && !part.ends_with('-')
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        }),
    };
    host_is_valid && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

/// Returns which part of a path is invalid.
pub(super) fn check_path(path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Err("the repository name is missing".to_owned());
    }
    if path.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err("the repository name must be lower case".to_owned());
    }
    match path.split('/').find(|part| !is_path_component(part)) {
        Some("") => Err("the repository name has an empty part".to_owned()),
        Some(part) => Err(format!(
            "`{}` in the repository name may have only ASCII letters and digits, joined by one `.`, one or two `_`, or \
             any number of `-`",
            one_line(part)
        )),
        None => Ok(()),
    }
}

/// Letters and digits, with separators only between them.
fn is_path_component(part: &str) -> bool {
    let bytes = part.as_bytes();
    let is_word = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.first().is_some_and(is_word)
        && bytes.last().is_some_and(is_word)
        && bytes.split(is_word).all(|separator| {
            matches!(separator, b"" | b"." | b"_" | b"__") || separator.iter().all(|b| *b == b'-')
        })
}

/// Tells whether a text is a valid tag.
pub(super) fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

/// Tells whether a text is a valid digest.
pub(super) fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let long_enough = match algorithm {
        "sha256" => hex.len() == 64,
        "sha512" => hex.len() == 128,
        _ => hex.len() >= 32,
    };
    let algorithm_is_valid = algorithm.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && algorithm.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+._-".contains(&byte));
    algorithm_is_valid
        && long_enough
        && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Makes a text one line for an error, whatever the user typed.
pub(super) fn one_line(text: &str) -> String {
    text.chars().take(300).collect::<String>().printable()
}
