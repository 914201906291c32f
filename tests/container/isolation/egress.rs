//! Tests the outgoing connections of a server. Programs with and without proxy support try connections from inside the
//! container, and the outcomes are compared with the events that report them.

use std::{net::TcpListener, time::Duration};

use mcpm::RunningWorkload;
use serde_json::json;

use super::fixture::{
    DeniedConnections, HTTP, IsolationFixture, NODE, OTHER_RESOLVER, Tls, UNREACHABLE_ADDRESS, denial,
    docker, host_name_and_address, start_and_collect_denials, tools,
};

/// Another workload, in the engine's own network.
struct OtherWorkload {
    place: IsolationFixture,
    running: RunningWorkload,
    /// The address of its container.
    address: String,
    /// The address of its proxy, by another address of this machine: the usual address is the container's own loopback.
    proxy: String,
    proxy_port: u16,
}

impl OtherWorkload {
    async fn start() -> Self {
        let place = IsolationFixture::new("second");
        let (running, ..) = Box::pin(start_and_collect_denials(place.workload(HTTP))).await;
        let address = docker(&[
            "inspect",
            "-f",
            "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}",
            &place.name,
        ]);
        let proxy = running.url().replace("127.0.0.1", "127.0.0.2");
        let proxy_port = proxy.rsplit(':').next().unwrap().trim_end_matches("/mcp").parse().unwrap();
        Self { place, running, address, proxy, proxy_port }
    }

    async fn end(self) {
        Box::pin(self.running.stop(Duration::from_secs(5))).await.unwrap();
        self.place.remove().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_reaches_what_its_profile_names_and_nothing_else() {
    Box::pin(profile_limits(IsolationFixture::new("limits"))).await;
}

pub(crate) async fn profile_limits(place: IsolationFixture) {
    let (name, address) = host_name_and_address();
    let tls = Tls::start(&place.path("probe"), &name, address);
    let port = tls.port;
    let listener = TcpListener::bind((address, 0)).unwrap();
    let closed = listener.local_addr().unwrap().port();
    let second = OtherWorkload::start().await;
    let allowed = format!("https://{name}:{port}/");
    let attempts = json!([
        ["proxied", allowed],
        ["direct", allowed],
        // A server that may connect to the address does not have to send a server name (SNI).
        ["sni", format!("{name}:{port}"), null],
        ["sni", format!("{name}:{port}"), "other.example"],
        ["proxied", "http://other.example/"],
        ["proxied", "https://other.example/"],
        ["direct", "https://other.example/"],
        ["lookup", "secret.other.example"],
        ["tcp", UNREACHABLE_ADDRESS, 443],
        ["udp", UNREACHABLE_ADDRESS, 9],
        ["udp", OTHER_RESOLVER, 53],
        ["proxied", format!("http://{name}:{closed}/")],
        ["proxied", "http://172.17.0.1/"],
        ["proxied", "http://host.docker.internal/"],
        ["proxied", "http://169.254.169.254/latest/meta-data/"],
        ["tcp", OTHER_RESOLVER, 53],
        ["tcp", address, closed],
        ["proxied", format!("http://{address}:{closed}/")],
        ["tcp", "172.17.0.1", 80],
        ["tcp", "169.254.169.254", 80],
        ["proxied", format!("http://{}:3000/mcp", second.address)],
        ["tcp", second.address, 3000],
        ["proxied", second.proxy],
        ["tcp", "127.0.0.2", second.proxy_port],
    ]);
    // The name alone is not enough, because it resolves to an address of this machine.
    let rules = [format!("{name}:{port}"), format!("{address}:{port}")];
    let profile = json!({"network": {"outbound": {"allow_host": rules}}});
    let builder =
        place.probe_workload(&attempts).set("permission-profile", &place.profile(&profile)).unwrap();
    let (running, refused, fixes) = start_and_collect_denials(builder).await;
    let results = place.results();
    assert_eq!(results[..3], [None, None, None], "an allowed host: {results:?}");
    assert!(results[3..].iter().all(Option::is_some), "{results:?}");
    assert!(results[3].as_ref().unwrap().contains("ACCESS_DENIED"), "{results:?}");
    let told = results[4].as_ref().unwrap();
    assert!(told.contains("403") && told.contains("`host-not-allowed`"), "{told}");
    assert!(told.contains("add `other.example:80` to `network.outbound.allow_host`"), "{told}");
    let expected = [
        denial(&name, port, "server-name-mismatch"),
        denial("other.example", 80, "host-not-allowed"),
        denial("other.example", 443, "host-not-allowed"),
        denial("other.example", None, "host-not-allowed"),
        denial("secret.other.example", None, "host-not-allowed"),
        denial(UNREACHABLE_ADDRESS, 443, "host-not-allowed"),
        denial(UNREACHABLE_ADDRESS, 9, "host-not-allowed"),
        denial(OTHER_RESOLVER, 53, "host-not-allowed"),
        denial(&name, closed, "port-not-allowed"),
        denial("172.17.0.1", 80, "runtime-gateway"),
        denial("host.docker.internal", 80, "runtime-gateway"),
        denial("169.254.169.254", 80, "host-not-allowed"),
        denial(&second.address, 3000, "host-not-allowed"),
        denial("127.0.0.2", second.proxy_port, "host-not-allowed"),
    ];
    // The machine's name may resolve to a loopback address, which in a container is the container itself.
    let by_address =
        (!address.is_loopback()).then(|| denial(&address.to_string(), closed, "port-not-allowed"));
    for one in expected.into_iter().chain(by_address) {
        assert!(refused.contains(&one), "{one:?} is not in {refused:?}");
    }
    assert!(fixes.iter().all(|fix| !fix.is_empty()), "{fixes:?}");
    assert!(tools(running.url()).await > 0);
    drop(listener);
    second.end().await;
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.remove().await;
    assert!(!place.path("state/workloads").join(&place.name).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn insecure_allow_all_excludes_the_host_and_its_networks() {
    Box::pin(everything_public(IsolationFixture::new("all"))).await;
}

pub(crate) async fn everything_public(place: IsolationFixture) {
    let second = OtherWorkload::start().await;
    let (name, address) = host_name_and_address();
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let attempts = json!([
        ["proxied", format!("http://{name}:{port}/")],
        ["proxied", format!("http://{}:3000/mcp", second.address)],
        ["proxied", second.proxy],
        ["proxied", "http://172.17.0.1/"],
        ["proxied", "http://gateway.docker.internal/"],
        ["direct", "http://host.docker.internal/"],
        ["proxied", "http://169.254.169.254/latest/meta-data/"],
        ["proxied", "http://0x7f.0.0.2:22/"],
        ["tcp", second.address, 3000],
        ["tcp", UNREACHABLE_ADDRESS, 443],
        ["udp", UNREACHABLE_ADDRESS, 9],
    ]);
    let (running, refused, _) =
        start_and_collect_denials(place.probe_workload(&attempts).isolate_network(true)).await;
    let results = place.results();
    assert!(results.iter().all(Option::is_some), "{results:?}");
    let own = if address.is_loopback() { "loopback-address" } else { "own-address" };
    let by_name = |(host, at, rule): &(String, Option<u16>, String)| {
        // The address may be a private one, too.
        *host == name && *at == Some(port) && (rule == own || rule == "private-address")
    };
    assert!(refused.iter().any(by_name), "{name}:{port} is not in {refused:?}");
    for one in [
        denial(&second.address, 3000, "private-address"),
        denial("127.0.0.2", second.proxy_port, "loopback-address"),
        denial("172.17.0.1", 80, "runtime-gateway"),
        denial("gateway.docker.internal", 80, "runtime-gateway"),
        denial("host.docker.internal", 80, "runtime-gateway"),
        denial("169.254.169.254", 80, "metadata-address"),
        denial("127.0.0.2", 22, "loopback-address"),
        denial(UNREACHABLE_ADDRESS, 443, "direct-connection"),
        denial(UNREACHABLE_ADDRESS, 9, "direct-connection"),
    ] {
        assert!(refused.contains(&one), "{one:?} is not in {refused:?}");
    }
    drop(listener);
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.remove().await;
    second.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_none_profile_has_no_network_and_reports_denials() {
    Box::pin(none(IsolationFixture::new("none"))).await;
}

pub(crate) async fn none(place: IsolationFixture) {
    let second = OtherWorkload::start().await;
    let (_, address) = host_name_and_address();
    let listener = TcpListener::bind((address, 0)).unwrap();
    let own = listener.local_addr().unwrap().port();
    let attempts = json!([
        ["proxied", "http://other.example/"],
        ["proxied", "https://other.example/"],
        ["lookup", "other.example"],
        ["tcp", UNREACHABLE_ADDRESS, 443],
        ["udp", OTHER_RESOLVER, 53],
        ["proxied", "http://172.17.0.1/"],
        ["proxied", "http://169.254.169.254/"],
        ["proxied", "http://127.0.0.2:22/"],
        ["tcp", OTHER_RESOLVER, 53],
        ["tcp", "172.17.0.1", 80],
        ["proxied", "http://host.docker.internal/"],
        ["tcp", "169.254.169.254", 80],
        ["tcp", address, own],
        ["proxied", format!("http://{address}:{own}/")],
        ["proxied", format!("http://{}:3000/mcp", second.address)],
        ["tcp", second.address, 3000],
        ["proxied", second.proxy],
    ]);
    let builder = place.probe_workload(&attempts).set("permission-profile", "none").unwrap();
    let (running, refused, _) = start_and_collect_denials(builder).await;
    let results = place.results();
    assert!(results.iter().all(Option::is_some), "{results:?}");
    let mut expected: DeniedConnections = [
        denial("other.example", 80, "no-network"),
        denial("other.example", 443, "no-network"),
        denial("other.example", None, "no-network"),
        denial(UNREACHABLE_ADDRESS, 443, "no-network"),
        denial(OTHER_RESOLVER, 53, "no-network"),
        denial("172.17.0.1", 80, "runtime-gateway"),
        denial("169.254.169.254", 80, "no-network"),
        denial("127.0.0.2", 22, "no-network"),
        denial("host.docker.internal", 80, "runtime-gateway"),
        denial(&second.address, 3000, "no-network"),
        denial("127.0.0.2", second.proxy_port, "no-network"),
    ]
    .into();
    // The machine's name may resolve to a loopback address, which in a container is the container itself.
    expected.extend((!address.is_loopback()).then(|| denial(&address.to_string(), own, "no-network")));
    assert_eq!(refused, expected);
    assert!(tools(running.url()).await > 0);
    second.end().await;
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_unaware_program_reaches_an_allowed_name() {
    Box::pin(proxy_unaware_program(IsolationFixture::new("node"))).await;
}

pub(crate) async fn proxy_unaware_program(place: IsolationFixture) {
    let (name, address) = host_name_and_address();
    let tls = Tls::start(&place.path("probe"), &name, address);
    let port = tls.port;
    let script = format!(
        "fetch('https://{name}:{port}/').then(r => r.text()).then(() => 'ok', e => String(e.cause ?? e))\
         .then(t => require('fs').writeFileSync('/out/node', t))"
    );
    std::fs::write(place.path("probe/fetch.js"), script).unwrap();
    let rules = [format!("{name}:{port}"), format!("{address}:{port}")];
    let profile = place.profile(&json!({"network": {"outbound": {"allow_host": rules}}}));
    let mut builder = place.workload(NODE);
    for (option, value) in [
        ("permission-profile", profile.as_str()),
        ("volume", &format!("{}:/probe:ro", place.path("probe").display())),
        ("volume", &format!("{}:/out", place.path("out").display())),
        ("env", "NODE_EXTRA_CA_CERTS=/probe/cert.pem"),
        ("transport", "stdio"),
        ("args", "sh"),
        ("args", "-c"),
        ("args", "node /probe/fetch.js && exec mcp-server-everything stdio"),
    ] {
        builder = builder.set(option, value).unwrap();
    }
    let (running, refused, _) = start_and_collect_denials(builder).await;
    assert_eq!(std::fs::read_to_string(place.path("out/node")).unwrap(), "ok");
    assert!(refused.is_empty(), "{refused:?}");
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.remove().await;
}
