//! Defines permission profiles, which say what a server may access.
//!
//! A profile is `none`, `network`, or JSON in ToolHive's layout with some additional keys, from a file or a registry
//! entry. `workload::resolve` turns a [`Profile`] into the network, mounts and limits of a container, and `isolation`
//! checks connections against the profile's [`Outbound`] rules. A profile grants only the access that it mentions;
//! options can grant more.

mod error;
mod file;
mod host;
mod mount;
mod outbound;
mod ports;
mod profile;
mod resources;

pub use host::{Host, HostRule};
pub use mount::{MountRule, Tmpfs};
pub use outbound::{Outbound, OutboundDenial};
pub use ports::PortRange;
pub use profile::Profile;
pub use resources::{Bytes, DEFAULT_PIDS, Resources};

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
