//! What a server reaches: tried from inside, by programs that know of proxies and by programs that do not, and held
//! against the events that tell of it.

use std::{net::TcpListener, time::Duration};

use mcpm::RunningWorkload;
use serde_json::json;

use super::place::{
    HTTP, NOBODY, NODE, OTHER_RESOLVER, Place, Refused, Tls, docker, machine, refusal, started, tools,
};

/// Another workload, in the engine's own network.
struct Second {
    place: Place,
    running: RunningWorkload,
    /// Where its container is.
    address: String,
    /// Where its proxy listens, called by another of this machine's addresses: the usual one is the container's own.
    proxy: String,
    proxy_port: u16,
}

impl Second {
    async fn start() -> Self {
        let place = Place::new("second");
        let (running, ..) = Box::pin(started(place.workload(HTTP))).await;
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
        self.place.forget().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_reaches_what_its_profile_names_and_nothing_else() {
    Box::pin(limits(Place::new("limits"))).await;
}

pub(crate) async fn limits(place: Place) {
    let (name, address) = machine();
    let tls = Tls::start(&place.path("probe"), &name, address);
    let port = tls.port;
    let listener = TcpListener::bind((address, 0)).unwrap();
    let closed = listener.local_addr().unwrap().port();
    let second = Second::start().await;
    let allowed = format!("https://{name}:{port}/");
    let attempts = json!([
        ["proxied", allowed],
        ["direct", allowed],
        // Whoever may reach the address need not say a name.
        ["sni", format!("{name}:{port}"), null],
        ["sni", format!("{name}:{port}"), "other.example"],
        ["proxied", "http://other.example/"],
        ["proxied", "https://other.example/"],
        ["direct", "https://other.example/"],
        ["lookup", "secret.other.example"],
        ["tcp", NOBODY, 443],
        ["udp", NOBODY, 9],
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
    // The name alone would not do: it leads to this machine.
    let rules = [format!("{name}:{port}"), format!("{address}:{port}")];
    let profile = json!({"network": {"outbound": {"allow_host": rules}}});
    let builder = place.probing(&attempts).set("permission-profile", &place.profile(&profile)).unwrap();
    let (running, refused, fixes) = started(builder).await;
    let results = place.results();
    assert_eq!(results[..3], [None, None, None], "an allowed host: {results:?}");
    assert!(results[3..].iter().all(Option::is_some), "{results:?}");
    assert!(results[3].as_ref().unwrap().contains("ACCESS_DENIED"), "{results:?}");
    let told = results[4].as_ref().unwrap();
    assert!(told.contains("403") && told.contains("`host-not-allowed`"), "{told}");
    assert!(told.contains("add `other.example:80` to `network.outbound.allow_host`"), "{told}");
    let expected = [
        refusal(&name, port, "server-name-mismatch"),
        refusal("other.example", 80, "host-not-allowed"),
        refusal("other.example", 443, "host-not-allowed"),
        refusal("other.example", None, "host-not-allowed"),
        refusal("secret.other.example", None, "host-not-allowed"),
        refusal(NOBODY, 443, "host-not-allowed"),
        refusal(NOBODY, 9, "host-not-allowed"),
        refusal(OTHER_RESOLVER, 53, "host-not-allowed"),
        refusal(&name, closed, "port-not-allowed"),
        refusal("172.17.0.1", 80, "runtime-gateway"),
        refusal("host.docker.internal", 80, "runtime-gateway"),
        refusal("169.254.169.254", 80, "host-not-allowed"),
        refusal(&second.address, 3000, "host-not-allowed"),
        refusal("127.0.0.2", second.proxy_port, "host-not-allowed"),
    ];
    // A machine may call itself by its loopback, which in a container is the container's own.
    let by_address =
        (!address.is_loopback()).then(|| refusal(&address.to_string(), closed, "port-not-allowed"));
    for one in expected.into_iter().chain(by_address) {
        assert!(refused.contains(&one), "{one:?} is not in {refused:?}");
    }
    assert!(fixes.iter().all(|fix| !fix.is_empty()), "{fixes:?}");
    assert!(tools(running.url()).await > 0);
    drop(listener);
    second.end().await;
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.forget().await;
    assert!(!place.path("state/workloads").join(&place.name).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_public_is_neither_this_machine_nor_its_networks() {
    let second = Second::start().await;
    let place = Place::new("all");
    let (name, address) = machine();
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
        ["tcp", NOBODY, 443],
        ["udp", NOBODY, 9],
    ]);
    let (running, refused, _) = started(place.probing(&attempts).isolate_network(true)).await;
    let results = place.results();
    assert!(results.iter().all(Option::is_some), "{results:?}");
    let own = if address.is_loopback() { "loopback-address" } else { "own-address" };
    let by_name = |(host, at, rule): &(String, Option<u16>, String)| {
        // The address may be one of a private network as well.
        *host == name && *at == Some(port) && (rule == own || rule == "private-address")
    };
    assert!(refused.iter().any(by_name), "{name}:{port} is not in {refused:?}");
    for one in [
        refusal(&second.address, 3000, "private-address"),
        refusal("127.0.0.2", second.proxy_port, "loopback-address"),
        refusal("172.17.0.1", 80, "runtime-gateway"),
        refusal("gateway.docker.internal", 80, "runtime-gateway"),
        refusal("host.docker.internal", 80, "runtime-gateway"),
        refusal("169.254.169.254", 80, "metadata-address"),
        refusal("127.0.0.2", 22, "loopback-address"),
        refusal(NOBODY, 443, "direct-connection"),
        refusal(NOBODY, 9, "direct-connection"),
    ] {
        assert!(refused.contains(&one), "{one:?} is not in {refused:?}");
    }
    drop(listener);
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.forget().await;
    second.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn none_is_no_network_and_says_so() {
    Box::pin(none(Place::new("none"))).await;
}

pub(crate) async fn none(place: Place) {
    let second = Second::start().await;
    let (_, address) = machine();
    let listener = TcpListener::bind((address, 0)).unwrap();
    let own = listener.local_addr().unwrap().port();
    let attempts = json!([
        ["proxied", "http://other.example/"],
        ["proxied", "https://other.example/"],
        ["lookup", "other.example"],
        ["tcp", NOBODY, 443],
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
    let builder = place.probing(&attempts).set("permission-profile", "none").unwrap();
    let (running, refused, _) = started(builder).await;
    let results = place.results();
    assert!(results.iter().all(Option::is_some), "{results:?}");
    let mut expected: Refused = [
        refusal("other.example", 80, "no-network"),
        refusal("other.example", 443, "no-network"),
        refusal("other.example", None, "no-network"),
        refusal(NOBODY, 443, "no-network"),
        refusal(OTHER_RESOLVER, 53, "no-network"),
        refusal("172.17.0.1", 80, "runtime-gateway"),
        refusal("169.254.169.254", 80, "no-network"),
        refusal("127.0.0.2", 22, "no-network"),
        refusal("host.docker.internal", 80, "runtime-gateway"),
        refusal(&second.address, 3000, "no-network"),
        refusal("127.0.0.2", second.proxy_port, "no-network"),
    ]
    .into();
    // A machine may call itself by its loopback, which in a container is the container's own.
    expected.extend((!address.is_loopback()).then(|| refusal(&address.to_string(), own, "no-network")));
    assert_eq!(refused, expected);
    assert!(tools(running.url()).await > 0);
    second.end().await;
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.forget().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ignores_proxies_reaches_an_allowed_name() {
    Box::pin(unaware(Place::new("node"))).await;
}

pub(crate) async fn unaware(place: Place) {
    let (name, address) = machine();
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
    let (running, refused, _) = started(builder).await;
    assert_eq!(std::fs::read_to_string(place.path("out/node")).unwrap(), "ok");
    assert!(refused.is_empty(), "{refused:?}");
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.forget().await;
}
