//! Tests how a container starts and ends, and to which workload it belongs.

use std::time::Duration;

use futures_util::StreamExt;
use mcpm::{
    ErrorKind,
    runtime::{ContainerId, ContainerState, LogOptions},
};
use tokio::{io::AsyncWriteExt, time::timeout};

use super::support::{Engine, LIMIT, docker, shell, shell_image, unique};

pub(crate) async fn the_exit_code_is_told_while_running_and_afterwards(engine: &Engine) {
    for code in [0, 7] {
        let id = engine.create(&shell(&unique("exit"), &format!("read -r line; exit {code}"))).await;
        let mut streams = engine.attach(&id).await.unwrap();
        engine.start(&id).await.unwrap();
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

pub(crate) async fn stop_asks_first_and_kills_after_the_grace(engine: &Engine) {
    let polite = engine.run("polite", "trap 'exit 3' TERM; echo up; while :; do sleep 0.1; done").await;
    let script =
        "trap 'asked=yes' TERM; echo up; while :; do sleep 0.1; [ -z \"$asked\" ] || echo asked; done";
    let stubborn = engine.run("stubborn", script).await;
    for id in [&polite, &stubborn] {
        let mut log = engine.logs(id, LogOptions { follow: true, tail: None }).await.unwrap();
        timeout(LIMIT, log.next()).await.unwrap().unwrap().unwrap();
    }
    engine.stop(&polite, LIMIT).await.unwrap();
    assert_eq!(engine.wait(&polite).await.unwrap().code, 3);
    engine.stop(&stubborn, Duration::from_secs(2)).await.unwrap();
    // The container got a signal, and had time to continue.
    let (said, _) = engine.log(&stubborn, LogOptions::default()).await;
    assert!(said.starts_with("up\nasked\nasked\n"), "{said:?}");
    assert_eq!(engine.wait(&stubborn).await.unwrap().code, 137);
    engine.stop(&stubborn, Duration::ZERO).await.unwrap();
}

pub(crate) async fn remove_ends_a_running_container_and_may_be_repeated(engine: &Engine) {
    let fresh = engine.create(&shell(&unique("fresh"), "true")).await;
    engine.stop(&fresh, Duration::ZERO).await.unwrap();
    engine.remove(&fresh).await.unwrap();
    let id = engine.run("remove", "sleep 1000").await;
    engine.remove(&id).await.unwrap();
    engine.remove(&id).await.unwrap();
    engine.stop(&id, Duration::ZERO).await.unwrap();
    assert!(engine.inspect(&id.0).await.unwrap().is_none());
    assert_eq!(engine.start(&id).await.unwrap_err().kind(), ErrorKind::NotFound);
}

pub(crate) async fn a_program_that_is_not_there_is_a_failed_start(engine: &Engine) {
    let id = engine.create(&shell(&unique("noexec"), "exec /nothing/here")).await;
    engine.start(&id).await.unwrap();
    assert_eq!(engine.wait(&id).await.unwrap().code, 127);
}

pub(crate) async fn a_container_of_somebody_else_is_never_touched(engine: &Engine) {
    let name = unique("foreign");
    engine.clean_up(&name);
    docker(&["run", "-d", "--name", &name, "--network", "none", shell_image(), "while :; do sleep 1; done"]);
    let id =
        String::from_utf8(docker(&["ps", "-aq", "--no-trunc", "--filter", &format!("name={name}")]).stdout);
    let id = id.unwrap().trim().to_owned();

    let error = engine.runtime().create(&shell(&name, "true")).await.unwrap_err();
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

pub(crate) async fn our_own_name_is_taken_too_and_found_exactly(engine: &Engine) {
    let name = unique("taken");
    let id = engine.create(&shell(&name, "true")).await;
    let error = engine.runtime().create(&shell(&name, "true")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NameTaken, "{error}");
    assert_eq!(engine.inspect(&name).await.unwrap().unwrap().id, id);
    assert!(engine.list().await.unwrap().iter().any(|info| info.name == name));
    for wrong in [&id.0[..6], "../images/json", "", "a?b", "."] {
        assert!(engine.inspect(wrong).await.unwrap().is_none(), "{wrong}");
    }
}
