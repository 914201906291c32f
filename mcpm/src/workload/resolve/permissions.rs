//! Resolves the permissions of a workload from its permission profile and its options.
//!
//! A profile that allows no connection leaves the container without a network. A profile that allows only some
//! connections is enforced if isolation was requested, if the user gave the profile as a file and did not turn off
//! isolation, or if the built-in runtime runs the container without the network `host`; otherwise there is a warning.

use std::{collections::BTreeMap, path::Path};

use super::{
    mounts::{self, mount_opening},
    request::WorkloadRequest,
};
use crate::{
    Error, ErrorKind, Result, config_file,
    isolation::{self, IsolationSpec, MOUNT_POINT, SHIM_FILE_NAME},
    options::{PermissionProfile, VolumeSpec, WorkloadOptions},
    permission::{Bytes, DEFAULT_PIDS, MountRule, Outbound, Profile, Resources, Tmpfs},
    printable::Printable as _,
    runtime::{
        Confinement, ContainerSpec, EngineInfo, EntrypointOverride, Mount, Network, network_of_engines,
    },
    workload::ValueOrigin,
};

/// The argument of a shim whose connections are relayed by a second shim.
const RELAYED_COMMAND: &str = "carried";

/// The permissions, which depend neither on the engine nor on the image.
#[derive(Debug, Clone)]
pub(in crate::workload) struct EffectivePermissions {
    pub(in crate::workload) profile: Profile,
    pub(in crate::workload) network: Network,
    pub(in crate::workload) network_origin: ValueOrigin,
    pub(in crate::workload) profile_origin: ValueOrigin,
    /// What an isolated container may connect to; `None` without isolation.
    pub(in crate::workload) outbound: Option<Outbound>,
    pub(in crate::workload) isolation_origin: ValueOrigin,
    pub(in crate::workload) warnings: Vec<String>,
    /// Warnings about a container that is not isolated.
    warnings_without_isolation: Vec<String>,
}

/// Returns the error for permissions of a registry entry that cannot be used.
fn unusable(reason: String) -> Error {
    Error::new(ErrorKind::Registry, "the permissions of the registry entry cannot be used")
        .source(reason)
        .hint("set `permission_profile` to a profile of your own")
}

/// Parses the profile of a registry entry; returns it with the access to this machine that the user has to confirm.
fn parse_registry_permissions(text: &str, working_dir: &Path) -> Result<(Profile, Vec<String>)> {
    let profile = Profile::from_json(text).map_err(|error| unusable(error.to_string()))?;
    if profile.privileged {
        return Err(unusable("they contain `privileged`".to_owned()));
    }
    let opens_machine = |mode: &&str| !matches!(parse_network(mode), Network::Bridge | Network::None);
    let network = profile.network_mode.as_deref().filter(opens_machine);
    let mounts = profile.mounts.iter().map(|mount| {
        let (source, target) = mount.paths(working_dir);
        mount_opening(&Mount { source, target, read_only: mount.read_only, relabel: None })
    });
    let openings = mounts.chain(network.map(|mode| format!("the network `{}`", mode.printable())));
    let openings = openings.collect();
    Ok((profile, openings))
}

/// Returns the access to this machine that the permissions of a registry entry request.
///
/// # Errors
/// `Registry` for permissions that cannot be used.
pub(in crate::workload) fn requested_host_access(
    permissions: &serde_json::Value,
    working_dir: &Path,
) -> Result<Vec<String>> {
    parse_registry_permissions(&permissions.to_string(), working_dir).map(|(_, openings)| openings)
}

impl EffectivePermissions {
    /// Resolves the profile and the options that restrict or extend it.
    pub(in crate::workload) fn resolve(request: &WorkloadRequest, working_dir: &Path) -> Result<Self> {
        let options = &request.options;
        let (profile, profile_origin) = match request.files.profile()? {
            Some(profile) => (profile.clone(), request.origin("permission_profile")),
            None => {
                match request
                    .registry_values
                    .as_ref()
                    .and_then(|registry_values| registry_values.permissions_and_consent())
                {
                    Some((permissions, confirmed)) => {
                        match parse_registry_permissions(&permissions.to_string(), working_dir)? {
                            (_, openings) if !confirmed && !openings.is_empty() => {
                                let requested = format!("they allow access to {}", openings.join(", "));
                                return Err(unusable(requested).hint(
                                    "to allow the access, run in a terminal and confirm it, or set `permission_profile` to a \
                                     profile of your own",
                                ));
                            }
                            (profile, _) => (profile, ValueOrigin::Registry),
                        }
                    }
                    None => (Profile::network(), ValueOrigin::Default),
                }
            }
        };
        let from_file = matches!(options.permission_profile, Some(PermissionProfile::File(_)));
        let (mode, network_origin) = match (&options.network, &profile.network_mode) {
            (Some(mode), _) => (mode.as_str(), request.origin("network")),
            (None, Some(mode)) => (mode.as_str(), ValueOrigin::Profile),
            (None, None) => ("bridge", ValueOrigin::Default),
        };
        let mut network = parse_network(mode);
        let outbound = match network {
            Network::None => Outbound::default(),
            _ => profile.outbound.clone(),
        };
        let can_be_held = matches!(network, Network::Bridge | Network::None);
        let refused = |message: String| Err(Error::new(ErrorKind::InvalidOption, message));
        let requested = options.learn.is_some().then_some(true).or(options.isolate_network);
        if requested == Some(true) && !can_be_held {
            let hint = match options.learn {
                Some(_) => "leave out `learn`, which isolates the container",
                None => "use the network `bridge`, or leave out `isolate_network`",
            };
            return refused(format!("a container in the network `{mode}` cannot be isolated"))
                .map_err(|error| error.hint(hint));
        }
        if outbound.is_nothing() && !can_be_held {
            return refused(format!(
                "the network `{mode}` conflicts with a permission profile that allows no connection"
            ))
            .map_err(|error| error.hint("use the network `bridge`, or allow connections in the profile"));
        }
        if profile.privileged && (requested == Some(true) || outbound.is_nothing() || outbound.is_limited()) {
            let is_limited = outbound.is_nothing() || outbound.is_limited();
            let hint = match requested {
                Some(true) if is_limited => "leave out `privileged` in the profile",
                Some(true) => "leave out `privileged` in the profile, or leave out `isolate_network`",
                _ => {
                    "leave out `privileged` in the profile, or set `network.outbound.insecure_allow_all` to `true` \
                     there"
                }
            };
            return refused("the network of a privileged container cannot be restricted".to_owned())
                .map_err(|error| error.hint(hint));
        }
        let limited = outbound.is_limited();
        // If `isolate_network` is not set, a profile file of the user is still enforced; any other profile is not.
        let implied = limited && from_file && requested.is_none();
        if implied && !can_be_held {
            let instead = match network_origin {
                ValueOrigin::Profile => "leave out `network.mode` in the profile",
                _ => "leave out `network`",
            };
            return refused(format!(
                "the permission profile cannot be enforced for a container in the network `{mode}`"
            ))
            .map_err(|error| {
                error.hint(format!(
                    "{instead}, or disable the enforcement with `isolate_network` set to `false`"
                ))
            });
        }
        let held = requested == Some(true) || implied || outbound.is_nothing();
        let (mut warnings, mut warnings_without_isolation) = (Vec::new(), Vec::new());
        if limited && !held {
            warnings_without_isolation.push(
                "the permission profile restricts connections, but is not enforced without `isolate_network`"
                    .to_owned(),
            );
        }
        if profile.privileged {
            warnings.push("the permission profile has `privileged`: the server is not confined".to_owned());
        }
        if options.allow_runtime_gateway == Some(true) && !held {
            warnings_without_isolation.push(
                "`allow_runtime_gateway` has no effect without isolation; set `isolate_network` to isolate the container"
                    .to_owned(),
            );
        }
        if network == Network::Host && !options.publish.is_empty() {
            let ports: Vec<String> = options.publish.iter().map(|port| format!("`{port}`")).collect();
            warnings.push(format!(
                "{} not published: in the network `host`, the server listens on this machine itself",
                ports.join(", ") + if ports.len() == 1 { " is" } else { " are" }
            ));
        }
        if held {
            network = Network::None;
            reject_host_ports(options, "an isolated container")?;
        }
        let isolation_origin = match options.isolate_network {
            Some(true) => request.origin("isolate_network"),
            _ => ValueOrigin::Derived,
        };
        Ok(Self {
            profile,
            network,
            network_origin,
            profile_origin,
            outbound: held.then_some(outbound),
            isolation_origin,
            warnings,
            warnings_without_isolation,
        })
    }

    /// Adapts the permissions to a runtime whose containers can only connect through mcpm: each container is isolated,
    /// and may open the same connections as without isolation.
    ///
    /// # Errors
    /// `Unsupported` for networks and rights that such a runtime does not have.
    pub(in crate::workload) fn for_engine(
        mut self,
        options: &WorkloadOptions,
        engine: &EngineInfo,
    ) -> Result<Self> {
        if !engine.connects_through_mcpm || self.network == Network::Host {
            self.warnings.append(&mut self.warnings_without_isolation);
        }
        if !engine.connects_through_mcpm {
            return Ok(self);
        }
        let refused = |message: String| {
            Err(Error::new(ErrorKind::Unsupported, message).hint("select a container engine with `runtime`"))
        };
        if self.profile.privileged {
            return refused("the built-in runtime does not support privileged containers".to_owned());
        }
        match &self.network {
            Network::Custom(mode) => {
                return Err(network_of_engines(mode));
            }
            Network::Bridge => {
                reject_host_ports(options, "a container of the built-in runtime")?;
                self.network = Network::None;
                self.outbound = Some(self.profile.outbound.clone());
            }
            Network::Host | Network::None => {}
        }
        Ok(self)
    }

    /// Returns the isolation and the entry point that enforce the permissions. `None` when there is no shim for the
    /// engine and a container without a network is sufficient.
    pub(in crate::workload) fn isolate(
        &self,
        request: &WorkloadRequest,
        engine: &EngineInfo,
        target_port: Option<u16>,
        command: Vec<String>,
        working_dir: &Path,
    ) -> Result<Option<(IsolationSpec, EntrypointOverride)>> {
        let Some(outbound) = &self.outbound else { return Ok(None) };
        let carried = !engine.shares_sockets;
        let gateway = request.options.allow_runtime_gateway.unwrap_or(false);
        if carried {
            match isolation::shim_binary(&engine.architecture) {
                // A stdio server that may open no connections needs no shim; without it, attempts to connect are just
                // not reported.
                Err(_)
                    if outbound.is_nothing()
                        && target_port.is_none()
                        && request.options.isolate_network != Some(true) =>
                {
                    return Ok(None);
                }
                found => drop(found?),
            }
            if gateway {
                let message = "`allow_runtime_gateway` needs an engine that runs directly on this machine and is reached through a \
                               Unix socket";
                return Err(Error::new(ErrorKind::Unsupported, message)
                    .hint("leave out `allow_runtime_gateway`; to let the server connect to a machine, add the machine's IP \
                     address to `network.outbound.allow_host` of the permission profile"));
            }
        }
        let learn = request.options.learn.as_ref().map(|path| working_dir.join(path));
        let mut command_of_entry = vec![format!("{MOUNT_POINT}/{SHIM_FILE_NAME}")];
        command_of_entry.extend(carried.then(|| RELAYED_COMMAND.to_owned()));
        let entry = EntrypointOverride {
            command: command_of_entry,
            hosts: BTreeMap::new(),
            name_server: std::net::Ipv4Addr::LOCALHOST,
            volume: carried.then(|| MOUNT_POINT.to_owned()),
        };
        let spec = IsolationSpec { command, outbound: outbound.clone(), runtime_gateway: gateway, learn };
        Ok(Some((spec, entry)))
    }

    /// Returns the resource limits of the profile.
    pub(in crate::workload) fn confinement(&self) -> Confinement {
        let Profile { resources, tmpfs, read_only_root, privileged, .. } = &self.profile;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a profile has at most 1024 processors, and at least 0.01"
        )]
        let nano_cpus = resources.cpus.map(|cpus| (cpus * 1e9).round() as u64);
        Confinement {
            memory: resources.memory.map(|bytes| bytes.0),
            nano_cpus,
            read_only_root: *read_only_root,
            tmpfs: tmpfs.iter().map(|tmpfs| (tmpfs.target.clone(), tmpfs.size.0)).collect(),
            privileged: *privileged,
        }
    }

    pub(in crate::workload) fn pids_limit(&self) -> i64 {
        i64::from(self.profile.resources.pids.unwrap_or(DEFAULT_PIDS))
    }

    /// Returns the mounts: the given volumes, and the profile's mounts whose targets differ from theirs.
    pub(in crate::workload) fn mounts(
        &self,
        volumes: &[VolumeSpec],
        working_dir: &Path,
    ) -> Result<Vec<Mount>> {
        let mut all = mounts::mounts(volumes, working_dir)?;
        let given = all.len();
        for rule in &self.profile.mounts {
            let (source, target) = rule.paths(working_dir);
            if all[..given].iter().any(|mount| mount.target == target) {
                continue;
            }
            std::fs::metadata(&source).map_err(|error| {
                let message =
                    format!("cannot mount `{}`, which the permission profile names", source.display());
                Error::new(config_file::read_error_kind(&error), message).source(error)
            })?;
            match all[given..].iter_mut().find(|mount| mount.target == target) {
                Some(same) if same.source == source => same.read_only &= rule.read_only,
                Some(_) => {
                    let message = format!("the permission profile mounts two paths at `{target}`");
                    return Err(Error::new(ErrorKind::InvalidOption, message));
                }
                None => all.push(Mount { source, target, read_only: rule.read_only, relabel: None }),
            }
        }
        if let Some(hidden) = all.iter().find(|mount| Path::new(&mount.target).starts_with(MOUNT_POINT)) {
            let message = format!("`{}` is reserved for mcpm in containers", hidden.target);
            return Err(Error::new(ErrorKind::InvalidOption, message));
        }
        Ok(all)
    }

    /// Records the origins of the values.
    pub(in crate::workload) fn record_origins(&self, origins: &mut BTreeMap<String, ValueOrigin>) {
        origins.insert("permission_profile".to_owned(), self.profile_origin);
        let network = if self.outbound.is_some() { self.isolation_origin } else { self.network_origin };
        origins.insert("network".to_owned(), network);
    }
}

/// Rejects options for ports of this machine.
fn reject_host_ports(options: &WorkloadOptions, container: &str) -> Result<()> {
    let refused = |message: String| Error::new(ErrorKind::InvalidOption, message);
    if !options.publish.is_empty() {
        return Err(refused(format!("{container} publishes no ports")).hint("leave out `publish`"));
    }
    if options.target_host.is_some() {
        return Err(refused(format!("`target_host` cannot be used with {container}")));
    }
    Ok(())
}

/// Returns the initial profile for `--learn`: everything that the workload has, but no connections. `record` is the
/// workload's folder; mounts of mcpm itself are below it.
pub(in crate::workload) fn profile_without_connections(
    container: &ContainerSpec,
    inbound: &[String],
    record: &Path,
) -> Profile {
    let mounts = container.mounts.iter().filter(|mount| !mount.source.starts_with(record));
    let mount = |mount: &Mount| MountRule {
        source: mount.source.clone(),
        target: Some(mount.target.clone()),
        read_only: mount.read_only,
    };
    let Confinement { memory, nano_cpus, read_only_root, tmpfs, privileged } = &container.confinement;
    #[expect(clippy::cast_precision_loss, reason = "at most 1024 processors, in billionths")]
    let cpus = nano_cpus.map(|cpus| cpus as f64 / 1e9);
    let pids = u32::try_from(container.pids_limit).ok().filter(|pids| *pids != DEFAULT_PIDS);
    Profile {
        mounts: mounts.map(mount).collect(),
        inbound: inbound.to_vec(),
        privileged: *privileged,
        resources: Resources { memory: memory.map(Bytes), cpus, pids },
        read_only_root: *read_only_root,
        tmpfs: tmpfs
            .iter()
            .map(|(target, size)| Tmpfs { target: target.clone(), size: Bytes(*size) })
            .collect(),
        ..Profile::default()
    }
}

pub(in crate::workload) fn parse_network(mode: &str) -> Network {
    match mode {
        "" | "bridge" | "default" => Network::Bridge,
        "host" => Network::Host,
        "none" => Network::None,
        name => Network::Custom(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_profile_has_everything_but_connections_and_internal_mounts() {
        let text = r#"{
            "read": ["/etc/hosts:/hosts"], "write": ["/tmp:/t"],
            "network": {"outbound": {"allow_host": []}, "inbound": {"allow_host": ["a.example"]}},
            "resources": {"memory": "512m", "cpus": 1.5, "pids": 64},
            "read_only_root": true, "tmpfs": ["/scratch:1m"]
        }"#;
        let profile = Profile::from_json(text).unwrap();
        let reach = EffectivePermissions {
            profile: profile.clone(),
            network: Network::None,
            network_origin: ValueOrigin::Default,
            profile_origin: ValueOrigin::Registry,
            outbound: Some(Outbound::default()),
            isolation_origin: ValueOrigin::Given,
            warnings: Vec::new(),
            warnings_without_isolation: Vec::new(),
        };
        let record = Path::new("/state/workloads/w");
        let own = |folder: &str, target: &str| Mount {
            source: record.join(folder),
            target: target.to_owned(),
            read_only: true,
            relabel: None,
        };
        let mut mounts = reach.mounts(&[], Path::new("/")).unwrap();
        mounts.extend([own("link", MOUNT_POINT), own("certificates", "/etc/mcpm")]);
        let container = ContainerSpec {
            name: "w".to_owned(),
            image: "image".to_owned(),
            args: Vec::new(),
            env: BTreeMap::new(),
            labels: BTreeMap::new(),
            mounts,
            overlays: Vec::new(),
            network: Network::None,
            ports: Vec::new(),
            stdin: true,
            unlogged: false,
            pids_limit: reach.pids_limit(),
            confinement: reach.confinement(),
            entry: None,
        };
        let learnt = profile_without_connections(&container, &profile.inbound, record);
        assert_eq!(learnt, profile);
        // Default values are not written to the profile.
        let plain = ContainerSpec {
            mounts: Vec::new(),
            pids_limit: DEFAULT_PIDS.into(),
            confinement: Confinement::default(),
            ..container
        };
        assert_eq!(profile_without_connections(&plain, &[], record), Profile::default());
    }
}
