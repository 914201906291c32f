//! Parses and checks the paths of archive entries.

use std::io;

use super::limits::{MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_PATH_DEPTH, invalid};
use crate::printable::Printable as _;

/// The components of an entry's path, without `.` and `..`; empty for the root. An absolute path is one beneath the
/// root, as in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntryPath(Vec<Vec<u8>>);

impl EntryPath {
    /// Reads a path.
    ///
    /// # Errors
    /// `InvalidData` for a path that contains `..` or NUL, is too long, or is too deep.
    pub(super) fn parse(bytes: &[u8]) -> io::Result<Self> {
        if bytes.contains(&0) {
            return Err(invalid("a path contains NUL"));
        }
        if bytes.len() > MAX_PATH_BYTES {
            return Err(invalid(format!("a path is longer than {MAX_PATH_BYTES} bytes")));
        }
        let parts = bytes.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
        let parts: Vec<Vec<u8>> = parts.map(<[u8]>::to_vec).collect();
        if parts.iter().any(|part| part == b"..") {
            return Err(invalid("a path contains `..`"));
        }
        if parts.iter().any(|part| part.len() > MAX_NAME_BYTES) {
            return Err(invalid(format!("a name is longer than {MAX_NAME_BYTES} bytes")));
        }
        if parts.len() > MAX_PATH_DEPTH {
            return Err(invalid(format!("a path is deeper than {MAX_PATH_DEPTH} folders")));
        }
        Ok(Self(parts))
    }

    /// Returns the folder and the name; `None` for the root.
    pub(super) fn split(&self) -> Option<(&[Vec<u8>], &[u8])> {
        self.0.split_last().map(|(name, folder)| (folder, name.as_slice()))
    }
}

/// Shows the bytes of a path in a message, on one line.
pub(super) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).chars().take(300).collect::<String>().printable()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_beneath_the_root() {
        let components = |text: &str| {
            let path = EntryPath::parse(text.as_bytes()).unwrap();
            path.0.iter().map(|part| String::from_utf8(part.clone()).unwrap()).collect::<Vec<_>>().join("/")
        };
        for (text, meant) in
            [("a/b", "a/b"), ("./a//b/", "a/b"), ("/etc/passwd", "etc/passwd"), ("./", ""), ("a/./b", "a/b")]
        {
            assert_eq!(components(text), meant, "{text}");
        }
        assert_eq!(components("...").as_str(), "...");
    }

    #[test]
    fn unusable_paths_are_rejected() {
        let (long, deep, path) = ("a".repeat(256), "a/".repeat(257), "ab/".repeat(1366));
        for bad in ["..", "a/../b", "/..", "a/..", "a\0b", &long, &format!("a/{long}/b"), &deep, &path] {
            let error = EntryPath::parse(bad.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bad}");
        }
    }
}
