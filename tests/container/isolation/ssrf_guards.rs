//! Tests servers and libraries that reject connections to addresses that are not public, a usual defense against
//! server-side request forgery (SSRF). Allowed hosts pass these checks, with and without the proxy variables.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{IpAddr, TcpListener},
    path::Path,
    process::Command,
    time::Duration,
};

use futures_util::TryStreamExt as _;
use mcpm::WorkloadBuilder;
use rmcp::{ServiceExt as _, model::CallToolRequestParams, transport::StreamableHttpClientTransport};
use serde_json::json;

use super::fixture::{IsolationFixture, NODE, PYTHON, host_name_and_address, start_and_collect_denials};

const PAGE: &str = "a page behind an allowed name";
/// Makes programs connect directly, without the proxy.
pub(crate) const WITHOUT_PROXY: &str =
    "unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy; exec \"$@\"";

/// Starts a website with one page on this machine, and returns its port.
fn website(address: IpAddr) -> u16 {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{PAGE}",
        PAGE.len()
    );
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let head = BufReader::new(client.try_clone().unwrap());
            head.lines().map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
            let _ = client.write_all(answer.as_bytes());
        }
    });
    port
}

/// A workload that may connect to that website, and runs `command` in a shell.
fn allowed(place: &IsolationFixture, image: &str, port: u16, command: &[&str]) -> WorkloadBuilder {
    let (name, address) = host_name_and_address();
    let rules = [format!("{name}:{port}"), format!("{address}:{port}")];
    let profile = place.profile(&json!({"network": {"outbound": {"allow_host": rules}}}));
    let volume = |folder: &str| format!("{}:/{folder}", place.path(folder).display());
    let options = [
        ("permission-profile", profile),
        ("volume", volume("probe")),
        ("volume", volume("out")),
        ("transport", "stdio".to_owned()),
    ];
    let args = command.iter().map(|word| ("args", (*word).to_owned()));
    options
        .into_iter()
        .chain(args)
        .fold(place.workload(image), |builder, (option, value)| builder.set(option, &value).unwrap())
}

/// Calls the tool `fetch` of the fetch server from PyPI, which resolves the name and rejects addresses that are not
/// public before it connects.
pub(crate) async fn fetch(place: IsolationFixture, command: &[&str]) {
    let (name, address) = host_name_and_address();
    let port = website(address);
    let (running, ..) = start_and_collect_denials(allowed(&place, PYTHON, port, command)).await;
    let client = ().serve(StreamableHttpClientTransport::from_uri(running.url())).await.unwrap();
    let arguments = json!({"url": format!("http://{name}:{port}/page"), "raw": true});
    let arguments = arguments.as_object().unwrap().clone();
    let asked = CallToolRequestParams::new("fetch").with_arguments(arguments);
    let answer = serde_json::to_string(&client.call_tool(asked).await.unwrap()).unwrap();
    assert!(answer.contains(PAGE), "{answer}");
    client.cancel().await.unwrap();
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fetch_server_reaches_an_allowed_host_over_the_proxy() {
    Box::pin(fetch(IsolationFixture::new("fetch"), &["mcp-server-fetch"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fetch_server_reaches_an_allowed_host_without_the_proxy() {
    let command = ["sh", "-c", WITHOUT_PROXY, "sh", "mcp-server-fetch"];
    Box::pin(fetch(IsolationFixture::new("fetch-direct"), &command)).await;
}

/// Resolves a name, and checks all addresses and the address of the connection with `ipaddr.js`, which Node's guards
/// use.
const NODE_GUARD: &str = r#"
const [, , url, out] = process.argv;
const http = require('http'), dns = require('dns'), fs = require('fs');
const ipaddr = require('/usr/local/lib/node_modules/ipaddr.js');
const lookup = (host, options, done) => dns.lookup(host, { ...options, all: true }, (error, found) => {
  const bad = error ?? found?.filter(({ address }) => ipaddr.process(address).range() !== 'unicast')[0];
  if (bad) return done(new Error(`refused: ${JSON.stringify(bad.address ?? bad)}`));
  options.all ? done(null, found) : done(null, found[0].address, found[0].family);
});
const end = (text) => fs.writeFileSync(out, text);
http.get(url, { lookup }, (answer) => {
  let text = '';
  answer.on('data', (piece) => (text += piece)).on('end', () => end(text));
}).on('error', (error) => end(String(error)));
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_in_node_lets_a_direct_connection_to_an_allowed_host_pass() {
    Box::pin(guard_in_node(IsolationFixture::new("guard-node"))).await;
}

pub(crate) async fn guard_in_node(place: IsolationFixture) {
    let (name, address) = host_name_and_address();
    let port = website(address);
    std::fs::write(place.path("probe/guard.js"), NODE_GUARD).unwrap();
    let script =
        format!("node /probe/guard.js http://{name}:{port}/ /out/result && exec mcp-server-everything stdio");
    Box::pin(passes(place, NODE, port, &script)).await;
}

/// Checks the address of each connection right before connecting, as guards in Go do.
const GO_GUARD: &str = r#"package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"syscall"
)

func main() {
	dialer := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		at := netip.MustParseAddrPort(address).Addr()
		if !at.IsGlobalUnicast() || at.IsPrivate() {
			return fmt.Errorf("refused: %s", at)
		}
		return nil
	}}
	client := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
	text := ""
	if answer, err := client.Get(os.Args[1]); err != nil {
		text = err.Error()
	} else if body, err := io.ReadAll(answer.Body); err != nil {
		text = err.Error()
	} else {
		text = string(body)
	}
	if err := os.WriteFile(os.Args[2], []byte(text), 0o644); err != nil {
		panic(err)
	}
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_in_go_lets_a_direct_connection_to_an_allowed_host_pass() {
    Box::pin(guard_in_go(IsolationFixture::new("guard-go"))).await;
}

pub(crate) async fn guard_in_go(place: IsolationFixture) {
    let (name, address) = host_name_and_address();
    let port = website(address);
    std::fs::write(place.path("guard.go"), GO_GUARD).unwrap();
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(place.path("probe/guard"))
        .arg(place.path("guard.go"))
        .env("CGO_ENABLED", "0")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let script =
        format!("/probe/guard http://{name}:{port}/ /out/result && exec mcp-server-everything stdio");
    Box::pin(passes(place, NODE, port, &script)).await;
}

/// Runs a script that writes the page to `/out/result`, and then serves.
async fn passes(place: IsolationFixture, image: &str, port: u16, script: &str) {
    let (running, refused, _) =
        start_and_collect_denials(allowed(&place, image, port, &["sh", "-c", script])).await;
    let result = read(&place.path("out/result"));
    assert_eq!(result, PAGE);
    assert!(refused.is_empty(), "{refused:?}");
    running.stop(Duration::from_secs(5)).await.unwrap();
    place.remove().await;
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Connects before and after the process makes its memory inaccessible to others (`PR_SET_DUMPABLE`), and serves in any
/// case.
const PROTECTED: &str = r#"
import ctypes, socket, sys

def outcome():
    try:
        socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=10).close()
        return "connected"
    except OSError:
        return "failed"

before = outcome()
PR_SET_DUMPABLE = 4
ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
open("/out/result", "w").write(f"{before}, {outcome()}, {outcome()}")
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_protects_its_memory_is_reported_once() {
    let place = IsolationFixture::new("guard-memory");
    let (name, address) = host_name_and_address();
    let port = website(address);
    std::fs::write(place.path("probe/protected.py"), PROTECTED).unwrap();
    let script = format!("python3 /probe/protected.py {name} {port} && exec mcp-server-fetch");
    let (running, ..) =
        start_and_collect_denials(allowed(&place, PYTHON, port, &["sh", "-c", &script])).await;
    assert_eq!(read(&place.path("out/result")), "connected, failed, failed");
    // A process of the engine writes the log, and may be late; the log ends with the container.
    let logs = running.logs(true, None).await.unwrap();
    running.stop(Duration::from_secs(5)).await.unwrap();
    let chunks = tokio::time::timeout(Duration::from_secs(60), logs.try_collect::<Vec<_>>()).await.unwrap();
    let log: Vec<u8> = chunks.unwrap().iter().flat_map(|chunk| chunk.bytes.to_vec()).collect();
    let log = String::from_utf8_lossy(&log);
    assert_eq!(log.matches("denies access to its memory").count(), 1, "{log}");
    place.remove().await;
}
