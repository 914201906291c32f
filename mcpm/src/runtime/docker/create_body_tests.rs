//! Tests of requests for new containers.

use std::{collections::BTreeMap, net::Ipv4Addr};

use super::*;
use crate::runtime::{Confinement, Network, Protocol, PublishedPort};

fn traits() -> EngineCapabilities {
    EngineCapabilities {
        init: true,
        bounded_log_driver: Some("json-file".to_owned()),
        copies_image_into_tmpfs: false,
        selinux: false,
        same_kernel: true,
    }
}

fn spec() -> ContainerSpec {
    ContainerSpec {
        name: "server".to_owned(),
        image: "image:1".to_owned(),
        args: Vec::new(),
        env: BTreeMap::from([("KEY".to_owned(), "a=b".to_owned())]),
        labels: BTreeMap::new(),
        mounts: Vec::new(),
        overlays: Vec::new(),
        network: Network::Custom("net".to_owned()),
        ports: Vec::new(),
        stdin: true,
        unlogged: false,
        pids_limit: 64,
        confinement: Confinement::default(),
        entry: None,
    }
}

fn mount(source: &Path, relabel: Option<Relabel>) -> Mount {
    Mount { source: source.to_owned(), target: "/data".to_owned(), read_only: true, relabel }
}

#[test]
fn every_container_is_confined_and_labelled() {
    let body = create_body(&spec(), &traits()).unwrap();
    assert_eq!(body.labels.unwrap()[labels::MANAGED], "true");
    assert_eq!((body.tty, body.open_stdin, body.stdin_once), (Some(false), Some(true), Some(false)));
    assert_eq!(body.env.unwrap(), ["KEY=a=b"]);
    assert_eq!(body.cmd, None, "no arguments keep the image's command");
    let host = body.host_config.unwrap();
    assert_eq!(host.cap_drop.unwrap(), ["ALL"]);
    assert_eq!(host.security_opt.unwrap(), ["no-new-privileges"]);
    assert_eq!((host.init, host.pids_limit, host.privileged), (Some(true), Some(64), None));
    assert_eq!(host.restart_policy.unwrap().name, Some(RestartPolicyNameEnum::NO));
    assert_eq!(host.network_mode.as_deref(), Some("net"));
    assert_eq!(host.log_config.unwrap().config.unwrap()["max-size"], "10m");
}

#[test]
fn a_log_driver_without_rotation_gets_no_options() {
    let traits = EngineCapabilities { bounded_log_driver: None, ..traits() };
    assert_eq!(create_body(&spec(), &traits).unwrap().host_config.unwrap().log_config, None);
}

#[test]
fn ports_are_bound_to_the_requested_addresses() {
    let ip = Ipv4Addr::LOCALHOST.into();
    let port = |host_port, protocol| PublishedPort { host_ip: ip, host_port, container_port: 80, protocol };
    let ports = vec![port(0, Protocol::Tcp), port(8080, Protocol::Tcp), port(53, Protocol::Udp)];
    let body = create_body(&ContainerSpec { ports, ..spec() }, &traits()).unwrap();
    let bindings = body.host_config.unwrap().port_bindings.unwrap();
    let written = |key: &str| -> Vec<_> {
        let all = bindings[key].iter().flatten();
        all.map(|binding| format!("{:?} {:?}", binding.host_ip, binding.host_port)).collect()
    };
    assert_eq!(written("80/tcp"), [r#"Some("127.0.0.1") Some("")"#, r#"Some("127.0.0.1") Some("8080")"#]);
    assert_eq!(written("80/udp"), [r#"Some("127.0.0.1") Some("53")"#]);
    assert_eq!(body.exposed_ports.unwrap().len(), 2);
}

#[test]
fn only_relabelled_mounts_take_the_older_form() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path();
    let mounts = vec![
        mount(source, None),
        mount(source, Some(Relabel::Shared)),
        mount(source, Some(Relabel::Private)),
    ];
    let host = create_body(&ContainerSpec { mounts, ..spec() }, &traits()).unwrap().host_config.unwrap();
    let plain = host.mounts.unwrap();
    assert_eq!((plain.len(), plain[0].read_only, plain[0].typ), (1, Some(true), Some(MountType::BIND)));
    let source = source.display();
    assert_eq!(host.binds.unwrap(), [format!("{source}:/data:ro,z"), format!("{source}:/data:ro,Z")]);
}

#[test]
fn a_missing_or_non_utf8_mount_source_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let colon = folder.path().join("a:b");
    std::fs::create_dir(&colon).unwrap();
    let refused =
        |mount| create_body(&ContainerSpec { mounts: vec![mount], ..spec() }, &traits()).unwrap_err();
    for relabel in [None, Some(Relabel::Shared)] {
        let error = refused(mount(&missing, relabel));
        assert!(error.to_string().contains("does not exist"), "{error}");
    }
    assert!(refused(mount(&colon, Some(Relabel::Shared))).to_string().contains("must not contain `:`"));
    let mounts = vec![mount(&colon, None)];
    create_body(&ContainerSpec { mounts, ..spec() }, &traits()).unwrap();
}

#[test]
fn profile_limits_are_in_the_create_request() {
    let confinement = Confinement {
        memory: Some(1 << 28),
        nano_cpus: Some(500_000_000),
        read_only_root: true,
        tmpfs: BTreeMap::from([("/tmp".to_owned(), 1024)]),
        privileged: false,
    };
    let spec = ContainerSpec { confinement, ..spec() };
    let host = create_body(&spec, &traits()).unwrap().host_config.unwrap();
    assert_eq!(
        (host.memory, host.memory_swap, host.nano_cpus),
        (Some(1 << 28), Some(1 << 28), Some(500_000_000))
    );
    assert_eq!((host.readonly_rootfs, host.oom_score_adj), (Some(true), Some(500)));
    assert_eq!(host.tmpfs.unwrap()["/tmp"], "rw,noexec,nosuid,nodev,mode=1777,size=1024");
    let filling = EngineCapabilities { copies_image_into_tmpfs: true, ..traits() };
    let host = create_body(&spec, &filling).unwrap().host_config.unwrap();
    assert!(host.tmpfs.unwrap()["/tmp"].ends_with(",notmpcopyup"));
}

#[test]
fn a_program_in_front_of_the_server_is_the_first_process() {
    let entry = crate::runtime::EntrypointOverride {
        command: vec!["/.mcpm/shim".to_owned(), "0".to_owned()],
        hosts: BTreeMap::from([("a.example".to_owned(), Ipv4Addr::new(127, 77, 0, 1))]),
        name_server: Ipv4Addr::LOCALHOST,
        volume: None,
    };
    let spec = ContainerSpec { entry: Some(entry), network: Network::None, ..spec() };
    let body = create_body(&spec, &EngineCapabilities { selinux: true, ..traits() }).unwrap();
    assert_eq!(body.entrypoint.unwrap(), ["/.mcpm/shim", "0"]);
    let host = body.host_config.unwrap();
    assert_eq!((host.init, host.network_mode.as_deref()), (Some(false), Some("none")));
    assert_eq!(host.extra_hosts, None);
    assert_eq!(host.dns.unwrap(), ["127.0.0.1"]);
    assert_eq!(host.sysctls.unwrap()["net.ipv4.ip_unprivileged_port_start"], "0");
    assert_eq!(host.security_opt.unwrap(), ["no-new-privileges", "label=disable"]);
    let mut carried = spec.clone();
    carried.entry.as_mut().unwrap().volume = Some("/.mcpm".to_owned());
    let selinux = EngineCapabilities { selinux: true, ..traits() };
    let host = create_body(&carried, &selinux).unwrap().host_config.unwrap();
    assert_eq!(host.security_opt.unwrap(), ["no-new-privileges"]);
    let volume = host.mounts.unwrap().pop().unwrap();
    let expected = (Some(MountType::VOLUME), None, Some("/.mcpm".to_owned()));
    assert_eq!((volume.typ, volume.source, volume.target), expected);
}

#[test]
fn a_privileged_container_is_not_confined() {
    let confinement = Confinement { privileged: true, ..Confinement::default() };
    let host = create_body(&ContainerSpec { confinement, ..spec() }, &traits()).unwrap().host_config.unwrap();
    assert_eq!((host.privileged, host.cap_drop, host.security_opt), (Some(true), None, None));
}
