//! Records the origins of a container's ports, mounts and labels.
//!
//! A spec stores the origin of each value under the value's name.

use std::collections::BTreeMap;

use super::{request::WorkloadRequest, target};
use crate::{
    options::WorkloadOptions,
    runtime::{ContainerSpec, Mount, PublishedPort, labels},
    workload::ValueOrigin,
};

/// Returns the key of a published port.
pub(in crate::workload) fn port_key(port: &PublishedPort) -> String {
    format!("publish.{}/{}", port.container_port, port.protocol)
}

/// Returns the key of a mount.
pub(in crate::workload) fn mount_key(mount: &Mount) -> String {
    format!("volume.{}", mount.target)
}

/// Returns the key of a label.
pub(in crate::workload) fn label_key(key: &str) -> String {
    format!("label.{key}")
}

/// Records the origins of a container's ports, mounts and labels. `own` are mounts of mcpm itself.
pub(in crate::workload) fn record_container_origins(
    request: &WorkloadRequest,
    options: &WorkloadOptions,
    container: &ContainerSpec,
    own: &[Mount],
    origins: &mut BTreeMap<String, ValueOrigin>,
) {
    let published = target::published_ports(options);
    for port in &container.ports {
        let given = published.contains(port);
        let origin = if given { request.origin("publish") } else { ValueOrigin::Derived };
        origins.insert(port_key(port), origin);
    }
    for mount in &container.mounts {
        let origin = if own.contains(mount) {
            ValueOrigin::Derived
        } else if options.volume.iter().any(|volume| volume.container_path == mount.target) {
            request.origin("volume")
        } else {
            ValueOrigin::Profile
        };
        origins.insert(mount_key(mount), origin);
    }
    for key in container.labels.keys() {
        let origin = if labels::is_reserved(key) { ValueOrigin::Derived } else { request.origin("label") };
        origins.insert(label_key(key), origin);
    }
}
