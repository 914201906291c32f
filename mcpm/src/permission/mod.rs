//! What a server may touch: a permission profile.
//!
//! A profile is `none`, `network`, or a JSON file in ToolHive's layout with a few keys more. [`Profile`] is what
//! it says; `workload::resolve` makes a container's network, mounts and limits of it, and `isolation` holds
//! connections against its [`Outbound`]. What a profile does not mention is not allowed.

use std::path::{Path, PathBuf};

use crate::{Error, ErrorKind, Result, options::PermissionProfile};

mod file;
mod host;
mod mount;
mod outbound;
mod ports;
mod resources;

pub use host::{Host, HostRule};
pub use mount::{MountRule, Tmpfs};
pub use outbound::{Outbound, OutboundDenial};
pub use ports::PortRange;
pub use resources::{Bytes, DEFAULT_PIDS, Resources};

/// Largest profile that is read.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// What a server may touch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    /// A name, for people.
    pub name: Option<String>,
    /// Files and folders of this machine, those that may be written last.
    pub mounts: Vec<MountRule>,
    /// Network mode, as `--network` has it; `None` leaves it to that option.
    pub network_mode: Option<String>,
    /// Connections that the server may open.
    pub outbound: Outbound,
    /// Host names that clients may call the proxy by; empty leaves that to the address it listens on.
    pub inbound: Vec<String>,
    /// Whether the container is not confined at all.
    pub privileged: bool,
    /// Bounds on what it uses.
    pub resources: Resources,
    /// Whether the image's own files cannot be changed.
    pub read_only_root: bool,
    /// Folders in memory that are empty at each start.
    pub tmpfs: Vec<Tmpfs>,
}

impl Profile {
    /// Returns the built-in profile `none`: no network and no files of this machine.
    pub fn none() -> Self {
        Self { name: Some("none".to_owned()), ..Self::default() }
    }

    /// Returns the built-in profile `network`: any network and no files of this machine.
    pub fn network() -> Self {
        let outbound = Outbound { insecure_allow_all: true, ..Outbound::default() };
        Self { name: Some("network".to_owned()), outbound, ..Self::default() }
    }

    /// Returns the profile that was asked for; a relative path begins at `working_dir`.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    pub fn load(asked: &PermissionProfile, working_dir: &Path) -> Result<Self> {
        match asked {
            PermissionProfile::Nothing => Ok(Self::none()),
            PermissionProfile::Network => Ok(Self::network()),
            PermissionProfile::File(path) => Self::read(&working_dir.join(path)),
        }
    }

    /// Reads a profile from a JSON file of at most 1 MiB.
    ///
    /// # Errors
    /// `NotFound` or `Io` when the file cannot be read, `InvalidOption` when it is no profile.
    pub fn read(path: &Path) -> Result<Self> {
        use std::io::Read as _;
        let cannot = |error: std::io::Error| {
            let kind = match error.kind() {
                std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                _ => ErrorKind::Io,
            };
            Error::new(kind, format!("cannot read the permission profile `{}`", path.display()))
                .source(error)
                .hint("name a JSON file, `none` or `network`")
        };
        let mut text = String::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text))
            .map_err(cannot)?;
        let refused = |error: Error| error.with("file", path.display());
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(refused(Error::new(
                ErrorKind::InvalidOption,
                "a permission profile has at most 1 MiB",
            )));
        }
        Self::from_json(&text).map_err(refused)
    }

    /// Reads a profile from JSON.
    ///
    /// # Errors
    /// `InvalidOption` for anything that is no profile, an unknown key included.
    pub fn from_json(text: &str) -> Result<Self> {
        file::parse(text)
    }

    /// Returns the profile as a JSON file.
    ///
    /// # Errors
    /// `Internal` when a path is not UTF-8.
    pub fn to_json(&self) -> Result<String> {
        file::print(self)
    }
}

/// Makes the error for an entry that is none.
fn invalid(reason: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOption, reason)
}

/// The path without `.` and `..`, as far as it can be said without looking.
fn cleaned(path: &str) -> PathBuf {
    use std::path::Component;
    let mut clean = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir if clean.parent().is_some() && clean.file_name().is_some() => {
                clean.pop();
            }
            // Above `/` there is `/`.
            Component::ParentDir if clean.has_root() => {}
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
