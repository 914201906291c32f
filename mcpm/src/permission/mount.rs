//! Parses the mounts of permission profiles: files and folders of this machine, and tmpfs folders.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use super::{error::invalid, resources::Bytes};
use crate::{Error, Result, printable::Printable as _};

/// An entry of `read` or `write`: `PATH`, or `HOST-PATH:CONTAINER-PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountRule {
    /// Path on this machine; a relative one begins at the current folder.
    pub source: PathBuf,
    /// Absolute path in the container; `None` is the same as on this machine.
    pub target: Option<String>,
    /// Whether the container may only read it.
    pub read_only: bool,
}

impl MountRule {
    /// Parses an entry.
    pub(super) fn parse(text: &str, read_only: bool) -> Result<Self> {
        let bad =
            |reason: &str| invalid(format!("`{}` is not a valid path to mount: {reason}", text.printable()));
        // These characters have a meaning in shells; a path that contains them is more likely an attack than a real
        // path.
        if text.contains(['\0', '$', '&', ';', '|', '`', '\n', '\r']) {
            return Err(bad("it contains a control character or one of $ & ; | `"));
        }
        if text.contains("://") {
            return Err(bad("resource URIs are not supported"));
        }
        let (source, target) = match text.split_once(':') {
            None => (text, None),
            Some((_, target)) if target.contains(':') => return Err(bad("it has more than one colon")),
            Some((source, target)) => (source, Some(target)),
        };
        if source.is_empty() {
            return Err(bad("expected `PATH` or `HOST-PATH:CONTAINER-PATH`"));
        }
        let target = target.map(|target| {
            in_container(target).ok_or_else(|| bad("the path in the container must be absolute"))
        });
        Ok(Self { source: cleaned(source), target: target.transpose()?, read_only })
    }

    /// Returns its path on this machine and in the container.
    pub fn paths(&self, working_dir: &Path) -> (PathBuf, String) {
        let source = cleaned(&working_dir.join(&self.source).to_string_lossy());
        let target = self.target.clone().unwrap_or_else(|| source.to_string_lossy().into_owned());
        (source, target)
    }
}

impl fmt::Display for MountRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source.display())?;
        self.target.iter().try_for_each(|target| write!(f, ":{target}"))
    }
}

/// A folder in memory: `PATH`, or `PATH:SIZE` such as `/tmp:64m`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tmpfs {
    /// Absolute path in the container.
    pub target: String,
    /// Its size limit.
    pub size: Bytes,
}

/// Default size of a folder in memory.
const DEFAULT_SIZE: Bytes = Bytes(64 * 1024 * 1024);

impl FromStr for Tmpfs {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (target, size) = match text.split_once(':') {
            Some((target, size)) => (target, size.parse()?),
            None => (text, DEFAULT_SIZE),
        };
        let target = in_container(target).filter(|target| target != "/").ok_or_else(|| {
            invalid(format!(
                "`{}` is not a valid tmpfs mount: expected `/PATH` or `/PATH:64m`",
                text.printable()
            ))
        })?;
        Ok(Self { target, size })
    }
}

impl fmt::Display for Tmpfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.target, self.size)
    }
}

/// Returns the normalized path in a container, if it is valid.
fn in_container(path: &str) -> Option<String> {
    let sound = path.starts_with('/') && !path.contains([':', ',']) && !path.contains(char::is_control);
    sound.then(|| cleaned(path).to_string_lossy().into_owned())
}

/// Removes `.` and `..` from a path, without following links.
fn cleaned(path: &str) -> PathBuf {
    use std::path::Component;
    let mut clean = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir if clean.parent().is_some() && clean.file_name().is_some() => {
                clean.pop();
            }
            // The parent of `/` is `/`.
            Component::ParentDir if clean.has_root() => {}
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}
