//! Defines secret texts, and references to secrets in the secret store.

use std::{convert::Infallible, fmt, hint::black_box, str::FromStr, sync::Arc};

use zeroize::Zeroize as _;

use super::{OptionValue, ValueKind, value::invalid_value};
use crate::{Error, Result};

/// A secret text that `Debug`, JSON and messages do not show. Comparison takes constant time for texts of equal
/// length. Clones share the text, whose memory is zeroed when the last of them is dropped.
#[derive(Clone)]
pub struct Secret(Arc<ZeroedText>);

/// A text that is zeroed on drop.
struct ZeroedText(Box<str>);

impl Secret {
    /// Returns the text; keep it out of logs, messages and files.
    pub fn expose(&self) -> &str {
        &self.0.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        let (one, two) = (self.expose().as_bytes(), other.expose().as_bytes());
        // The length is not secret. `black_box` prevents the loop from ending at the first difference.
        one.len() == two.len() && one.iter().zip(two).fold(0, |all, (a, b)| black_box(all | (a ^ b))) == 0
    }
}

impl Eq for Secret {}

impl Drop for ZeroedText {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<T: Into<Box<str>>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self(Arc::new(ZeroedText(text.into())))
    }
}

impl FromStr for Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::from(text))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl OptionValue for Secret {
    const KIND: ValueKind = ValueKind::Secret;

    fn parse(text: &str) -> Result<Self, String> {
        let secret = Self::from(text);
        secret.check()?;
        Ok(secret)
    }

    fn text(&self) -> Option<String> {
        None
    }

    fn secret(&self) -> Option<Secret> {
        Some(self.clone())
    }

    fn check(&self) -> Result<(), String> {
        // An unset shell variable expands to this.
        if self.expose().is_empty() { Err("the secret is empty".to_owned()) } else { Ok(()) }
    }
}

/// A reference to a secret in the secret store, which the server gets as an environment variable, as a file or in
/// a header.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretRef {
    /// The name of the secret.
    pub name: String,
    /// The name of the environment variable; or `file:` and an absolute path in the container; or `header:` and
    /// the name of a header that is added to each request to a remote server.
    pub target: String,
}

/// The destination of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretTarget<'a> {
    /// The environment variable with that name.
    Variable(&'a str),
    /// The file at that absolute path in the container.
    File(&'a str),
    /// The header with that name, in each request to a remote server.
    Header(&'a str),
}

/// Prefix of a target that is a file.
const FILE_TARGET_PREFIX: &str = "file:";
/// Prefix of a target that is a header.
const HEADER_TARGET_PREFIX: &str = "header:";

impl SecretRef {
    /// Returns the destination of the secret.
    pub fn destination(&self) -> SecretTarget<'_> {
        if let Some(path) = self.target.strip_prefix(FILE_TARGET_PREFIX) {
            return SecretTarget::File(path);
        }
        match self.target.strip_prefix(HEADER_TARGET_PREFIX) {
            Some(header) => SecretTarget::Header(header),
            None => SecretTarget::Variable(&self.target),
        }
    }

    /// Creates a reference to a secret that is sent to a remote server in a header.
    pub(crate) fn in_header(name: impl Into<String>, header: &str) -> Self {
        Self { name: name.into(), target: format!("{HEADER_TARGET_PREFIX}{header}") }
    }
}

impl<N: Into<String>, T: Into<String>> From<(N, T)> for SecretRef {
    fn from((name, target): (N, T)) -> Self {
        Self { name: name.into(), target: target.into() }
    }
}

impl FromStr for SecretRef {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once(",target=") {
            None => Err(invalid_value("expected `NAME,target=TARGET`")),
            Some(("", _)) => Err(invalid_value("the name of the secret is empty")),
            Some((_, "")) => Err(invalid_value("the target after `target=` is empty")),
            Some((name, target)) => {
                check_target(target).map_err(invalid_value)?;
                if name.contains(',') {
                    return Err(invalid_value("the name of the secret cannot contain `,`"));
                }
                if target.contains([',', '=', '\0']) {
                    return Err(invalid_value("the target cannot contain `,`, `=` or a NUL byte"));
                }
                Ok(Self { name: name.to_owned(), target: target.to_owned() })
            }
        }
    }
}

/// Checks the part of a target after `file:` or `header:`.
fn check_target(target: &str) -> Result<(), &'static str> {
    if let Some(path) = target.strip_prefix(FILE_TARGET_PREFIX) {
        return check_file(path);
    }
    match target.strip_prefix(HEADER_TARGET_PREFIX) {
        Some(name) if !is_header(name) => Err("expected the name of a header after `header:`"),
        _ => Ok(()),
    }
}

/// Checks that a path in a container names a file unambiguously.
fn check_file(path: &str) -> Result<(), &'static str> {
    let Some(below) = path.strip_prefix('/') else {
        return Err("the path after `file:` must be absolute");
    };
    if path.contains(':') {
        return Err("the path after `file:` must not contain `:`");
    }
    if below.split('/').any(|part| matches!(part, "." | "..")) {
        return Err("the path after `file:` must not have a segment `.` or `..`");
    }
    if below.split('/').any(str::is_empty) {
        return Err("the path after `file:` must not contain `//` or end with `/`");
    }
    Ok(())
}

fn is_header(name: &str) -> bool {
    name.parse::<http::HeaderName>().is_ok()
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},target={}", self.name, self.target)
    }
}

text_form!(SecretRef => ValueKind::Compound("NAME,target=TARGET"));
