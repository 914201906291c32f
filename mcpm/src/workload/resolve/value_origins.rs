//! Where what a container has of the machine came from: its ports, its mounts, its labels.
//!
//! A spec keeps the origin of every value under a name; these are the names, and what is kept under them.

use std::collections::BTreeMap;

use super::{request::WorkloadRequest, target};
use crate::{
    options::WorkloadOptions,
    runtime::{ContainerSpec, Mount, PublishedPort, labels},
    workload::ValueOrigin,
};

/// The name of a published port's origin.
pub(in crate::workload) fn port_key(port: &PublishedPort) -> String {
    format!("publish.{}/{}", port.container_port, port.protocol)
}

/// The name of a mount's origin.
pub(in crate::workload) fn mount_key(mount: &Mount) -> String {
    format!("volume.{}", mount.target)
}

/// The name of a label's origin.
pub(in crate::workload) fn label_key(key: &str) -> String {
    format!("label.{key}")
}

/// Keeps the origins of a container's ports, mounts and labels. `own` are the mounts that mcpm needs itself.
pub(in crate::workload) fn record_container_origins(
    asked: &WorkloadRequest,
    options: &WorkloadOptions,
    container: &ContainerSpec,
    own: &[Mount],
    origins: &mut BTreeMap<String, ValueOrigin>,
) {
    let published = target::published_ports(options);
    for port in &container.ports {
        let given = published.contains(port);
        let origin = if given { asked.origin("publish") } else { ValueOrigin::Derived };
        origins.insert(port_key(port), origin);
    }
    for mount in &container.mounts {
        let origin = if own.contains(mount) {
            ValueOrigin::Derived
        } else if options.volume.iter().any(|volume| volume.container_path == mount.target) {
            asked.origin("volume")
        } else {
            ValueOrigin::Profile
        };
        origins.insert(mount_key(mount), origin);
    }
    for key in container.labels.keys() {
        let origin = if labels::is_reserved(key) { ValueOrigin::Derived } else { asked.origin("label") };
        origins.insert(label_key(key), origin);
    }
}
