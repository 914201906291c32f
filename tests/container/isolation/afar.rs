//! The same where the engine is reached over TCP, so that no socket can be shared with it: everything goes over streams
//! of its API.

use std::{
    io,
    net::{Shutdown, TcpListener, TcpStream},
    os::unix::net::UnixStream,
    sync::OnceLock,
    time::Duration,
};

use super::{
    place::{PYTHON, Place, docker, started},
    reach, server,
};

/// The usual engine by another way: an address of this machine that leads to its socket.
pub(crate) fn engine() -> String {
    static ENGINE: OnceLock<String> = OnceLock::new();
    let begun = ENGINE.get_or_init(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("tcp://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || listener.incoming().flatten().for_each(forward));
        address
    });
    begun.clone()
}

fn forward(client: TcpStream) {
    let engine = UnixStream::connect("/var/run/docker.sock").unwrap();
    client.set_nodelay(true).unwrap();
    let (mut from, mut to) = (client.try_clone().unwrap(), engine.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    let (mut from, mut to) = (engine, client);
    std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_hold_over_the_api() {
    reach::limits(Place::afar("far-limits")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn none_is_no_network_over_the_api() {
    reach::none(Place::afar("far-none")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ignores_proxies_is_carried() {
    reach::unaware(Place::afar("far-node")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_speaks_http_is_reached_over_the_api() {
    server::http(Place::afar("far-http")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_are_handed_over_by_the_api_and_not_shown_by_it() {
    server::variables(Place::afar("far-env")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_mounted_and_nothing_stays() {
    let place = Place::afar("far-volume");
    let (running, ..) = started(place.workload(PYTHON).isolate_network(true)).await;
    let mounts = docker(&[
        "inspect",
        "-f",
        "{{range .Mounts}}{{.Type}} {{.Name}} {{.Destination}}{{end}}",
        &place.name,
    ]);
    let volume = mounts.strip_prefix("volume ").unwrap().strip_suffix(" /.mcpm").unwrap().to_owned();
    assert!(!place.path("state/workloads").join(&place.name).join("link").exists());
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.forget().await;
    assert_eq!(docker(&["volume", "ls", "-q", "--filter", &format!("name={volume}")]), "");
}
