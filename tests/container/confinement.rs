//! Tests the mounts, the limits, the published ports and the networks of a container, and that it has no privileges.

use std::net::Ipv4Addr;

use futures_util::StreamExt;
use mcpm::{
    ErrorKind,
    runtime::{ContainerState, LogOptions, Mount, Network, Protocol, PublishedPort, Relabel, labels},
};
use mcpm_tests::harness::poll;
use tokio::{io::AsyncReadExt, net::TcpStream, time::timeout};

use super::support::{Engine, LIMIT, docker, shell, text, unique};

pub(crate) async fn mounts_honour_read_only_and_never_create_their_source(engine: &Engine) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("hello"), "hello\n").unwrap();
    for relabel in [None, Some(Relabel::Shared), Some(Relabel::Private)] {
        let script = "cat /data/hello; echo x > /data/new || echo read-only";
        let mut spec = shell(&unique("mount"), script);
        spec.mounts = vec![Mount {
            source: folder.path().into(),
            target: "/data".to_owned(),
            read_only: true,
            relabel,
        }];
        let id = engine.create(&spec).await;
        engine.start(&id).await.unwrap();
        engine.wait(&id).await.unwrap();
        let (out, _) = engine.log(&id, LogOptions::default()).await;
        assert_eq!(out, "hello\nread-only\n");

        let missing = folder.path().join("missing");
        spec.name = unique("nomount");
        spec.mounts[0].source = missing.clone();
        let error = engine.runtime().create(&spec).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
        assert!(error.to_string().contains(&text(&missing)), "{error}");
        assert!(!missing.exists() && engine.inspect(&spec.name).await.unwrap().is_none());
    }
}

pub(crate) async fn the_container_is_confined(engine: &Engine) {
    let mut spec =
        shell(&unique("fences"), "grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/1/status; env; echo pid $$");
    spec.env.insert("GREETING".to_owned(), "a=b c".to_owned());
    spec.labels.insert(labels::NAME.to_owned(), "fences".to_owned());
    let id = engine.create(&spec).await;
    engine.start(&id).await.unwrap();
    engine.wait(&id).await.unwrap();
    let (out, _) = engine.log(&id, LogOptions::default()).await;
    for line in ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "GREETING=a=b c"]
    {
        assert!(out.lines().any(|found| found == line), "{line} is missing in {out}");
    }
    assert!(out.contains("pid ") && !out.contains("pid 1\n"), "an init process comes first: {out}");
    assert_eq!(engine.inspect(&id.0).await.unwrap().unwrap().labels[labels::NAME], "fences");
}

pub(crate) async fn the_engine_keeps_limits_of_its_own(engine: &Engine) {
    let id = engine.create(&shell(&unique("limits"), "true")).await;
    let format =
        "{{.HostConfig.PidsLimit}} {{.HostConfig.RestartPolicy.Name}} {{json .HostConfig.LogConfig}}";
    let host = String::from_utf8(docker(&["inspect", "--format", format, &id.0]).stdout).unwrap();
    assert!(host.starts_with("256 "), "{host}");
    assert!(!host.contains("always"), "{host}");
    // Podman's compatible API does not report the size limit of the log.
    assert!(host.contains("10m") || !engine.is_docker(), "{host}");
}

pub(crate) async fn no_more_processes_than_the_limit_are_started(engine: &Engine) {
    let script = "i=0; while [ $i -lt 64 ]; do sleep 1000 & i=$((i + 1)); echo $i; done";
    let mut spec = shell(&unique("fork"), script);
    spec.pids_limit = 16;
    let id = engine.create(&spec).await;
    engine.start(&id).await.unwrap();
    assert_ne!(timeout(LIMIT, engine.wait(&id)).await.unwrap().unwrap().code, 0);
    let (out, _) = engine.log(&id, LogOptions::default()).await;
    assert!((1..16).contains(&out.lines().count()), "{out}");
}

pub(crate) async fn memory_is_limited(engine: &Engine) {
    // A pattern space of `sed` that is as large as its only line.
    let mut spec = shell(&unique("memory"), "tr '\\000' a < /dev/zero | head -c 100000000 | exec sed p");
    spec.confinement.memory = Some(32 << 20);
    let id = engine.create(&spec).await;
    engine.start(&id).await.unwrap();
    let exit = timeout(LIMIT, engine.wait(&id)).await.unwrap().unwrap();
    // Podman does not report an out-of-memory kill of a process below the first one.
    assert_eq!((exit.code, exit.out_of_memory), (137, engine.is_docker() || engine.is_builtin()));
}

pub(crate) async fn a_published_port_is_on_loopback_and_reported(engine: &Engine) {
    let mut spec = shell(&unique("port"), "echo up; while :; do echo hello | nc -l -p 8080; done");
    spec.network = Network::Bridge;
    let loopback = Ipv4Addr::LOCALHOST.into();
    let port =
        PublishedPort { host_ip: loopback, host_port: 0, container_port: 8080, protocol: Protocol::Tcp };
    spec.ports = vec![port];
    let id = engine.create(&spec).await;
    engine.start(&id).await.unwrap();
    let mut log = engine.logs(&id, LogOptions { follow: true, tail: None }).await.unwrap();
    timeout(LIMIT, log.next()).await.unwrap().unwrap().unwrap();
    let info = engine.inspect(&id.0).await.unwrap().unwrap();
    assert_eq!((info.state, info.ports.len()), (ContainerState::Running, 1));
    assert_eq!((info.ports[0].host_ip, info.ports[0].container_port), (loopback, 8080));
    assert!(info.pid.is_some() && !info.addresses.is_empty(), "{info:?}");
    let mut addresses = vec![(loopback, info.ports[0].host_port)];
    if engine.engine().await.unwrap().reaches_container_addresses {
        addresses.extend(info.addresses.values().map(|address| (*address, 8080)));
    }
    for address in addresses {
        assert_eq!(hello(address).await, "hello\n", "{address:?}");
    }

    let mut second = spec.clone();
    second.name = unique("port");
    second.ports[0].host_port = info.ports[0].host_port;
    let second = engine.create(&second).await;
    let error = engine.start(&second).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PortTaken, "{error}");
}

/// Connects until the server listens again after its last response.
async fn hello(address: (std::net::IpAddr, u16)) -> String {
    poll::wait_for_async("a hello", async || {
        let mut text = String::new();
        let mut stream = TcpStream::connect(address).await.ok()?;
        stream.read_to_string(&mut text).await.ok()?;
        Some(text).filter(|text| !text.is_empty())
    })
    .await
}

pub(crate) async fn networks_are_found_by_name(engine: &Engine) {
    let name = unique("net");
    assert!(!engine.network_exists(&name).await.unwrap());
    docker(&["network", "create", &name]);
    let found = engine.network_exists(&name).await.unwrap();
    docker(&["network", "rm", &name]);
    assert!(found);
}
