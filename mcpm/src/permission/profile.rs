//! Defines [`Profile`], the permissions of a server.

use super::{MountRule, Outbound, Resources, Tmpfs};

/// The permissions of a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    /// A display name.
    pub name: Option<String>,
    /// Files and folders of this machine; writable ones last.
    pub mounts: Vec<MountRule>,
    /// The network mode, unless the option `network` is given.
    pub network_mode: Option<String>,
    /// Outbound connections.
    pub outbound: Outbound,
    /// Host names that clients may use for the proxy; if empty, they follow from the address that it listens on.
    pub inbound: Vec<String>,
    /// Whether the container is not confined at all.
    pub privileged: bool,
    /// Resource limits.
    pub resources: Resources,
    /// Whether the root file system is read-only.
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
}
