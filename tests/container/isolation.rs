//! What isolated servers reach: tried from inside, by programs that know of proxies and by programs that do not,
//! and held against the events that tell of it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader},
    net::{IpAddr, TcpListener, ToSocketAddrs as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use mcpm::{
    Environment, RunningWorkload, Workload, WorkloadBuilder,
    workload::{WorkloadEvent, Workloads},
};
use rmcp::{ServiceExt as _, transport::StreamableHttpClientTransport};
use serde_json::{Value, json};

mod left_behind;

const PYTHON: &str = "mcpm-test/python:1";
const NODE: &str = "mcpm-test/node:1";
const HTTP: &str = "mcpm-test/everything-http:1";
/// Addresses for documentation, which nobody has.
const NOBODY: &str = "198.51.100.7";
const OTHER_RESOLVER: &str = "198.51.100.53";

/// Tries what it is told and writes down how it went: nothing for success, else the error.
const PROBE: &str = r#"
import json, os, socket, ssl, sys, urllib.request

context = ssl.create_default_context()
if os.path.exists("/probe/cert.pem"):
    context.load_verify_locations("/probe/cert.pem")

def fetch(url, proxies):
    handlers = [urllib.request.HTTPSHandler(context=context)]
    if not proxies:
        handlers.append(urllib.request.ProxyHandler({}))
    try:
        urllib.request.build_opener(*handlers).open(url, timeout=20).read()
    except urllib.error.HTTPError as error:
        raise Exception(f"{error.code} {error.read().decode()}")

def sni(target, name):
    proxy = socket.create_connection(("127.0.0.1", 3128), 20)
    proxy.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    assert b" 200 " in proxy.recv(1024)
    other = ssl.create_default_context()
    other.check_hostname = False
    other.verify_mode = ssl.CERT_NONE
    other.wrap_socket(proxy, server_hostname=name)

def attempt(kind, *rest):
    if kind == "proxied": fetch(rest[0], True)
    elif kind == "direct": fetch(rest[0], False)
    elif kind == "lookup": socket.getaddrinfo(rest[0], 80)
    elif kind == "tcp": socket.create_connection((rest[0], rest[1]), 20).close()
    elif kind == "udp": socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"\0" * 17, (rest[0], rest[1]))
    elif kind == "sni": sni(*rest)

results = []
for one in json.load(open("/probe/attempts.json")):
    try:
        attempt(*one)
        results.append(None)
    except Exception as error:
        results.append(f"{type(error).__name__}: {error}")
json.dump(results, open("/out/results.json", "w"))
"#;

/// A place for state and for files that a container sees, with a name for the workload; all of it goes with it.
struct Place {
    root: tempfile::TempDir,
    name: String,
}

impl Place {
    fn new(what: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let root = tempfile::tempdir().unwrap();
        for folder in ["probe", "out"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        let name = format!("iso-{}-{what}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Self { root, name }
    }

    fn path(&self, below: &str) -> std::path::PathBuf {
        self.root.path().join(below)
    }

    fn environment(&self) -> Environment {
        Environment { state_dir: self.path("state"), ..Environment::from_process() }
    }

    /// A workload of this place.
    fn workload(&self, image: &str) -> WorkloadBuilder {
        Workload::builder(image).name(&self.name).environment(self.environment())
    }

    /// A server that does `attempts` before it serves.
    fn probing(&self, attempts: &Value) -> WorkloadBuilder {
        std::fs::write(self.path("probe/probe.py"), PROBE).unwrap();
        std::fs::write(self.path("probe/attempts.json"), attempts.to_string()).unwrap();
        let volume = |folder: &str| format!("{}:/{folder}", self.path(folder).display());
        self.workload(PYTHON)
            .set("volume", &volume("probe"))
            .and_then(|builder| builder.set("volume", &volume("out")))
            .and_then(|builder| builder.set("args", "sh"))
            .and_then(|builder| builder.set("args", "-c"))
            .and_then(|builder| builder.set("args", "python3 /probe/probe.py && exec mcp-server-time"))
            .unwrap()
    }

    fn profile(&self, profile: &Value) -> String {
        let path = self.path("profile.json");
        std::fs::write(&path, profile.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn results(&self) -> Vec<Option<String>> {
        serde_json::from_slice(&std::fs::read(self.path("out/results.json")).unwrap()).unwrap()
    }

    async fn forget(&self) {
        Workloads::new(self.environment()).remove(&self.name, Duration::ZERO).await.unwrap();
    }
}

/// Refused connections: host, port, rule.
type Refused = BTreeSet<(String, Option<u16>, String)>;

/// Starts a workload; what was refused until it was ready, with the changes that would have allowed it.
async fn started(builder: WorkloadBuilder) -> (RunningWorkload, Refused, Vec<String>) {
    let workload = builder.build().unwrap();
    let mut events = workload.events();
    let running = workload.start().await.unwrap_or_else(|error| panic!("{error}"));
    let (mut refused, mut fixes) = (Refused::new(), Vec::new());
    loop {
        match events.next().await.unwrap() {
            WorkloadEvent::Ready { .. } => return (running, refused, fixes),
            WorkloadEvent::ConnectionRefused { host, port, rule, fix, .. } => {
                refused.insert((host, port, rule));
                fixes.push(fix);
            }
            _ => {}
        }
    }
}

/// A client that uses the server until it has listed its tools.
async fn tools(url: &str) -> usize {
    let client = ().serve(StreamableHttpClientTransport::from_uri(url)).await.unwrap();
    let tools = client.list_all_tools().await.unwrap();
    client.cancel().await.unwrap();
    tools.len()
}

fn refusal(host: &str, port: impl Into<Option<u16>>, rule: &str) -> (String, Option<u16>, String) {
    (host.to_owned(), port.into(), rule.to_owned())
}

fn docker(args: &[&str]) -> String {
    let output = Command::new("docker").args(args).output().unwrap();
    assert!(output.status.success(), "docker {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// This machine by its name, and an address of it that the name has.
fn machine() -> (String, IpAddr) {
    let name = rustix::system::uname().nodename().to_str().unwrap().to_ascii_lowercase();
    let mut found = (name.as_str(), 0).to_socket_addrs().unwrap_or_else(|error| panic!("{name}: {error}"));
    let address = found.find(|found| found.is_ipv4()).unwrap_or_else(|| panic!("{name} has no IPv4 address"));
    (name, address.ip())
}

/// A TLS server of this machine, with a certificate for its name.
struct Tls {
    process: Child,
    port: u16,
}

impl Tls {
    fn start(folder: &Path, name: &str, address: IpAddr) -> Self {
        let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
            .args(["-days", "2", "-subj", "/CN=test", "-addext", &format!("subjectAltName=DNS:{name}")])
            .arg("-out")
            .arg(&cert)
            .arg("-keyout")
            .arg(&key)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut process = Command::new("openssl")
            .args(["s_server", "-www", "-accept", &format!("{address}:0"), "-cert"])
            .arg(cert)
            .arg("-key")
            .arg(key)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = loop {
            // `ACCEPT 127.0.1.1:43210`
            let line = lines.next().unwrap().unwrap();
            if let Some(place) = line.strip_prefix("ACCEPT ") {
                break place.rsplit(':').next().unwrap().parse().unwrap();
            }
        };
        // It writes more, and ends when nobody reads.
        std::thread::spawn(move || lines.count());
        Self { process, port }
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_reaches_what_its_profile_names_and_nothing_else() {
    let place = Place::new("limits");
    let (name, address) = machine();
    let tls = Tls::start(&place.path("probe"), &name, address);
    let port = tls.port;
    let listener = TcpListener::bind((address, 0)).unwrap();
    let closed = listener.local_addr().unwrap().port();
    let allowed = format!("https://{name}:{port}/");
    let attempts = json!([
        ["proxied", allowed],
        ["direct", allowed],
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
    ]);
    // The name alone would not do: it leads to this machine.
    let rules = [format!("{name}:{port}"), format!("{address}:{port}")];
    let profile = json!({"network": {"outbound": {"allow_host": rules}}});
    let builder = place.probing(&attempts).set("permission-profile", &place.profile(&profile)).unwrap();
    let (running, refused, fixes) = started(builder).await;
    let results = place.results();
    assert_eq!(results[..2], [None, None], "an allowed host: {results:?}");
    assert!(results[2..].iter().all(Option::is_some), "{results:?}");
    assert!(results[2].as_ref().unwrap().contains("ACCESS_DENIED"), "{results:?}");
    let told = results[3].as_ref().unwrap();
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
    ];
    for one in expected {
        assert!(refused.contains(&one), "{one:?} is not in {refused:?}");
    }
    assert!(fixes.iter().all(|fix| !fix.is_empty()), "{fixes:?}");
    assert!(tools(running.url()).await > 0);
    drop(listener);
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.forget().await;
    assert!(!place.path("state/workloads").join(&place.name).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_public_is_neither_this_machine_nor_its_networks() {
    let second = Place::new("second");
    let (other, ..) = started(second.workload(HTTP)).await;
    let other_address =
        docker(&["inspect", "-f", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", &second.name]);
    let place = Place::new("all");
    let (name, address) = machine();
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let other_proxy = other.url().replace("127.0.0.1", "127.0.0.2");
    let other_port = other_proxy.rsplit(':').next().unwrap().trim_end_matches("/mcp").parse::<u16>().unwrap();
    let attempts = json!([
        ["proxied", format!("http://{name}:{port}/")],
        ["proxied", format!("http://{other_address}:3000/mcp")],
        ["proxied", other_proxy],
        ["proxied", "http://172.17.0.1/"],
        ["proxied", "http://gateway.docker.internal/"],
        ["direct", "http://host.docker.internal/"],
        ["proxied", "http://169.254.169.254/latest/meta-data/"],
        ["proxied", "http://0x7f.0.0.2:22/"],
        ["tcp", other_address, 3000],
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
        refusal(&other_address, 3000, "private-address"),
        refusal("127.0.0.2", other_port, "loopback-address"),
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
    other.stop(Duration::from_secs(5)).await.unwrap();
    second.forget().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn none_is_no_network_and_says_so() {
    let place = Place::new("none");
    let attempts = json!([
        ["proxied", "http://other.example/"],
        ["proxied", "https://other.example/"],
        ["lookup", "other.example"],
        ["tcp", NOBODY, 443],
        ["udp", OTHER_RESOLVER, 53],
        ["proxied", "http://172.17.0.1/"],
        ["proxied", "http://169.254.169.254/"],
        ["proxied", "http://127.0.0.2:22/"],
    ]);
    let builder = place.probing(&attempts).set("permission-profile", "none").unwrap();
    let (running, refused, _) = started(builder).await;
    let results = place.results();
    assert!(results.iter().all(Option::is_some), "{results:?}");
    let expected: Refused = [
        refusal("other.example", 80, "no-network"),
        refusal("other.example", 443, "no-network"),
        refusal("other.example", None, "no-network"),
        refusal(NOBODY, 443, "no-network"),
        refusal(OTHER_RESOLVER, 53, "no-network"),
        refusal("172.17.0.1", 80, "runtime-gateway"),
        refusal("169.254.169.254", 80, "no-network"),
        refusal("127.0.0.2", 22, "no-network"),
    ]
    .into();
    assert_eq!(refused, expected);
    assert!(tools(running.url()).await > 0);
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.forget().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_speaks_http_is_reached_without_a_network_and_after_a_restart() {
    let place = Place::new("http");
    let builder = place.workload(HTTP).set("permission-profile", "none").unwrap();
    let workload = builder.build().unwrap();
    let mut events = workload.events();
    let running = workload.start().await.unwrap();
    let mode = docker(&[
        "inspect",
        "-f",
        "{{.HostConfig.NetworkMode}} {{json .NetworkSettings.Ports}}",
        &place.name,
    ]);
    assert_eq!(mode, "none {}");
    assert!(tools(running.url()).await > 0);
    docker(&["kill", &place.name]);
    while !matches!(events.next().await.unwrap(), WorkloadEvent::Recovered {}) {}
    assert!(tools(running.url()).await > 0);
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.forget().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ignores_proxies_reaches_an_allowed_name() {
    let place = Place::new("node");
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

#[tokio::test(flavor = "multi_thread")]
async fn variables_of_an_isolated_server_are_not_in_the_engine() {
    let place = Place::new("env");
    let check = "test \"$CANARY\" = feathers-0815 && exec mcp-server-time";
    let mut builder = place.workload(PYTHON).isolate_network(true);
    for (option, value) in [("env", "CANARY=feathers-0815"), ("args", "sh"), ("args", "-c"), ("args", check)]
    {
        builder = builder.set(option, value).unwrap();
    }
    let (running, ..) = started(builder).await;
    let described = docker(&["inspect", &place.name]);
    // The command is in mcpm's hands, too.
    assert!(!described.contains("feathers-0815") && !described.contains("CANARY"), "{described}");
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.forget().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_learnt_allows_what_was_used_and_no_more() {
    let place = Place::new("learn");
    let (name, address) = machine();
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let attempts = json!([["proxied", format!("http://{name}:{port}/")]]);
    let learnt = place.path("learnt.json");
    let builder = place.probing(&attempts).set("learn", learnt.to_str().unwrap()).unwrap();
    let (running, refused, _) = started(builder).await;
    // Even then this machine is out of reach, so nothing was used.
    assert_eq!(refused.len(), 1, "{refused:?}");
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.forget().await;
    let profile = mcpm::permission::Profile::read(&learnt).unwrap();
    assert!(profile.outbound.is_nothing(), "{profile:?}");
    let targets: Vec<_> = profile.mounts.iter().map(|mount| mount.target.clone().unwrap()).collect();
    assert_eq!(targets, ["/probe", "/out"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_bounds_memory_processes_and_what_can_be_written() {
    let place = Place::new("bounds");
    let profile = json!({
        "network": {"outbound": {"insecure_allow_all": true}},
        "resources": {"memory": "256m", "cpus": 0.5, "pids": 77},
        "read_only_root": true,
        "tmpfs": ["/scratch:1m"],
    });
    let script = "! touch /here && touch /scratch/there && exec mcp-server-time";
    let mut builder = place.workload(PYTHON);
    for (option, value) in [
        ("permission-profile", place.profile(&profile).as_str()),
        ("args", "sh"),
        ("args", "-c"),
        ("args", script),
    ] {
        builder = builder.set(option, value).unwrap();
    }
    let (running, ..) = started(builder).await;
    let found = docker(&["inspect", "-f", "{{json .HostConfig}}", &place.name]);
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["Memory"], 256 * 1024 * 1024);
    assert_eq!(found["NanoCpus"], 500_000_000);
    assert_eq!((&found["PidsLimit"], &found["ReadonlyRootfs"]), (&json!(77), &json!(true)));
    assert_eq!(found["OomScoreAdj"], 500);
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.forget().await;
}
