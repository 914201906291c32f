//! Checks the syntax of package names and versions, by ecosystem.
//!
//! The rules are at least as strict as those of the package indexes: a name is passed to package managers as an
//! argument, so it must not begin with `-` or mean a file, a URL or another package. Whether the package exists is not
//! checked here.

use crate::printable::Printable as _;

/// The longest name: npm's limit, which is larger than that of the other ecosystems.
const MAX_NAME_LENGTH: usize = 214;
/// The longest version.
const MAX_VERSION_LENGTH: usize = 128;

/// Characters of an invalid reference or package that its message shows.
const MAX_SHOWN_CHARACTERS: usize = 300;

/// Returns an invalid text for a message: its beginning, with control characters escaped.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(MAX_SHOWN_CHARACTERS).collect::<String>().printable()
}

/// Tells whether a text can name a distribution of the Python index, or an extra of a distribution: letters and digits,
/// with `.`, `_` and `-` between them.
pub(super) fn is_python_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.len() <= MAX_NAME_LENGTH
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte))
}

/// Tells whether a text can be a single version of a Python distribution: it begins with a digit, and may only have an
/// epoch, a pre-release and a local part.
pub(super) fn is_python_version(version: &str) -> bool {
    let digits = version.strip_prefix('v').unwrap_or(version);
    version.len() <= MAX_VERSION_LENGTH
        && digits.as_bytes().first().is_some_and(u8::is_ascii_digit)
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".!+_-".contains(&byte))
}

/// Tells whether a text can name a package of npm, with or without its scope.
pub(super) fn is_node_name(name: &str) -> bool {
    let part = |part: &str| {
        let bytes = part.as_bytes();
        bytes.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'~')
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._~-".contains(byte))
    };
    let parts_are_valid = match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| part(scope) && part(name)),
        None => part(name),
    };
    name.len() <= MAX_NAME_LENGTH && parts_are_valid
}

/// Tells whether a text can be a version, a range of one word (`^1.2`, `~1.2`, `1.x`) or a tag (`latest`, `next`).
pub(super) fn is_node_version(version: &str) -> bool {
    let word = version.strip_prefix(['^', '~']).unwrap_or(version);
    version.len() <= MAX_VERSION_LENGTH
        && word.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+-".contains(&byte))
}

/// Returns which part of a Go package path is invalid.
pub(super) fn check_go_path(path: &str) -> Result<(), &'static str> {
    let element = |element: &str| {
        let bytes = element.as_bytes();
        bytes.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_~".contains(byte))
            && bytes.last() != Some(&b'.')
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._~+-".contains(byte))
    };
    if path.len() > MAX_NAME_LENGTH || !path.split('/').all(element) {
        return Err(
            "each part must consist of letters, digits and `-._~+`, begin with a letter, a digit, `_` or `~`, \
                    and not end with `.`",
        );
    }
    let host = path.split('/').next().unwrap_or_default();
    if !host.contains('.') || host.bytes().any(|byte| byte.is_ascii_uppercase() || byte == b'_') {
        return Err("it must begin with a host name, as in `example.com/server`");
    }
    Ok(())
}

/// Tells whether a text can be a version that Go resolves: `v1.2.3`, a prefix of a version, a branch or a commit.
pub(super) fn is_go_version(version: &str) -> bool {
    let bytes = version.as_bytes();
    bytes.len() <= MAX_VERSION_LENGTH
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._+-".contains(byte))
}
