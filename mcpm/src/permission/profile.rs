//! Permission profiles.

use super::{MountRule, Outbound, Resources, Tmpfs};

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
}
