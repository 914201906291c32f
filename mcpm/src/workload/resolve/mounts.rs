//! Resolves the mounts of a container.

use std::path::Path;

use crate::{
    Error, ErrorKind, Result,
    config_file::read_error_kind,
    options::{Relabel, VolumeSpec},
    printable::Printable as _,
    runtime::Mount,
};

pub(super) fn mounts(volumes: &[VolumeSpec], working_dir: &Path) -> Result<Vec<Mount>> {
    let mut all: Vec<Mount> = Vec::new();
    for volume in volumes {
        let source = working_dir.join(&volume.host_path);
        if let Err(error) = std::fs::metadata(&source) {
            let message = format!("cannot mount `{}`", source.display());
            return Err(Error::new(read_error_kind(&error), message).source(error));
        }
        if all.iter().any(|mount| mount.target == volume.container_path) {
            let message = format!("two volumes are mounted at `{}`", volume.container_path);
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        all.push(Mount {
            source,
            target: volume.container_path.clone(),
            read_only: volume.read_only,
            relabel: volume.relabel,
        });
    }
    Ok(all)
}

/// Describes what a mount gives access to, for the user to confirm.
pub(super) fn mount_opening(mount: &Mount) -> String {
    let Mount { source, target, read_only, relabel } = mount;
    let how = if *read_only { "to read" } else { "to write" };
    let relabelled = match relabel {
        None => "",
        Some(Relabel::Shared) => ", relabelled for all containers",
        Some(Relabel::Private) => ", relabelled for this container alone",
    };
    let (source, target) = (source.to_string_lossy(), target.printable());
    format!("`{}` of this machine as `{target}`, {how}{relabelled}", source.printable())
}

/// Returns a warning if the mounts are on another machine, where ignore files are not applied.
pub(super) fn remote_mount_warning(engine: &str, mounts: &[Mount]) -> Option<String> {
    let source = mounts.first().filter(|_| has_remote_address(engine))?.source.display();
    Some(format!(
        "`{source}` is mounted from the machine of the engine, `{engine}`, where mcpm cannot read ignore \
         files, so ignored files are not hidden"
    ))
}

/// Tells whether the address of an engine names another machine.
pub(super) fn has_remote_address(engine: &str) -> bool {
    let url = url::Url::parse(engine).ok();
    url.as_ref().and_then(url::Url::host_str).is_some_and(|host| {
        let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host != "localhost" && !address.is_ok_and(|address| address.is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_on_a_remote_engine_are_warned_about() {
        let mount =
            Mount { source: "/work".into(), target: "/work".to_owned(), read_only: false, relabel: None };
        for (engine, elsewhere) in [
            ("unix:///var/run/docker.sock", false),
            ("tcp://127.0.0.1:2375", false),
            ("tcp://[::1]:2375", false),
            ("tcp://localhost:2375", false),
            ("tcp://10.0.0.9:2375", true),
            ("tcp://build.example.com:2376", true),
        ] {
            let mounts = std::slice::from_ref(&mount);
            assert_eq!(remote_mount_warning(engine, mounts).is_some(), elsewhere, "{engine}");
            assert_eq!(remote_mount_warning(engine, &[]), None);
        }
    }
}
