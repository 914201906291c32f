//! What a server may touch: a permission profile.
//!
//! A profile is `none`, `network`, or a JSON file in ToolHive's layout with a few keys more. [`Profile`] is what
//! it says; `workload::resolve` makes a container's network, mounts and limits of it, and `isolation` holds
//! connections against its [`Outbound`]. What a profile does not mention is not allowed.

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
