//! Where what a container has of the machine came from: its ports, its mounts, its labels.
//!
//! A spec keeps the origin of every value under a name; these are the names, and what is kept under them.

use std::collections::BTreeMap;

use super::{Origin, asked::Asked, target};
use crate::{
    options::WorkloadOptions,
    runtime::{ContainerSpec, Mount, PublishedPort, labels},
};

/// The name of a published port's origin.
pub(super) fn of_port(port: &PublishedPort) -> String {
    format!("publish.{}/{}", port.container_port, port.protocol)
}

/// The name of a mount's origin.
pub(super) fn of_mount(mount: &Mount) -> String {
    format!("volume.{}", mount.target)
}

/// The name of a label's origin.
pub(super) fn of_label(key: &str) -> String {
    format!("label.{key}")
}

/// Keeps the origins of a container's ports, mounts and labels. `own` are the mounts that mcpm needs itself.
pub(super) fn tell(
    asked: &Asked,
    options: &WorkloadOptions,
    container: &ContainerSpec,
    own: &[Mount],
    origins: &mut BTreeMap<String, Origin>,
) {
    let published = target::published(options);
    for port in &container.ports {
        let given = published.contains(port);
        let origin = if given { asked.origin("publish") } else { Origin::Derived };
        origins.insert(of_port(port), origin);
    }
    for mount in &container.mounts {
        let origin = if own.contains(mount) {
            Origin::Derived
        } else if options.volume.iter().any(|volume| volume.container_path == mount.target) {
            asked.origin("volume")
        } else {
            Origin::Profile
        };
        origins.insert(of_mount(mount), origin);
    }
    for key in container.labels.keys() {
        let origin = if labels::is_reserved(key) { Origin::Derived } else { asked.origin("label") };
        origins.insert(of_label(key), origin);
    }
}
