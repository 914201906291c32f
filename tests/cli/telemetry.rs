//! The `--otel-*` options.

use std::{
    fs,
    process::{Command, Output},
};

use mcpm_tests::harness::{
    authority::Authority,
    receiver::{Exports, Receiver},
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::support::{Home, Program, Session};

/// A tool of the image.
const TOOL: &str = "test_simple_text";

#[test]
fn a_collector_that_is_not_trusted_is_said_once_with_what_to_do() {
    let home = Home::without_engine();
    let runtime = Runtime::new().unwrap();
    let authority = Authority::new();
    for protocol in ["http", "grpc"] {
        let receiver = runtime.block_on(Receiver::over_tls(&authority));
        let at = if protocol == "http" { &receiver.http } else { &receiver.grpc };
        let run = ["proxy", "p", "--target-uri", "http://127.0.0.1:1/mcp", "--otel-endpoint", at];
        let mut run = home.mcpm(&run);
        run.args(["--otel-protocol", protocol, "--otel-sampling-rate", "1"]);
        let mut proxy = Program::start(&mut run);
        let url = proxy.line().split_whitespace().nth(1).unwrap().to_owned();
        assert!(Session::at(&url).ask()["error"]["message"].is_string());
        proxy.signal("TERM");
        let outcome = proxy.end();
        let said: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains("telemetry")).collect();
        assert_eq!((outcome.code, said.len()), (Some(0), 1), "{outcome:?}");
        for part in [format!("https://{at}"), "UnknownIssuer".to_owned(), "`--mcpm-ca-bundle`".to_owned()] {
            assert_eq!(said[0].matches(&part).count(), 1, "{part}: {outcome:?}");
        }
    }
}
