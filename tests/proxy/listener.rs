//! Tests the address on which the proxy listens, the errors if it cannot listen there, and the status and the port of a
//! proxy that stops.

use mcpm::{
    ErrorKind,
    proxy::{Proxy, StdioProxy},
    state::Phase,
};
use mcpm_tests::harness::{http::Http, mcp::Session, upstream::Upstream, with_timeout};
use serde_json::json;

use crate::{legacy, script};

#[tokio::test(flavor = "multi_thread")]
async fn the_default_is_a_free_port_on_loopback() {
    let (one, other) = (legacy().await, legacy().await);
    assert!(one.http.0.ip().is_loopback());
    assert_ne!(one.http.0.port(), other.http.0.port());
    assert_eq!(one.running.proxy().url(), format!("http://{}/mcp", one.http.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_is_refused_with_its_holder() {
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let script = script().await;
    let bridge = StdioProxy::new("s", script.process(&[])).listen("127.0.0.1", port).start(drop).await;
    let builder = Proxy::builder("up", "http://127.0.0.1:9").set("port", &port.to_string());
    let proxy = builder.unwrap().build().unwrap().start().await;
    for error in [bridge.unwrap_err(), proxy.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::PortTaken);
        let own = format!("pid {}", std::process::id());
        assert!(error.to_string().contains(&own) && error.to_string().contains(&port.to_string()), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_none_of_this_machine_is_refused() {
    for host in ["192.0.2.1", "no-such-host.invalid", "a b", ""] {
        let script = script().await;
        let start = StdioProxy::new("s", script.process(&[])).listen(host, 0).start(drop);
        let error = with_timeout("the refusal", start).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{host}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ipv6_loopback_is_served_and_reached() {
    for host in ["::1", "[::1]"] {
        let script = script().await;
        let proxy = StdioProxy::new("scripted", script.process(&[])).listen(host, 0);
        let bridge = script.serve(proxy).await;
        let port = bridge.http.0.port();
        assert_eq!(bridge.running.proxy().url(), format!("http://[::1]:{port}/mcp"));
        assert_eq!(Session::open(bridge.http).await.call(1, "echo", json!({})).await["id"], 1);
        assert_eq!(bridge.http.get("/health").header("Host", "evil.example").send().await.status, 403);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ipv6_target_is_reached_from_an_ipv6_listener() {
    let bridge = {
        let script = script().await;
        let proxy = StdioProxy::new("scripted", script.process(&[])).listen("::1", 0);
        script.serve(proxy).await
    };
    let builder = Proxy::builder("up", bridge.running.proxy().url()).set("host", "::1").unwrap();
    let running = with_timeout("the proxy to start", builder.build().unwrap().start()).await.unwrap();
    let session = Session::open(Http(running.address().unwrap())).await;
    assert_eq!(session.call(1, "echo", json!({})).await["id"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_listened_on_and_shown() {
    let script = script().await;
    let proxy = StdioProxy::new("scripted", script.process(&[])).listen("localhost", 0);
    let bridge = script.serve(proxy).await;
    let port = bridge.http.0.port();
    assert_eq!(bridge.running.proxy().url(), format!("http://localhost:{port}/mcp"));
    assert_eq!(Session::open(bridge.http).await.call(1, "echo", json!({})).await["id"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_proxy_gives_its_port_back_at_once() {
    let bridge = legacy().await;
    let start = async |port: u16| {
        let builder =
            Proxy::builder("up", bridge.running.proxy().url()).set("port", &port.to_string()).unwrap();
        with_timeout("the proxy to start", builder.build().unwrap().start()).await.unwrap()
    };
    let first = start(0).await;
    let port = first.address().unwrap().port();
    assert_eq!(Http(first.address().unwrap()).get("/health").send().await.status, 200);
    assert_eq!((first.status(), first.is_running()), (Phase::Running, true));
    first.stop().await;
    assert_eq!((first.status(), first.is_running()), (Phase::Stopped, false));
    let second = start(port).await;
    assert_eq!(Http(second.address().unwrap()).get("/health").send().await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_is_stopping_while_an_answer_is_under_way() {
    let upstream = Upstream::listen().await;
    let proxy = Proxy::builder("up", upstream.uri("/mcp")).build().unwrap();
    let proxy = with_timeout("the proxy to start", proxy.start()).await.unwrap();
    let http = Http(proxy.address().unwrap());
    let asking = tokio::spawn(http.get("/mcp").send());
    let (mut connection, _) = upstream.request().await;
    let mut stop = std::pin::pin!(proxy.stop());
    tokio::select! {
        biased;
        () = stop.as_mut() => panic!("it stopped before the answer came"),
        () = std::future::ready(()) => {}
    }
    assert_eq!((proxy.status(), proxy.is_running()), (Phase::Stopping, false));
    connection.answer("200 OK", "", "{}").await;
    with_timeout("the stop", stop).await;
    assert_eq!(proxy.status(), Phase::Stopped);
    drop(asking);
}
