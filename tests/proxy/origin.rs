//! Checks that requests from pages of other origins or with other host names are rejected, for every path and method.

use mcpm::proxy::{Proxy, ProxySpec, StdioProxy};
use mcpm_tests::harness::{http::Http, mcp::Session, upstream::Upstream, with_timeout};
use serde_json::json;

use crate::{legacy, script};

const PLACES: [(&str, &str); 9] = [
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp"),
    ("OPTIONS", "/mcp"),
    ("GET", "/health"),
    ("GET", "/metrics"),
    ("GET", "/.well-known/oauth-protected-resource"),
    ("GET", "/sse"),
    ("GET", "/nowhere"),
];

async fn assert_rejects_other_origins(http: Http) {
    let port = http.0.port();
    for (method, path) in PLACES {
        for origin in [
            "http://evil.example",
            "null",
            "file://",
            "http://localhost.evil.example",
            "http://127.0.0.1.evil.example",
            "http://evil.example:80@localhost",
            "https://evil.example/http://localhost",
            "",
        ] {
            let response = http.request(method, path).header("Origin", origin).send().await;
            assert_eq!(response.status, 403, "{method} {path} Origin: {origin}");
            assert_eq!(response.headers.get("access-control-allow-origin"), None);
        }
        let host = format!("evil.example:{port}");
        for host in ["evil.example", &host, "localhost.evil.example", "0.0.0.0", "a@localhost", ""] {
            let response = http.request(method, path).header("Host", host).send().await;
            assert_eq!(response.status, 403, "{method} {path} Host: {host}");
        }
        let twice = http.request(method, path).add_header("Host", "localhost");
        assert!([400, 403].contains(&twice.send().await.status), "{method} {path} two hosts");
        let twice = http
            .request(method, path)
            .add_header("Origin", "http://localhost")
            .add_header("Origin", "http://x.example");
        assert_eq!(twice.send().await.status, 403, "{method} {path} two origins");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_refuses_other_origins_and_hosts_everywhere() {
    let mut bridge = legacy().await;
    bridge.process.drain_received().await;
    assert_rejects_other_origins(bridge.http).await;
    assert!(bridge.process.drain_received().await.is_empty());
    let host = format!("localhost:{}", bridge.http.0.port());
    for (name, value) in [
        ("Host", host.as_str()),
        ("Host", "[::1]"),
        ("Origin", "http://localhost:6274"),
        ("Origin", "https://127.0.0.1"),
        ("Origin", "http://[::1]:1"),
    ] {
        let response = bridge.http.get("/health").header(name, value).send().await;
        assert_eq!(response.status, 200, "{name}: {value}");
        assert_eq!(response.headers.get("access-control-allow-origin"), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_does_not_excuse_an_origin() {
    let bridge = legacy().await;
    let session = Session::open(bridge.http).await;
    let request =
        session.with_session_headers(bridge.http.get("/mcp")).header("Origin", "http://evil.example");
    assert_eq!(request.send().await.status, 403);
    assert_eq!(session.call(1, "echo", json!({})).await["id"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarding_proxy_refuses_other_origins_and_hosts_everywhere() {
    let upstream = Upstream::listen().await;
    let proxy = Proxy::builder("up", upstream.uri("/")).build().unwrap();
    let running = with_timeout("the proxy to start", proxy.start()).await.unwrap();
    assert_rejects_other_origins(Http(running.address().unwrap())).await;
    assert!(upstream.try_accept().await.is_none(), "something got through");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_allowed_origin_passes() {
    let upstream = Upstream::listen().await;
    let builder = Proxy::builder("up", upstream.uri("/")).set("allowed-origins", "https://app.example");
    let running =
        with_timeout("the proxy to start", builder.unwrap().build().unwrap().start()).await.unwrap();
    let http = Http(running.address().unwrap());
    let allowed = http.get("/x").header("Origin", "https://app.example");
    let answer = async {
        let (mut connection, received) = upstream.request().await;
        assert_eq!(received.headers.get("origin"), Some("https://app.example"));
        connection.answer("200 OK", "", "").await;
    };
    let (response, ()) = tokio::join!(allowed.send(), answer);
    assert_eq!(response.status, 200);
    for origin in ["http://app.example", "https://app.example:444", "https://app.example.evil.example"] {
        assert_eq!(http.get("/x").header("Origin", origin).send().await.status, 403, "{origin}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_beyond_this_machine_takes_the_hosts_that_it_was_told_and_no_origin() {
    let script = script().await;
    let more_hosts = vec!["box.lan".to_owned()];
    let spec = ProxySpec { host: "0.0.0.0".to_owned(), more_hosts, ..ProxySpec::default() };
    let proxy = StdioProxy::new("scripted", script.process(&[])).spec(spec);
    let bridge = script.serve(proxy).await;
    let http = Http(([127, 0, 0, 1], bridge.http.0.port()).into());
    for host in ["box.lan", "BOX.lan:8080", "192.0.2.7", "[2001:db8::1]:80", "localhost"] {
        assert_eq!(http.get("/health").header("Host", host).send().await.status, 200, "{host}");
    }
    // The request of a page after DNS rebinding: a GET to its own origin has no `Origin`.
    for (method, path) in PLACES {
        for host in ["evil.example", "box.lan.evil.example", "192.0.2.7.evil.example", ""] {
            let response = http.request(method, path).header("Host", host).send().await;
            assert_eq!(response.status, 403, "{method} {path} Host: {host}");
        }
    }
    for origin in ["http://box.lan", "http://localhost", "null"] {
        let request = http.get("/health").header("Host", "box.lan").header("Origin", origin);
        assert_eq!(request.send().await.status, 403, "{origin}");
    }
}
