//! Stub for operating systems other than Linux, for architectures other than x86-64 and 64-bit ARM, and for builds
//! without the Cargo feature `builtin`.

use std::{collections::BTreeSet, sync::Arc};

use super::Runtime;
use crate::{Environment, Error, ErrorKind, Feature, Result, image::Digest};

/// The address of the built-in runtime in records.
pub(crate) const ENDPOINT: &str = "builtin:";
/// The name of the base image that consists of the system folders of this machine.
pub(crate) const HOST_IMAGE: &str = "localhost/mcpm/host:system";

/// Always `false`: nothing runs on this runtime.
pub(crate) fn shares_abstract_sockets() -> bool {
    false
}

/// Returns no checks: there are no containers.
pub(crate) fn features() -> [(&'static str, Result<&'static str>); 0] {
    []
}

/// Returns no ids: there are no containers.
pub(crate) fn images_in_use(_environment: &Environment) -> Result<BTreeSet<Digest>> {
    Ok(BTreeSet::new())
}

/// Opens no runtime: the built-in one needs Linux on x86-64 or 64-bit ARM, and the Cargo feature `builtin`.
///
/// # Errors
/// `EngineUnavailable` on other operating systems and architectures; `Unsupported` without the feature.
pub fn open(_environment: &Environment) -> Result<Arc<dyn Runtime>> {
    if cfg!(all(target_os = "linux", not(feature = "builtin"))) {
        return Err(Feature::Builtin.missing("running containers without an engine"));
    }
    let message = "the built-in runtime runs only on Linux, on x86-64 and 64-bit ARM";
    Err(Error::new(ErrorKind::EngineUnavailable, message).hint(if cfg!(target_os = "linux") {
        "install Docker Engine or Podman and start it"
    } else if cfg!(target_os = "macos") {
        "start Docker Desktop, OrbStack, Colima or Rancher Desktop, or Podman with `podman machine start`"
    } else {
        "let Docker or Podman listen on TCP, and set `DOCKER_HOST` or `CONTAINER_HOST` to its address (`tcp://..`)"
    }))
}
