//! The scenarios of the conformance suite for clients of servers that require a login, with mcpm as that client.

use mcpm_tests::{
    harness::{testbed, with_timeout},
    root,
};

use crate::npm_program;

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

/// Runs scenarios with `mcpm proxy` or `mcpm run` as the client, and returns what the suite prints.
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

/// Asserts that no check of the suite failed, and that no scenario is missing.
async fn assert_suite_passes(command: &str, version: &str) {
    let text = run(command, &["--suite", "auth", "--spec-version", version]).await;
    let summary = text.split_once("=== SUITE SUMMARY ===").unwrap_or_else(|| panic!("no summary:\n{text}")).1;
    assert!(summary.contains(" 0 failed, 0 warnings"), "{command} {version}: {summary}");
    assert_eq!(summary.matches('✓').count(), 14, "{command} {version}: {summary}");
}

#[tokio::test]
async fn a_proxy_logs_in_to_servers_of_2025_11_25() {
    assert_suite_passes("proxy", "2025-11-25").await;
}

#[tokio::test]
async fn a_proxy_logs_in_to_servers_of_2026_07_28() {
    assert_suite_passes("proxy", "2026-07-28").await;
}

#[tokio::test]
async fn a_workload_logs_in_to_servers_of_2025_11_25() {
    assert_suite_passes("run", "2025-11-25").await;
}

#[tokio::test]
async fn a_workload_logs_in_to_servers_of_2026_07_28() {
    assert_suite_passes("run", "2026-07-28").await;
}

#[tokio::test]
async fn servers_and_issuers_that_do_not_match_are_refused() {
    for (scenario, version) in SINGLE_SCENARIOS {
        let text = run("proxy", &["--scenario", scenario, "--spec-version", version]).await;
        assert!(text.contains("OVERALL: PASSED"), "{scenario}: {text}");
    }
}
