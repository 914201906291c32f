//! Defines permission profiles, which say what a server may access.
//!
//! A profile is `none`, `network`, or a JSON file in ToolHive's layout with some additional keys. `workload::resolve`
//! turns a [`Profile`] into the network, mounts and limits of a container, and `isolation` checks connections against
//! the profile's [`Outbound`] rules. Everything that a profile does not mention is denied.

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
