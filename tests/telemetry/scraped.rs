//! `/metrics`, as promtool and Prometheus read it.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use mcpm_tests::harness::{http::Http, testbed, within};
use serde_json::Value;

use super::receiver::{Receiver, call, measured};

#[tokio::test(flavor = "multi_thread")]
async fn promtool_has_nothing_to_say_and_labels_stay_few() {
    let measured = measured(|proxy| proxy.otel_enable_prometheus_metrics_path(true)).await;
    for name in ["add", "missing", "broken"] {
        measured.http.post("/mcp", call(name, "")).send().await.bytes().await.unwrap();
    }
    for number in 0..150 {
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"made/up{number}","params":{{"name":"missing"}}}}"#);
        let request = measured.http.post(&format!("/path{number}"), body);
        let request = request.header("MCP-Protocol-Version", &number.to_string());
        request
            .header("Mcp-Session-Id", &format!("canary-session-{number}"))
            .send()
            .await
            .bytes()
            .await
            .unwrap();
    }
    let mut response = measured.http.request("GET", "/metrics").send().await;
    assert_eq!(response.status, 200);
    assert!(response.headers.get("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    let text = String::from_utf8(response.bytes().await.unwrap()).unwrap();
    for part in [
        "# TYPE mcp_server_operation_duration_seconds histogram",
        "# TYPE http_server_request_duration_seconds histogram",
        "# TYPE mcpm_mcp_requests_total counter",
        "gen_ai_tool_name=\"add\"",
        "error_type=\"tool_error\"",
        "mcp_method_name=\"other\"",
        "service_name=\"mcpm-measured\"",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(!text.contains("made/up") && !text.contains("canary") && !text.contains("/path"), "{text}");
    assert!(text.lines().count() < 400, "{} lines", text.lines().count());
    let mut promtool = Command::new(testbed::path("MCPM_TEST_PROMTOOL"))
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let response = measured.http.post("/metrics", "").send().await;
    assert_eq!((response.status, response.headers.get("allow")), (405, Some("GET, HEAD")));
    measured.proxy.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_for_those_who_are_let_in() {
    let receiver = Receiver::start("").await;
    let measured = measured(|proxy| {
        let proxy = proxy.otel_enable_prometheus_metrics_path(true).jwks_allow_private_ip(true);
        let proxy = proxy.otel_endpoint(format!("http://{}", receiver.http));
        proxy.oidc_jwks_url("http://127.0.0.1:9/keys").oidc_audience("me")
    })
    .await;
    for _ in 0..2 {
        assert_eq!(measured.http.request("GET", "/metrics").send().await.status, 401);
    }
    for path in ["/metrics", "/health"] {
        let page = measured.http.request("GET", path).header("Origin", "https://evil.example");
        assert_eq!(page.send().await.status, 403, "{path}");
    }
    assert_eq!(measured.http.request("GET", "/health").send().await.status, 200);
    measured.proxy.stop().await;
    // Who is kept out is counted, though nothing else of such requests is.
    let exports = receiver.all().await;
    for reason in ["auth.token_missing", "origin.not_allowed"] {
        assert_eq!(exports.count("mcpm.denials", &[("mcpm.denial.reason", reason)]), 2.0, "{reason}");
    }
    assert_eq!(exports.count("http.server.request.duration", &[]), 0.0);
    // Without the option the path is the server's.
    let measured = super::receiver::measured(|proxy| proxy).await;
    let response = measured.http.request("GET", "/metrics").send().await;
    assert!(response.headers.get("content-type").unwrap().contains("json"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_prometheus_scrapes_it() {
    let measured = measured(|proxy| proxy.otel_enable_prometheus_metrics_path(true)).await;
    measured.http.post("/mcp", call("add", "")).send().await.bytes().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs: [{{job_name: mcpm, static_configs: [{{targets: ['{}']}}]}}]\n",
        measured.proxy.address()
    );
    std::fs::write(folder.path().join("prometheus.yml"), config).unwrap();
    let web = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let _prometheus = tokio::process::Command::new(testbed::path("MCPM_TEST_PROMETHEUS"))
        .arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
        .arg(format!("--web.listen-address={web}"))
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let scraped = async {
        loop {
            if let Ok(stream) = tokio::net::TcpStream::connect(web).await {
                drop(stream);
                let query = "/api/v1/query?query=mcp_server_operation_duration_seconds_count";
                let response = Http(web).request("GET", query).header("Connection", "close").send().await;
                if response.status == 200 {
                    let found: Value = response.json().await;
                    let results = found["data"]["result"].as_array().cloned().unwrap_or_default();
                    if let Some(one) = results.iter().find(|one| one["metric"]["gen_ai_tool_name"] == "add") {
                        break one["value"][1].clone();
                    }
                }
            }
            tokio::task::yield_now().await;
        }
    };
    assert_eq!(within("Prometheus to scrape", scraped).await, "1");
    measured.proxy.stop().await;
}
