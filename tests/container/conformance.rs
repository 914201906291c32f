//! Runs the conformance suite against servers that `mcpm run` has started.

use std::{
    collections::BTreeSet,
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::Command,
};

use super::run_workload;
use crate::support::{Home, Program, testbed_variable, wait_until};

/// The everything-server of the Go SDK over stdio, and over streamable HTTP.
const IMAGES: [&str; 2] = ["mcpm-test/everything:1", "mcpm-test/everything-http:1"];

/// The conformance suite's results for a server.
#[derive(Debug, PartialEq, Eq)]
struct Conformance {
    exit: Option<i32>,
    /// Scenarios with a failed check, including those that do not count.
    failing: BTreeSet<String>,
    /// The total numbers of failed and passed checks.
    failed: u32,
    passed: u32,
}

fn conformance(url: &str, revision: &str) -> Conformance {
    let results = tempfile::tempdir().unwrap();
    let output = Command::new(testbed_variable("MCPM_TEST_NODE"))
        .arg(PathBuf::from(testbed_variable("MCPM_TEST_NODE_MODULES")).join(".bin/conformance"))
        .args(["server", "--url", url, "--requirements", revision, "-o"])
        .arg(results.path())
        .env("NO_PROXY", "*")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // Lines such as `✓ prompts-get-simple: 2 passed, 0 failed`, and a line with the total.
    let counts = |line: &str| {
        let (name, rest) = line.split_once(": ")?;
        let (passed, rest) = rest.split_once(" passed, ")?;
        let failed = rest.split_whitespace().next()?;
        let name = name.trim_start_matches(['✓', '✗', ' ']).to_owned();
        Some((name, passed.parse::<u32>().ok()?, failed.parse::<u32>().ok()?))
    };
    let lines: Vec<_> = text.lines().filter_map(counts).collect();
    let total =
        lines.iter().find(|(name, ..)| name == "Total").unwrap_or_else(|| panic!("no total:\n{text}"));
    let failing = lines.iter().filter(|(name, _, failed)| name != "Total" && *failed > 0);
    Conformance {
        exit: output.status.code(),
        failing: failing.map(|(name, ..)| name.clone()).collect(),
        failed: total.2,
        passed: total.1,
    }
}

pub(super) fn the_suite_of_2025_11_25_passes_through_run(home: &Home) {
    home.provide_images(&IMAGES);
    // One more check runs through the bridge, which lets a client resume a stream.
    for (image, passed) in IMAGES.into_iter().zip([83, 82]) {
        let found = conformance(&run_workload(home, image, &[]), "2025-11-25");
        assert_eq!((found.exit, found.passed, found.failed), (Some(0), passed, 0), "{image}: {found:?}");
    }
}

pub(super) fn the_suite_of_2026_07_28_fails_through_run_only_where_it_fails_without(home: &Home) {
    home.provide_images(&IMAGES);
    let direct = {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut server = home.command(testbed_variable("MCPM_TEST_EVERYTHING_SERVER"));
        let _server = Program::start(server.args(["-http", &address.to_string()]));
        wait_until("the server listens", || TcpStream::connect(address).is_ok());
        conformance(&format!("http://{address}/"), "2026-07-28")
    };
    assert_eq!((direct.exit, direct.passed, direct.failed), (Some(0), 165, 30), "{direct:?}");
    let options: [&[&str]; 2] = [&[], &["--", "-http", "0.0.0.0:3000"]];
    for (image, more) in IMAGES.into_iter().zip(options) {
        let found = conformance(&run_workload(home, image, more), "2026-07-28");
        assert_eq!(found, direct, "{image}");
    }
}
