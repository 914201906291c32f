//! Creates the request for a new container.
//!
//! Every container has a limit on the number of its processes, and is not restarted by the engine (mcpm restarts
//! servers itself). Unless the container is privileged, it has no capabilities and cannot gain privileges. Unless the
//! shim is its first process, it has an init process, if the engine has one. The size of its log, if it has one, is
//! limited where the engine's log driver supports that.

use std::{collections::HashMap, path::Path};

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount as ApiMount, MountType, PortBinding, PortMap,
    RestartPolicy, RestartPolicyNameEnum,
};

use super::capabilities::EngineCapabilities;
use crate::{
    Error, ErrorKind, Result,
    runtime::{Confinement, ContainerSpec, Mount, Relabel, labels, missing_source},
};

/// Size and number of the log files of a container.
const LOG_ROTATION: [(&str, &str); 2] = [("max-size", "10m"), ("max-file", "3")];

/// When memory runs out, servers are killed before the programs of the machine.
const OOM_SCORE: i64 = 500;
/// Lets any user of the container listen on any port in it.
const UNPRIVILEGED_PORTS_SYSCTL: [&str; 2] = ["net.ipv4.ip_unprivileged_port_start", "0"];

/// Creates the request for a new container.
///
/// # Errors
/// `InvalidOption` if a mount cannot be expressed, or its source is known to be missing.
pub(super) fn create_body(spec: &ContainerSpec, traits: &EngineCapabilities) -> Result<ContainerCreateBody> {
    let mut labels: HashMap<_, _> = spec.labels.clone().into_iter().collect();
    // Without this label, mcpm would never remove the container again.
    labels.insert(labels::MANAGED.to_owned(), "true".to_owned());
    let ports = port_bindings(spec);
    let confinement = &spec.confinement;
    let privileged = confinement.privileged;
    let bytes = |number: Option<u64>| number.map(|number| i64::try_from(number).unwrap_or(i64::MAX));
    Ok(ContainerCreateBody {
        image: Some(spec.image.clone()),
        // An entry point also replaces the image's arguments.
        entrypoint: spec.entry.as_ref().map(|entry| entry.command.clone()),
        cmd: (!spec.args.is_empty()).then(|| spec.args.clone()),
        env: Some(spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect()),
        labels: Some(labels),
        tty: Some(false),
        open_stdin: Some(spec.stdin),
        attach_stdin: Some(spec.stdin),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        // A server is stopped by its container, not by the end of its input: only one of the engines passes that on.
        stdin_once: Some(false),
        exposed_ports: Some(ports.keys().cloned().collect()),
        host_config: Some(HostConfig {
            privileged: privileged.then_some(true),
            cap_drop: (!privileged).then(|| vec!["ALL".to_owned()]),
            security_opt: (!privileged).then(|| security(spec, traits)),
            init: Some(traits.init && spec.entry.is_none()),
            pids_limit: Some(spec.pids_limit),
            oom_score_adj: Some(OOM_SCORE),
            memory: bytes(confinement.memory),
            // The limit for memory and swap together is the same, so no swap is added.
            memory_swap: bytes(confinement.memory),
            nano_cpus: bytes(confinement.nano_cpus),
            readonly_rootfs: confinement.read_only_root.then_some(true),
            tmpfs: (!confinement.tmpfs.is_empty()).then(|| tmpfs(confinement, traits)),
            dns: spec.entry.as_ref().map(|entry| vec![entry.name_server.to_string()]),
            // Unlike Docker, Podman reserves low ports for root by default.
            sysctls: spec
                .entry
                .as_ref()
                .map(|_| HashMap::from([UNPRIVILEGED_PORTS_SYSCTL.map(str::to_owned).into()])),
            restart_policy: Some(RestartPolicy {
                name: Some(RestartPolicyNameEnum::NO),
                maximum_retry_count: None,
            }),
            log_config: match spec.unlogged {
                true => Some(HostConfigLogConfig { typ: Some("none".to_owned()), config: None }),
                false => traits.bounded_log_driver.as_deref().map(log_config),
            },
            network_mode: Some(spec.network.to_string()),
            port_bindings: Some(ports),
            mounts: Some(mounts(spec)?),
            binds: Some(relabelled_mounts(&spec.mounts)?),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    })
}

fn security(spec: &ContainerSpec, traits: &EngineCapabilities) -> Vec<String> {
    let mut options = vec!["no-new-privileges".to_owned()];
    if spec.entry.as_ref().is_some_and(|entry| entry.volume.is_none()) && traits.selinux {
        // Otherwise the container may not connect to the mounted socket.
        options.push("label=disable".to_owned());
    }
    options
}

fn tmpfs(confinement: &Confinement, traits: &EngineCapabilities) -> HashMap<String, String> {
    let empty = if traits.copies_image_into_tmpfs { ",notmpcopyup" } else { "" };
    let options = |size: &u64| format!("rw,noexec,nosuid,nodev,mode=1777,size={size}{empty}");
    confinement.tmpfs.iter().map(|(target, size)| (target.clone(), options(size))).collect()
}

fn log_config(driver: &str) -> HostConfigLogConfig {
    let config = LOG_ROTATION.map(|(name, value)| (name.to_owned(), value.to_owned()));
    HostConfigLogConfig { typ: Some(driver.to_owned()), config: Some(config.into()) }
}

fn port_bindings(spec: &ContainerSpec) -> PortMap {
    let mut bindings = PortMap::new();
    for port in &spec.ports {
        let key = format!("{}/{}", port.container_port, port.protocol);
        let host_port = (port.host_port != 0).then(|| port.host_port.to_string());
        let binding = PortBinding {
            host_ip: Some(port.host_ip.to_string()),
            host_port: Some(host_port.unwrap_or_default()),
        };
        bindings.entry(key).or_default().get_or_insert_default().push(binding);
    }
    bindings
}

/// Returns the mounts without SELinux relabelling.
fn mounts(spec: &ContainerSpec) -> Result<Vec<ApiMount>> {
    let mut all = plain_mounts(spec.mounts.iter().chain(&spec.overlays))?;
    let volume = spec.entry.as_ref().and_then(|entry| entry.volume.as_ref());
    // A volume without a name is removed with the container.
    all.extend(volume.map(|folder| ApiMount {
        typ: Some(MountType::VOLUME),
        target: Some(folder.clone()),
        ..ApiMount::default()
    }));
    Ok(all)
}

/// Returns the mounts in the newer form, which does not create missing sources.
fn plain_mounts<'a>(mounts: impl Iterator<Item = &'a Mount>) -> Result<Vec<ApiMount>> {
    let plain = mounts.filter(|mount| mount.relabel.is_none());
    plain
        .map(|mount| {
            Ok(ApiMount {
                typ: Some(MountType::BIND),
                source: Some(existing_source(&mount.source)?.to_owned()),
                target: Some(mount.target.clone()),
                read_only: Some(mount.read_only),
                ..ApiMount::default()
            })
        })
        .collect()
}

/// Returns the mounts in the older form, the only one that supports relabelling. With this form, engines create an
/// empty folder for a missing source, and colons separate its parts.
fn relabelled_mounts(mounts: &[Mount]) -> Result<Vec<String>> {
    let relabelled = mounts.iter().filter_map(|mount| Some((mount, mount.relabel?)));
    relabelled
        .map(|(mount, relabel)| {
            let source = existing_source(&mount.source)?;
            if source.contains(':') || mount.target.contains(':') {
                return Err(Error::new(
                    ErrorKind::InvalidOption,
                    format!(
                        "cannot mount `{source}` at `{}`: a relabelled path must not contain `:`",
                        mount.target
                    ),
                ));
            }
            let access = if mount.read_only { "ro" } else { "rw" };
            let label = match relabel {
                Relabel::Shared => "z",
                Relabel::Private => "Z",
            };
            Ok(format!("{source}:{}:{access},{label}", mount.target))
        })
        .collect()
}

/// Returns the source of a mount if it exists. It is checked here because Podman detects a missing source only when the
/// container starts.
fn existing_source(path: &Path) -> Result<&str> {
    let source = text(path)?;
    // The engine may have access to paths that this user cannot see.
    match path.try_exists() {
        Ok(false) => Err(missing_source(source)),
        Ok(true) | Err(_) => Ok(source),
    }
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidOption,
            format!("cannot mount `{}`: the path is not UTF-8", path.display()),
        )
    })
}

#[cfg(test)]
#[path = "create_body_tests.rs"]
mod tests;
