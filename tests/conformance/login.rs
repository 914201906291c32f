//! Runs the scenarios of the conformance suite for clients that have to log in, with mcpm as the client.

use mcpm_tests::{
    harness::{testbed, with_timeout},
    root,
};

use crate::npm_program;

/// The scenarios of the suite `auth`, which are for both versions.
const SUITE: [&str; 14] = [
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
];

/// Scenarios outside of the suite, with the version that they are for.
const SINGLE_SCENARIOS: [(&str, &str); 13] = [
    ("auth/2025-03-26-oauth-metadata-backcompat", "2025-03-26"),
    ("auth/2025-03-26-oauth-endpoint-fallback", "2025-03-26"),
    ("auth/resource-mismatch", "2026-07-28"),
    ("auth/offline-access-scope", "2026-07-28"),
    ("auth/offline-access-not-supported", "2026-07-28"),
    ("auth/authorization-server-migration", "2026-07-28"),
    ("auth/iss-supported", "2026-07-28"),
    ("auth/iss-not-advertised", "2026-07-28"),
    ("auth/iss-supported-missing", "2026-07-28"),
    ("auth/iss-wrong-issuer", "2026-07-28"),
    ("auth/iss-unexpected", "2026-07-28"),
    ("auth/iss-normalized", "2026-07-28"),
    ("auth/metadata-issuer-mismatch", "2026-07-28"),
];

/// Runs scenarios with `mcpm proxy` or `mcpm run` as the client, and returns the output of the suite.
async fn run(command: &str, scenarios: &[&str]) -> String {
    let client = [
        testbed::path("MCPM_TEST_PYTHON").display().to_string(),
        root().join("tests/clients/login_client.py").display().to_string(),
        env!("CARGO_BIN_EXE_mcpm-under-test").to_owned(),
        command.to_owned(),
    ];
    let results = tempfile::tempdir().unwrap();
    let suite = npm_program("conformance")
        .args(["client", "--timeout", "150000", "--command", &client.join(" ")])
        .args(scenarios)
        .arg("-o")
        .arg(results.path())
        .output();
    let output = with_timeout("the conformance suite", suite).await.unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{out}{err}")
}

/// Asserts that scenarios pass without a failed check or a warning. They run one after the other, because the suite
/// gives each scenario only 30 seconds, and the machine may be busy.
async fn assert_pass(command: &str, scenarios: impl IntoIterator<Item = (&str, &str)>) {
    for (scenario, version) in scenarios {
        let text = run(command, &["--scenario", scenario, "--spec-version", version]).await;
        let passes = text.contains("OVERALL: PASSED") && text.contains(" 0 failed, 0 warnings");
        assert!(passes, "{command} {scenario} {version}: {text}");
    }
}

#[tokio::test]
async fn a_proxy_logs_in_to_servers_of_2025_11_25() {
    assert_pass("proxy", SUITE.map(|scenario| (scenario, "2025-11-25"))).await;
}

#[tokio::test]
async fn a_proxy_logs_in_to_servers_of_2026_07_28() {
    assert_pass("proxy", SUITE.map(|scenario| (scenario, "2026-07-28"))).await;
}

#[tokio::test]
async fn a_proxy_logs_in_to_older_servers_and_refuses_issuers_that_do_not_match() {
    assert_pass("proxy", SINGLE_SCENARIOS).await;
}

#[tokio::test]
#[ignore = "nightly: a minute more for the same code"]
async fn a_workload_logs_in_to_servers_of_both_versions() {
    for version in ["2025-11-25", "2026-07-28"] {
        assert_pass("run", SUITE.map(|scenario| (scenario, version))).await;
    }
}
