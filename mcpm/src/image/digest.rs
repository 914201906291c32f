//! SHA-256 digests, which identify manifests, configurations and layers by their content.

use std::{fmt, str::FromStr};

use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind};

/// A SHA-256 digest, written `sha256:…`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// Reads `sha256:` and 64 lower-case hex digits; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:")?;
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        (hex.len() == 64 && hex.bytes().all(is_hex)).then(|| Self(text.to_owned()))
    }

    /// Returns the digest of these bytes.
    pub fn sha256(bytes: &[u8]) -> Self {
        Self::from_hash(&digest(&SHA256, bytes))
    }

    /// Returns the 64 hex digits.
    pub fn hex(&self) -> &str {
        self.0.trim_start_matches("sha256:")
    }

    /// Names content by its SHA-256 hash.
    pub(super) fn from_hash(hash: &ring::digest::Digest) -> Self {
        let mut text = "sha256:".to_owned();
        for byte in hash.as_ref() {
            text.push_str(&format!("{byte:02x}"));
        }
        Self(text)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = || Error::new(ErrorKind::InvalidOption, format!("`{text}` is not a SHA-256 digest"));
        Self::parse(text).ok_or_else(invalid)
    }
}

impl TryFrom<String> for Digest {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_digests_parse() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::sha256(b"").to_string(), empty);
        assert_eq!(Digest::parse(empty), Some(Digest::sha256(b"")));
        for bad in ["", "sha256:", &empty[..70], &empty.to_uppercase(), "sha512:00", &format!("{empty}0")] {
            assert_eq!(Digest::parse(bad), None, "{bad}");
            assert!(serde_json::from_value::<Digest>(bad.into()).is_err(), "{bad}");
        }
    }
}
