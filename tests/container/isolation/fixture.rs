//! Provides a folder with the files that a test's workload sees, and a program that tries connections from inside.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader},
    net::{IpAddr, ToSocketAddrs as _},
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use mcpm::{
    Environment, RunningWorkload, Workload, WorkloadBuilder,
    image::store::ImageStore,
    workload::{WorkloadEvent, Workloads},
};
use rmcp::{ServiceExt as _, transport::StreamableHttpClientTransport};
use serde_json::Value;

pub(crate) const PYTHON: &str = "mcpm-test/python:1";
pub(crate) const NODE: &str = "mcpm-test/node:1";
pub(crate) const HTTP: &str = "mcpm-test/everything-http:1";
/// Addresses from the range for documentation, which no host has.
pub(crate) const UNREACHABLE_ADDRESS: &str = "198.51.100.7";
pub(crate) const OTHER_RESOLVER: &str = "198.51.100.53";

/// Tries the given connections and writes down the outcomes: nothing for success, otherwise the error.
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

/// A folder for state and for files that a container sees, with a name for the workload; all of it is removed at the
/// end.
pub(crate) struct IsolationFixture {
    root: tempfile::TempDir,
    pub(crate) name: String,
    /// The address of the engine, unless it is the default one.
    engine: Option<String>,
    is_builtin: bool,
}

impl IsolationFixture {
    pub(crate) fn new(what: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let root = tempfile::tempdir().unwrap();
        for folder in ["probe", "out"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        let name = format!("iso-{}-{what}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Self { root, name, engine: None, is_builtin: false }
    }

    /// Creates a fixture with the same engine at an address with which no socket can be shared.
    pub(crate) fn with_remote_engine(what: &str) -> Self {
        let mut place = Self::new(what);
        place.engine = Some(super::remote_engine::engine());
        place
    }

    /// Creates a fixture with the built-in runtime, and copies an image of the engine to its store.
    pub(crate) fn with_builtin_runtime(what: &str, image: &str) -> Self {
        let mut place = Self::new(what);
        place.is_builtin = true;
        let archive = place.path("image.tar");
        docker(&["save", "--output", archive.to_str().unwrap(), image]);
        let store = ImageStore::open(&place.environment().image_store_dir()).unwrap();
        store.load(&archive).unwrap();
        std::fs::remove_file(&archive).unwrap();
        place
    }

    pub(crate) fn path(&self, below: &str) -> std::path::PathBuf {
        self.root.path().join(below)
    }

    pub(crate) fn environment(&self) -> Environment {
        let mut environment = Environment { state_dir: self.path("state"), ..Environment::from_process() };
        if let Some(engine) = &self.engine {
            environment.engine.docker_host = Some(engine.clone());
        }
        if self.is_builtin {
            environment.cache_dir = self.path("cache");
        }
        environment
    }

    /// Returns a builder of a workload of this fixture.
    pub(crate) fn workload(&self, image: &str) -> WorkloadBuilder {
        let builder = Workload::builder(image).name(&self.name).environment(self.environment());
        if self.is_builtin { builder.set("runtime", "builtin").unwrap() } else { builder }
    }

    /// Returns a server that makes `attempts` before it serves.
    pub(crate) fn probe_workload(&self, attempts: &Value) -> WorkloadBuilder {
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

    pub(crate) fn profile(&self, profile: &Value) -> String {
        let path = self.path("profile.json");
        std::fs::write(&path, profile.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn results(&self) -> Vec<Option<String>> {
        serde_json::from_slice(&std::fs::read(self.path("out/results.json")).unwrap()).unwrap()
    }

    pub(crate) async fn remove(&self) {
        Workloads::new(self.environment()).remove(&self.name, Duration::ZERO).await.unwrap();
    }
}

impl Drop for IsolationFixture {
    /// Removes the leftovers of a test that failed; a test that passes has removed them.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let docker = |args: &[&str]| Command::new("docker").args(args).output();
        let filter = format!("name=^/?{}(\\.P[0-9]+)?$", self.name);
        let Ok(found) = docker(&["ps", "-aq", "--filter", &filter]) else { return };
        let found = String::from_utf8_lossy(&found.stdout);
        let remove: Vec<&str> = ["rm", "-fv"].into_iter().chain(found.split_whitespace()).collect();
        if remove.len() > 2 {
            let _ = docker(&remove);
        }
    }
}

/// Denied connections: host, port, rule.
pub(crate) type DeniedConnections = BTreeSet<(String, Option<u16>, String)>;

/// Starts a workload, and returns the connections that were denied until it was ready, with the changes that would have
/// allowed them.
pub(crate) async fn start_and_collect_denials(
    builder: WorkloadBuilder,
) -> (RunningWorkload, DeniedConnections, Vec<String>) {
    let workload = builder.build().unwrap();
    let mut events = workload.events();
    let running = workload.start().await.unwrap_or_else(|error| panic!("{error}"));
    let (mut refused, mut fixes) = (DeniedConnections::new(), Vec::new());
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
pub(crate) async fn tools(url: &str) -> usize {
    let client = ().serve(StreamableHttpClientTransport::from_uri(url)).await.unwrap();
    let tools = client.list_all_tools().await.unwrap();
    client.cancel().await.unwrap();
    tools.len()
}

pub(crate) fn denial(host: &str, port: impl Into<Option<u16>>, rule: &str) -> (String, Option<u16>, String) {
    (host.to_owned(), port.into(), rule.to_owned())
}

pub(crate) fn docker(args: &[&str]) -> String {
    let output = Command::new("docker").args(args).output().unwrap();
    assert!(output.status.success(), "docker {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Returns the name of this machine, and an address that the name resolves to.
pub(crate) fn host_name_and_address() -> (String, IpAddr) {
    let name = rustix::system::uname().nodename().to_str().unwrap().to_ascii_lowercase();
    let mut found = (name.as_str(), 0).to_socket_addrs().unwrap_or_else(|error| panic!("{name}: {error}"));
    let address = found.find(|found| found.is_ipv4()).unwrap_or_else(|| panic!("{name} has no IPv4 address"));
    (name, address.ip())
}

/// A TLS server on this machine, with a certificate for its name.
pub(crate) struct Tls {
    process: Child,
    pub(crate) port: u16,
}

impl Tls {
    pub(crate) fn start(folder: &Path, name: &str, address: IpAddr) -> Self {
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
            // For example `ACCEPT 127.0.1.1:43210`.
            let line = lines.next().unwrap().unwrap();
            if let Some(place) = line.strip_prefix("ACCEPT ") {
                break place.rsplit(':').next().unwrap().parse().unwrap();
            }
        };
        // The program writes more, and ends when its output is not read.
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
