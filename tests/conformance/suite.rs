//! Checks that the conformance suite gets the same results with and without mcpm. For 2025-11-25, the suite runs one
//! more check through a bridge, which can resume streams, than directly against a server that cannot.

use std::{collections::BTreeMap, process::Stdio};

use mcpm::{options::ProxyMode, proxy::StdioProxy, stdio::LocalProcess};
use mcpm_tests::harness::{poll, testbed, with_timeout};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
};

use crate::{
    bridge, npm_program,
    support::{Home, Program},
};

/// Passed and failed checks of each scenario.
#[derive(Debug, PartialEq, Eq)]
struct Outcome(BTreeMap<String, (u32, u32)>);

impl Outcome {
    /// Reads the lines `✓ scenario: 3 passed, 0 failed` of a summary.
    fn read(text: &str) -> Self {
        let summary = text.split_once("=== SUMMARY ===").unwrap_or_else(|| panic!("no summary:\n{text}")).1;
        let scenario = |line: &str| {
            let (name, counts) = line.split_once(' ')?.1.split_once(": ")?;
            let (passed, failed) = counts.split_once(" passed, ")?;
            let failed = failed.split(' ').next()?.parse().ok()?;
            Some((name.to_owned(), (passed.parse().ok()?, failed)))
        };
        let lines = summary.lines().filter(|line| line.starts_with(['✓', '✗']));
        Self(lines.map(|line| scenario(line).unwrap_or_else(|| panic!("`{line}` is no outcome"))).collect())
    }

    /// The total numbers of passed and failed checks.
    fn total(&self) -> (u32, u32) {
        self.0.values().fold((0, 0), |(passed, failed), (p, f)| (passed + p, failed + f))
    }
}

async fn run(url: &str, requirements: &str) -> Outcome {
    // One of the scenarios expects `localhost`.
    let url = url.replace("127.0.0.1", "localhost");
    let results = tempfile::tempdir().unwrap();
    let suite = npm_program("conformance")
        .args(["server", "--url", &url, "--requirements", requirements, "-o"])
        .arg(results.path())
        .output();
    let output = with_timeout("the conformance suite", suite).await.unwrap();
    Outcome::read(&String::from_utf8_lossy(&output.stdout))
}

/// The HTTP server, and its URL.
pub(crate) async fn direct(requirements: &str) -> (Child, String) {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let stateless = if requirements == "2025-11-25" { "-stateless=false" } else { "-stateless=true" };
    let mut server = Command::new(testbed::path("MCPM_TEST_EVERYTHING_SERVER"))
        .args(["-http", &address.to_string(), stateless])
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut log = BufReader::new(server.stderr.take().unwrap()).lines();
    let line = with_timeout("the server to listen", log.next_line()).await.unwrap().unwrap();
    assert!(line.contains("listening"), "{line}");
    // The server's log must not fill the pipe.
    tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
    // The server logs this line a moment before it listens, and no event tells when it listens.
    poll::wait_for_async("the server to listen", async || TcpStream::connect(address).await.ok()).await;
    (server, format!("http://{address}/mcp"))
}

/// The results without a proxy, through a bridge to a stdio server, and through `mcpm proxy`.
async fn run_direct_and_proxied(requirements: &str) -> (Outcome, Outcome, Outcome) {
    let (_server, url) = direct(requirements).await;
    let piped = bridge(testbed::path("MCPM_TEST_EVERYTHING_SERVER"), ProxyMode::StreamableHttp).await;
    let home = Home::without_engine();
    let mut forward = Program::start(&mut home.mcpm(&["proxy", "server", "--target-uri", &url]));
    let line = forward.read_line();
    let forwarded = line.strip_prefix("server  ").unwrap_or_else(|| panic!("`{line}` is no name and URL"));
    let outcomes = tokio::join!(
        run(&url, requirements),
        run(piped.proxy().url(), requirements),
        run(forwarded, requirements)
    );
    forward.signal("TERM");
    let ended = forward.wait();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    outcomes
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_of_2025_11_25_passes_through_either_proxy() {
    let (direct, mut bridged, forwarded) = run_direct_and_proxied("2025-11-25").await;
    assert_eq!(direct.total(), (82, 0), "{direct:?}");
    assert_eq!(forwarded, direct);
    // The bridge lets a client resume a stream, which this server does not support by itself, so the suite runs one
    // more check.
    assert_eq!(bridged.total(), (83, 0), "{bridged:?}");
    let resumable = "server-sse-polling";
    assert_eq!(
        bridged.0.remove(resumable).map(|(passed, _)| passed - 1),
        direct.0.get(resumable).map(|(passed, _)| *passed)
    );
    assert!(
        bridged.0.iter().all(|(name, counts)| direct.0.get(name) == Some(counts)),
        "{bridged:?}, {direct:?}"
    );
}

/// The server itself fails scenarios of the tasks extension, which it does not support.
#[tokio::test(flavor = "multi_thread")]
async fn what_passes_of_2026_07_28_passes_through_either_proxy() {
    let (direct, bridged, forwarded) = run_direct_and_proxied("2026-07-28").await;
    assert_eq!(direct.total(), (165, 30), "{direct:?}");
    assert!(
        direct.0.iter().all(|(name, (_, failed))| *failed == 0 || name.starts_with("tasks-")),
        "{direct:?}"
    );
    assert_eq!(forwarded, direct);
    assert_eq!(bridged, direct);
}

/// The results of an HTTP server behind `mcpm proxy stdio`, behind a bridge to that command.
async fn run_through_stdio(requirements: &str) -> Outcome {
    let (_server, url) = direct(requirements).await;
    let program = env!("CARGO_BIN_EXE_mcpm-under-test");
    let proxy = StdioProxy::new("server", LocalProcess::new(program, ["proxy", "stdio", &url]));
    let running = with_timeout("the proxy to start", proxy.start(drop)).await.unwrap();
    run(running.proxy().url(), requirements).await
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_of_2025_11_25_passes_through_proxy_stdio() {
    let found = run_through_stdio("2025-11-25").await;
    assert_eq!(found.total(), (83, 0), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_of_2026_07_28_passes_through_proxy_stdio() {
    let found = run_through_stdio("2026-07-28").await;
    assert_eq!(found.total(), (165, 30), "{found:?}");
    assert!(
        found.0.iter().all(|(name, (_, failed))| *failed == 0 || name.starts_with("tasks-")),
        "{found:?}"
    );
}
