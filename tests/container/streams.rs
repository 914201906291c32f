//! Tests the standard streams and the log of a container.

use std::time::Duration;

use futures_util::StreamExt;
use mcpm::{
    ErrorKind,
    runtime::{ContainerState, LogOptions, LogStream, Runtime as _},
};
use tokio::{io::AsyncWriteExt, time::timeout};

use super::{
    severable_socket::SeverableSocket,
    support::{Engine, LIMIT, read_line, shell, unique},
};

pub(crate) async fn a_stdio_server_answers_through_its_attached_streams(engine: &Engine) {
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

pub(crate) async fn a_line_of_four_megabytes_comes_through_whole(engine: &Engine) {
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

pub(crate) async fn logs_are_split_by_stream_and_cut_by_tail(engine: &Engine) {
    let id = engine.run("logs", "for i in 1 2 3; do echo out $i; echo err $i >&2; done").await;
    engine.wait(&id).await.unwrap();
    let (out, err) = engine.log(&id, LogOptions::default()).await;
    assert_eq!((out.as_str(), err.as_str()), ("out 1\nout 2\nout 3\n", "err 1\nerr 2\nerr 3\n"));
    let (out, err) = engine.log(&id, LogOptions { tail: Some(2), follow: false }).await;
    assert_eq!((out + &err).lines().count(), 2);
}

pub(crate) async fn followed_logs_end_with_the_container(engine: &Engine) {
    // The built-in runtime does not store standard output that a client is attached to.
    let script = "echo first >&2; read -r line; echo last >&2";
    let id = engine.create(&shell(&unique("follow"), script)).await;
    let mut streams = engine.attach(&id).await.unwrap();
    engine.start(&id).await.unwrap();
    // The log is written while the output is read.
    let mut output = streams.output;
    tokio::spawn(async move { while output.next().await.is_some() {} });
    let mut log = engine.logs(&id, LogOptions { follow: true, tail: None }).await.unwrap();
    let first = timeout(LIMIT, log.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(&first.bytes[..], b"first\n");
    streams.stdin.write_all(b"go\n").await.unwrap();
    let last = timeout(LIMIT, log.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(&last.bytes[..], b"last\n");
    assert!(timeout(LIMIT, log.next()).await.unwrap().is_none());
}

pub(crate) async fn a_running_container_can_be_attached_to(engine: &Engine) {
    let id = engine.run("attach", "read -r line; echo \"got $line\"").await;
    let mut streams = engine.attach(&id).await.unwrap();
    streams.stdin.write_all(b"go\n").await.unwrap();
    assert_eq!(read_line(&mut streams, LogStream::Stdout).await, "got go\n");
}

pub(crate) async fn a_lost_engine_ends_streams_and_waits(engine: &Engine) {
    let id = engine.create(&shell(&unique("lost"), "echo up; exec cat")).await;
    let link = SeverableSocket::open().await;
    let behind = link.connect().await.unwrap();
    let mut streams = behind.attach(&id).await.unwrap();
    behind.start(&id).await.unwrap();
    assert_eq!(read_line(&mut streams, LogStream::Stdout).await, "up\n");
    let before = link.count();
    let waiting = tokio::spawn({
        let (behind, id) = (behind.clone(), id.clone());
        async move { behind.wait(&id).await }
    });
    // One connection inspects the container, the next one waits for its end.
    link.wait_for_connections(before + 2).await;
    link.sever().await;
    while let Some(Ok(_)) = timeout(LIMIT, streams.output.next()).await.unwrap() {}
    let error = timeout(LIMIT, waiting).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
    let error = behind.inspect(&id.0).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EngineUnavailable, "{error}");
    // Podman closes the standard input of a server when the connection closes, so `cat` exits.
    if engine.is_docker() {
        assert_eq!(engine.inspect(&id.0).await.unwrap().unwrap().state, ContainerState::Running);
    }
}
