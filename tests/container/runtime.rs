//! The Docker runtime against a real engine.
//!
//! `MCPM_TEST_ENGINE` names another engine than the one at Docker's usual socket, such as Podman's.
#![expect(clippy::unwrap_used, reason = "what fails here fails its test")]

use std::{net::Ipv4Addr, time::Duration};

use futures_util::StreamExt;
use mcpm::{
    ErrorKind,
    image::{ImageReference, pull},
    runtime::{
        ContainerId, ContainerState, EngineName, LogOptions, LogStream, Mount, Network, Protocol,
        PublishedPort, Relabel, Runtime, labels,
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};

mod link;
mod support;

use link::Link;
use support::{Engine, LIMIT, docker, exists, image, read_line, shell, text, unique};

#[tokio::test]
async fn a_stdio_server_answers_through_its_attached_streams() {
    let engine = Engine::connect().await;
    let spec = shell(&unique("stdio"), "echo ready >&2; while read -r line; do echo \"got $line\"; done");
    let id = engine.create(&spec).await;
    assert_eq!(engine.inspect(&spec.name).await.unwrap().unwrap().state, ContainerState::Created);
    let mut streams = engine.attach(&id).await.unwrap();
    assert_eq!(engine.inspect(&spec.name).await.unwrap().unwrap().state, ContainerState::Created);
    engine.start(&id).await.unwrap();
    assert_eq!(read_line(&mut streams, LogStream::Stderr).await, "ready\n");
    for number in 0..100 {
        streams.stdin.write_all(format!("{number}\n").as_bytes()).await.unwrap();
        streams.stdin.flush().await.unwrap();
        assert_eq!(read_line(&mut streams, LogStream::Stdout).await, format!("got {number}\n"));
    }
    engine.stop(&id, Duration::from_secs(5)).await.unwrap();
    assert!(
        timeout(LIMIT, streams.output.next()).await.unwrap().is_none(),
        "the streams end with the container"
    );
}

#[tokio::test]
async fn a_line_of_four_megabytes_comes_through_whole() {
    let engine = Engine::connect().await;
    let id = engine.create(&shell(&unique("big"), "exec cat")).await;
    let mut streams = engine.attach(&id).await.unwrap();
    engine.start(&id).await.unwrap();
    let line = format!("{}\n", "0123456789abcdef".repeat(256 * 1024));
    let mut stdin = streams.stdin;
    streams.stdin = Box::new(tokio::io::sink());
    let sent = line.clone();
    let writer = tokio::spawn(async move {
        stdin.write_all(sent.as_bytes()).await.unwrap();
        stdin.flush().await.unwrap();
        stdin
    });
    assert!(read_line(&mut streams, LogStream::Stdout).await == line, "the line differs");
    writer.await.unwrap();
}

#[tokio::test]
async fn the_exit_code_is_told_while_running_and_afterwards() {
    let engine = Engine::connect().await;
    for code in [0, 7] {
        let id = engine.run("exit", &format!("read -r line; exit {code}")).await;
        let mut streams = engine.attach(&id).await.unwrap();
        let waiting = engine.wait(&id);
        let ending = async { streams.stdin.write_all(b"go\n").await.unwrap() };
        let (exit, ()) = tokio::join!(timeout(LIMIT, waiting), ending);
        assert_eq!(exit.unwrap().unwrap().code, code);
        let again = timeout(LIMIT, engine.wait(&id)).await.unwrap().unwrap();
        assert_eq!((again.code, again.out_of_memory), (code, false));
        let info = engine.inspect(&id.0).await.unwrap().unwrap();
        assert_eq!(info.state, ContainerState::Exited(again));
        assert_eq!(info.pid, None);
    }
}

#[tokio::test]
async fn logs_are_split_by_stream_and_cut_by_tail() {
    let engine = Engine::connect().await;
    let id = engine.run("logs", "for i in 1 2 3; do echo out $i; echo err $i >&2; done").await;
    engine.wait(&id).await.unwrap();
    let (out, err) = engine.log(&id, LogOptions::default()).await;
    assert_eq!((out.as_str(), err.as_str()), ("out 1\nout 2\nout 3\n", "err 1\nerr 2\nerr 3\n"));
    let (out, err) = engine.log(&id, LogOptions { tail: Some(2), follow: false }).await;
    assert_eq!((out + &err).lines().count(), 2);
}

#[tokio::test]
async fn followed_logs_end_with_the_container() {
    let engine = Engine::connect().await;
    let id = engine.run("follow", "echo first; read -r line; echo last").await;
    let mut streams = engine.attach(&id).await.unwrap();
    let mut log = engine.logs(&id, LogOptions { follow: true, tail: None }).await.unwrap();
    let first = timeout(LIMIT, log.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(&first.bytes[..], b"first\n");
    streams.stdin.write_all(b"go\n").await.unwrap();
    let last = timeout(LIMIT, log.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(&last.bytes[..], b"last\n");
    assert!(timeout(LIMIT, log.next()).await.unwrap().is_none());
}

#[tokio::test]
async fn stop_asks_first_and_kills_after_the_grace() {
    let engine = Engine::connect().await;
    let polite = engine.run("polite", "trap 'exit 3' TERM; echo up; while :; do sleep 0.1; done").await;
    let stubborn = engine.run("stubborn", "trap '' TERM; echo up; while :; do sleep 0.1; done").await;
    for id in [&polite, &stubborn] {
        let mut log = engine.logs(id, LogOptions { follow: true, tail: None }).await.unwrap();
        timeout(LIMIT, log.next()).await.unwrap().unwrap().unwrap();
    }
    engine.stop(&polite, LIMIT).await.unwrap();
    assert_eq!(engine.wait(&polite).await.unwrap().code, 3);
    let begun = Instant::now();
    engine.stop(&stubborn, Duration::from_secs(2)).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(1900), "killed after {:?}", begun.elapsed());
    assert_eq!(engine.wait(&stubborn).await.unwrap().code, 137);
    engine.stop(&stubborn, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn remove_ends_a_running_container_and_may_be_repeated() {
    let engine = Engine::connect().await;
    let id = engine.run("remove", "sleep 1000").await;
    engine.remove(&id).await.unwrap();
    engine.remove(&id).await.unwrap();
    engine.stop(&id, Duration::ZERO).await.unwrap();
    assert!(engine.inspect(&id.0).await.unwrap().is_none());
    assert_eq!(engine.start(&id).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn a_container_of_somebody_else_is_never_touched() {
    let engine = Engine::connect().await;
    let name = unique("foreign");
    engine.clean_up(&name);
    docker(&["run", "-d", "--name", &name, "--network", "none", image(), "while :; do sleep 1; done"]);
    let id =
        String::from_utf8(docker(&["ps", "-aq", "--no-trunc", "--filter", &format!("name={name}")]).stdout);
    let id = id.unwrap().trim().to_owned();

    let error = Runtime::create(&*engine, &shell(&name, "true")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NameTaken, "{error}");
    for handle in [&name, &id] {
        let handle = ContainerId(handle.clone());
        assert!(engine.inspect(&handle.0).await.unwrap().is_none());
        assert_eq!(engine.start(&handle).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(engine.attach(&handle).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(engine.wait(&handle).await.unwrap_err().kind(), ErrorKind::NotFound);
        assert!(engine.logs(&handle, LogOptions::default()).await.is_err());
        engine.stop(&handle, Duration::ZERO).await.unwrap();
        engine.remove(&handle).await.unwrap();
    }
    assert!(engine.list().await.unwrap().iter().all(|info| info.id.0 != id));
    let running = docker(&["inspect", "--format", "{{.State.Running}}", &name]).stdout;
    assert_eq!(running, b"true\n");
}

#[tokio::test]
async fn our_own_name_is_taken_too_and_found_exactly() {
    let engine = Engine::connect().await;
    let name = unique("taken");
    let id = engine.create(&shell(&name, "true")).await;
    let error = Runtime::create(&*engine, &shell(&name, "true")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NameTaken, "{error}");
    assert_eq!(engine.inspect(&name).await.unwrap().unwrap().id, id);
    assert!(engine.list().await.unwrap().iter().any(|info| info.name == name));
    for wrong in [&id.0[..6], "../images/json", "", "a?b", "."] {
        assert!(engine.inspect(wrong).await.unwrap().is_none(), "{wrong}");
    }
}

#[tokio::test]
async fn a_missing_image_is_named() {
    let engine = Engine::connect().await;
    let missing = ImageReference::parse("127.0.0.1:1/mcpm-rt/missing:1").unwrap();
    assert_eq!(engine.image(&missing).await.unwrap(), None);
    let mut spec = shell(&unique("missing"), "true");
    spec.image = missing.to_string();
    let error = Runtime::create(&*engine, &spec).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ImageUnavailable, "{error}");
    let error = pull::ensure(&*engine, &missing, &|_| ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ImageUnavailable, "{error}");
    let message = error.to_string();
    assert!(
        message.contains("127.0.0.1:1/mcpm-rt/missing:1") && message.contains("reaches `127.0.0.1:1`"),
        "{message}"
    );
}

#[tokio::test]
async fn a_local_image_is_described_and_used_without_its_registry() {
    let engine = Engine::connect().await;
    let reference = ImageReference::parse(image()).unwrap();
    let pulled = pull::ensure(&*engine, &reference, &|_| ()).await.unwrap();
    assert_eq!(pulled.warning, None);
    assert_eq!(pulled.info.exposed_ports, [80, 8080]);
    assert_eq!(pulled.info.entrypoint, ["/busybox", "sh", "-c"]);
    assert_eq!(pulled.info.command, ["true"]);
    docker(&["tag", image(), "127.0.0.1:1/mcpm-rt/stale:latest"]);
    let stale = ImageReference::parse("127.0.0.1:1/mcpm-rt/stale").unwrap();
    let pulled = pull::ensure(&*engine, &stale, &|_| ()).await.unwrap();
    let warning = pulled.warning.unwrap();
    assert!(warning.contains("the copy on this machine is used"), "{warning}");
    docker(&["rmi", "127.0.0.1:1/mcpm-rt/stale:latest"]);
}

#[tokio::test]
async fn mounts_are_read_only_when_asked_and_their_sources_are_never_made() {
    let engine = Engine::connect().await;
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
        let error = Runtime::create(&*engine, &spec).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error}");
        assert!(error.to_string().contains(&text(&missing)), "{error}");
        assert!(!missing.exists() && !exists(&spec.name));
    }
}

#[tokio::test]
async fn the_fences_are_up() {
    let engine = Engine::connect().await;
    let mut spec = shell(
        &unique("fences"),
        "grep -E '^(CapEff|CapBnd|NoNewPrivs)' /proc/1/status; env; cat /proc/1/comm",
    );
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
    assert!(!out.ends_with("busybox\n"), "an init process comes first: {out}");
    let format =
        "{{.HostConfig.PidsLimit}} {{.HostConfig.RestartPolicy.Name}} {{json .HostConfig.LogConfig}}";
    let host = String::from_utf8(docker(&["inspect", "--format", format, &id.0]).stdout).unwrap();
    assert!(host.starts_with("256 "), "{host}");
    assert!(!host.contains("always"), "{host}");
    // Podman's compatible API does not tell the bounds that it keeps.
    assert!(host.contains("10m") || engine.name() == EngineName::Podman, "{host}");
    assert_eq!(engine.inspect(&id.0).await.unwrap().unwrap().labels[labels::NAME], "fences");
}

#[tokio::test]
async fn a_port_is_published_on_loopback_and_told() {
    let engine = Engine::connect().await;
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

/// Connects until the server listens again after its last answer.
async fn hello(address: (std::net::IpAddr, u16)) -> String {
    let attempt = async {
        loop {
            let mut text = String::new();
            if let Ok(mut stream) = TcpStream::connect(address).await
                && stream.read_to_string(&mut text).await.is_ok()
                && !text.is_empty()
            {
                return text;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, attempt).await.unwrap()
}

#[tokio::test]
async fn networks_are_found_by_name() {
    let engine = Engine::connect().await;
    let name = unique("net");
    assert!(!engine.network_exists(&name).await.unwrap());
    docker(&["network", "create", &name]);
    let found = engine.network_exists(&name).await.unwrap();
    docker(&["network", "rm", &name]);
    assert!(found);
}

#[tokio::test]
async fn a_program_that_is_not_there_is_a_failed_start() {
    let engine = Engine::connect().await;
    let id = engine.create(&shell(&unique("noexec"), "exec /nothing/here")).await;
    engine.start(&id).await.unwrap();
    assert_eq!(engine.wait(&id).await.unwrap().code, 127);
}

#[tokio::test]
async fn a_lost_engine_ends_streams_and_waits_and_the_container_lives_on() {
    let engine = Engine::connect().await;
    let id = engine.create(&shell(&unique("lost"), "echo up; exec cat")).await;
    let link = Link::open().await;
    let behind = link.connect().await.unwrap();
    let mut streams = behind.attach(&id).await.unwrap();
    behind.start(&id).await.unwrap();
    assert_eq!(read_line(&mut streams, LogStream::Stdout).await, "up\n");
    let before = link.count();
    let waiting = tokio::spawn({
        let (behind, id) = (behind.clone(), id.clone());
        async move { behind.wait(&id).await }
    });
    // One connection looks at the container, the next one waits for it.
    link.carried(before + 2).await;
    link.cut().await;
    while let Some(Ok(_)) = timeout(LIMIT, streams.output.next()).await.unwrap() {}
    let error = timeout(LIMIT, waiting).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
    let error = behind.inspect(&id.0).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
    assert_eq!(engine.inspect(&id.0).await.unwrap().unwrap().state, ContainerState::Running);
}
