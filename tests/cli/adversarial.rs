//! Tests a well-behaved client beside a hostile client, a hostile server and a caller without a token.

use std::{
    fs,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use mcpm_tests::harness::{
    http::{Http, Request},
    mcp::{LEGACY, initialize, notification, request, tool},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    runtime::Runtime,
};

use super::{
    protected_workload::provider,
    support::{Home, Outcome, docker},
};

/// Maximum memory beyond that of the idle proxy.
const MAX_RESIDENT_BYTES: u64 = 128 << 20;
/// Maximum memory for a moment, while a growing buffer is copied.
const MAX_PEAK: u64 = 192 << 20;
/// Minimum number of answered calls of the well-behaved client, while the others keep the processors busy.
const MIN_CALLS: usize = 5;
/// The processes of a server, plus one that replaces another.
const MAX_CONTAINERS: usize = 9;

/// A server that answers `echo`, and misbehaves at any other call.
const SERVER: &str = r#"
import json, sys, threading
lock = threading.Lock()
def say(text):
    with lock:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
def result(id, value):
    say(json.dumps({"jsonrpc": "2.0", "id": id, "result": value}))
def ask(id, method):
    say(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": {}}))
def act(id, name):
    if name == "big":
        result(id, {"content": [{"type": "text", "text": "x" * (20 << 20)}]})
    elif name == "longer":
        result(id, {"content": [{"type": "text", "text": "x" * (40 << 20)}]})
    elif name == "asks":
        for number in range(300):
            ask(str(number) + "x" * 1000, "sampling/createMessage")
        for number in range(5):
            ask(str(number) + "x" * (4 << 20), "sampling/createMessage")
        result(id, {"content": []})
    elif name == "talks":
        for number in range(200):
            say(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * (256 << 10)}}))
        for number in range(2000):
            ask(number, "ping")
        result(id, {"content": []})
    elif name == "junk":
        # Each small notification comes in the buffer of a large line.
        for number in range(5):
            say("x" * (16 << 20))
            say(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
        result(id, {"content": []})
    elif name == "ends":
        sys.exit(3)
    elif name != "never":
        result(id, {"content": [{"type": "text", "text": "echo"}]})
for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if id is None or method is None:
        continue
    if method == "initialize":
        result(id, {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "hostile", "version": "1"}})
    elif method == "tools/call":
        act(id, message["params"]["name"])
    elif method == "tools/list":
        result(id, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
    elif method == "server/discover":
        say(json.dumps({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}}))
    else:
        result(id, {})
"#;

/// Sends a request and reads the beginning of the response; every outcome is accepted.
async fn send_ignoring_errors(request: Request, to: SocketAddr, read: usize) -> Option<Vec<u8>> {
    let exchange = async {
        let mut stream = TcpStream::connect(to).await.ok()?;
        stream.write_all(&request.bytes()).await.ok()?;
        let mut answer = vec![0; read];
        let mut length = 0;
        while length < read && !answer[..length].windows(4).any(|window| window == b"\r\n\r\n") {
            match stream.read(&mut answer[length..]).await.ok()? {
                0 => break,
                more => length += more,
            }
        }
        answer.truncate(length);
        Some(answer)
    };
    tokio::time::timeout(Duration::from_secs(5), exchange).await.ok().flatten()
}

/// An attacker with their own token.
struct Attacker {
    http: Http,
}

impl Attacker {
    fn post(&self, body: &Value) -> Request {
        self.http.post("/mcp", body.to_string()).header("Authorization", "Bearer bob")
    }

    async fn session(&self, version: &str, capabilities: Value) -> Option<String> {
        let answer =
            send_ignoring_errors(self.post(&initialize(version, capabilities)), self.http.0, 4096).await?;
        let head = String::from_utf8(answer).ok()?.to_ascii_lowercase();
        let (_, rest) = head.split_once("mcp-session-id: ")?;
        rest.split_once("\r\n").map(|(id, _)| id.to_owned())
    }

    async fn attack(&self, round: usize) {
        let (to, large) = (self.http.0, "x".repeat(8 << 20));
        match round % 10 {
            // Disconnects during handshakes that no other client makes.
            0 => {
                let unlike = json!({ "experimental": { round.to_string(): {} } });
                drop(send_ignoring_errors(self.post(&initialize(LEGACY, unlike)), to, 0).await);
            }
            1 => drop(
                send_ignoring_errors(self.post(&initialize(LEGACY, json!({ "x": large }))), to, 4096).await,
            ),
            kind => {
                let version = if kind == 8 { "2025-03-26" } else { LEGACY };
                let Some(id) = self.session(version, json!({ "sampling": {} })).await else { return };
                let marked = |body: &Value| self.post(body).header("Mcp-Session-Id", &id);
                let call = |name: &str| marked(&request(1, "tools/call", tool(name, json!({}))));
                match kind {
                    // Disconnects from streams with large responses.
                    2 => drop(send_ignoring_errors(call("big"), to, 1024).await),
                    3 => drop(send_ignoring_errors(call("longer"), to, 1024).await),
                    4 => drop(send_ignoring_errors(call("asks"), to, 1024).await),
                    5 => drop(send_ignoring_errors(call("talks"), to, 1024).await),
                    6 => {
                        let note = notification("notifications/x", json!({ "x": large }));
                        drop(send_ignoring_errors(marked(&note), to, 1024).await);
                    }
                    7 => drop(send_ignoring_errors(call("junk"), to, 1024).await),
                    8 => {
                        let calls = (0..20).map(|id| request(id, "tools/call", tool("big", json!({}))));
                        drop(send_ignoring_errors(marked(&calls.collect()), to, 1024).await);
                    }
                    _ => drop(send_ignoring_errors(call("ends"), to, 1024).await),
                }
            }
        }
    }
}

/// The memory of a process: the current size (`VmRSS`), or the maximum so far (`VmHWM`).
fn memory(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() << 10
}

#[test]
fn one_client_is_served_while_others_and_the_server_are_hostile() {
    let home = Home::new();
    let runtime = Runtime::new().unwrap();
    let introspection = provider(&runtime);
    let script = home.write("server.py", SERVER);
    let name = home.name("pressure");
    // Without a rate limit, the denials of callers without a token would fill these log files several times over.
    let audit = home.write("audit.json", r#"{"rotateSize": 4194304, "rotateCount": 2}"#);
    let volume = format!("{script}:/server.py:ro");
    let run = [
        "run",
        "mcpm-test/python:1",
        "--name",
        &name,
        "--audit-config",
        &audit,
        "--volume",
        &volume,
        "--oidc-introspection-url",
        &introspection,
        "--oidc-client-id",
        "me",
        "--oidc-audience",
        "team",
        "--jwks-allow-private-ip",
        "--",
        "python3",
        "/server.py",
    ];
    let mut command = home.mcpm(&run);
    let outcome = Outcome::of(command.env("MCPM_OIDC_CLIENT_SECRET", "other").output().unwrap()).succeeded();
    let url = outcome.url();
    let address = url.trim_start_matches("http://").trim_end_matches("/mcp").parse().unwrap();
    let pid = home.supervisor(&name);
    let begin = memory(pid, "VmRSS");
    let is_nightly = std::env::var_os("MCPM_NIGHTLY").is_some();
    let lasts = Duration::from_secs(if is_nightly { 60 } else { 15 });

    let over = Arc::new(AtomicBool::new(false));
    let calls = Arc::new(AtomicUsize::new(0));
    let (mut most_held, mut most_containers) = (0, 0);
    runtime.block_on(async {
        let mut attackers = Vec::new();
        for attacker in 0..8 {
            let over = Arc::clone(&over);
            attackers.push(tokio::spawn(async move {
                let hostile = Attacker { http: Http(address) };
                let mut round = attacker;
                while !over.load(Ordering::Relaxed) {
                    hostile.attack(round).await;
                    round += 3;
                }
            }));
        }
        for stranger in 0..4 {
            let over = Arc::clone(&over);
            attackers.push(tokio::spawn(async move {
                let http = Http(address);
                while !over.load(Ordering::Relaxed) {
                    let junk = http
                        .post("/mcp", initialize(LEGACY, json!({ "x": "x".repeat(1 << 20) })).to_string());
                    let junk = match stranger {
                        0 => junk,
                        1 => junk.header("Authorization", &format!("Bearer {}", "y".repeat(15 << 10))),
                        2 => junk.header("Origin", &"=".repeat(60 << 10)),
                        _ => junk.header("Authorization", "Bearer a.b.c"),
                    };
                    drop(send_ignoring_errors(junk, http.0, 1024).await);
                }
            }));
        }
        let client = tokio::spawn({
            let (over, calls) = (Arc::clone(&over), Arc::clone(&calls));
            async move {
                let http = Http(address);
                let post =
                    |body: &Value| http.post("/mcp", body.to_string()).header("Authorization", "Bearer ann");
                let opened = post(&initialize(LEGACY, json!({}))).send().await;
                let id = opened.headers.get("mcp-session-id").unwrap().to_owned();
                while !over.load(Ordering::Relaxed) {
                    let number = calls.load(Ordering::Relaxed);
                    let call = request(number, "tools/call", tool("echo", json!({})));
                    let response = post(&call).header("Mcp-Session-Id", &id).send().await;
                    assert_eq!(response.status, 200, "call {number}");
                    let answer = response.answer().await;
                    assert_eq!(answer["id"], number, "{answer}");
                    assert!(answer.get("result").is_some(), "{answer}");
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        let end = Instant::now() + lasts;
        let mut ticks = tokio::time::interval(Duration::from_millis(100));
        while Instant::now() < end && !client.is_finished() {
            ticks.tick().await;
            most_held = most_held.max(memory(pid, "VmRSS").saturating_sub(begin));
            let listed = tokio::task::spawn_blocking({
                let filter = format!("name={name}");
                move || docker(&["ps", "--all", "--quiet", "--filter", &filter]).lines().count()
            });
            most_containers = most_containers.max(listed.await.unwrap());
        }
        over.store(true, Ordering::Relaxed);
        client.await.unwrap();
        for attacker in attackers {
            attacker.await.unwrap();
        }
    });
    let calls = calls.load(Ordering::Relaxed);
    let peak = memory(pid, "VmHWM").saturating_sub(begin);
    println!("{calls} calls, {} MiB, peak {} MiB, {most_containers} containers", most_held >> 20, peak >> 20);
    assert!(calls >= MIN_CALLS, "{calls} calls were answered");
    assert!(
        most_held <= MAX_RESIDENT_BYTES,
        "{} MiB were held beyond the first {} MiB",
        most_held >> 20,
        begin >> 20
    );
    assert!(peak <= MAX_PEAK, "{} MiB were held for a moment", peak >> 20);
    assert!(most_containers <= MAX_CONTAINERS, "{most_containers} containers");

    home.run(&["stop", &name]).succeeded();
    let mut events = Vec::new();
    for entry in fs::read_dir(home.record_dir(&name)).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().is_some_and(|file| file.to_string_lossy().starts_with("audit")) {
            let text = fs::read_to_string(path).unwrap();
            events.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
    }
    let of_ann = events.iter().filter(|event| {
        event["type"] == "mcp_tool_call"
            && (event["subjects"]["user_id"] == "ann" || event["subjects"]["user"] == "ann")
    });
    assert_eq!(of_ann.count(), calls, "calls of the client that means well, in the audit log");
    home.run(&["rm", &name]).succeeded();
    home.assert_nothing_left();
}
