//! Tests the `--otel-*` options.

use std::{fs, process::Command};

use mcpm_tests::harness::{certificate_authority::CertificateAuthority, otlp_receiver::OtlpReceiver};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::support::{Home, Program, Session, docker, wait_until};

/// A tool of the image.
const TOOL: &str = "test_simple_text";

#[test]
fn a_collector_that_is_not_trusted_is_said_once_with_what_to_do() {
    let home = Home::without_engine();
    let runtime = Runtime::new().unwrap();
    let authority = CertificateAuthority::new();
    for protocol in ["http", "grpc"] {
        let receiver = runtime.block_on(OtlpReceiver::over_tls(&authority));
        let at = if protocol == "http" { &receiver.http } else { &receiver.grpc };
        let run = ["proxy", "p", "--target-uri", "http://127.0.0.1:1/mcp", "--otel-endpoint", at];
        let mut run = home.mcpm(&run);
        run.args(["--otel-protocol", protocol, "--otel-sampling-rate", "1"]);
        let mut proxy = Program::start(&mut run);
        let url = proxy.read_line().split_whitespace().nth(1).unwrap().to_owned();
        assert!(Session::without_session(&url).list_tools()["error"]["message"].is_string());
        proxy.signal("TERM");
        let outcome = proxy.wait();
        let said: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains("telemetry")).collect();
        assert_eq!((outcome.code, said.len()), (Some(0), 1), "{outcome:?}");
        for part in [format!("https://{at}"), "UnknownIssuer".to_owned(), "`--mcpm-ca-bundle`".to_owned()] {
            assert_eq!(said[0].matches(&part).count(), 1, "{part}: {outcome:?}");
        }
    }
}

/// Returns the content of `/metrics` of a workload.
fn scraped(url: &str) -> String {
    let place = url.replace("/mcp", "/metrics");
    let output =
        Command::new("curl").args(["--silent", "--fail", "--noproxy", "*", &place]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the number of calls of the tool in `/metrics`.
fn counted(url: &str) -> f64 {
    let text = scraped(url);
    let is_call = |line: &&str| {
        line.starts_with("mcp_server_operation_duration_seconds_count{")
            && line.contains(&format!("gen_ai_tool_name=\"{TOOL}\""))
            && !line.contains("error_type")
    };
    let count = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
    text.lines().filter(is_call).filter_map(count).sum()
}

#[test]
fn a_workload_is_measured_through_a_restart_and_after_an_export() {
    let home = Home::new();
    home.set("REGION", "north");
    home.set("OTEL_RESOURCE_ATTRIBUTES", "team=red");
    let runtime = Runtime::new().unwrap();
    for (image, kind, transport) in
        [("everything:1", "stdio", "pipe"), ("everything-http:1", "streamable-http", "tcp")]
    {
        let receiver = runtime.block_on(OtlpReceiver::start(""));
        let name = home.name(kind);
        let endpoint = format!("http://{}", receiver.http);
        let image = format!("mcpm-test/{image}");
        let run = ["run", &image, "--name", &name, "--otel-endpoint", &endpoint, "--otel-sampling-rate", "1"];
        let more = ["--otel-env-vars", "REGION", "--otel-enable-prometheus-metrics-path"];
        let headers = ["--otel-headers", "x-key=hush"];
        let url = home.run(&[&run[..], &more, &headers].concat()).succeeded().url();
        Session::open(&url).call(TOOL, &json!({}));
        assert_eq!(counted(&url), 1.0, "{kind}");
        // The server exits and its supervisor starts it again; the counters continue.
        docker(&["kill", &name]);
        wait_until("its calls are answered again", || Session::without_session(&url).is_answered());
        Session::open(&url).call(TOOL, &json!({}));
        assert_eq!(counted(&url), 2.0, "{kind}");
        // Header values are not recorded; the restarted supervisor reads them from OpenTelemetry's variable.
        let mut again = home.mcpm(&["restart", &name]);
        again.env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=hush,x-other=hush");
        assert!(again.status().unwrap().success());
        Session::open(&url).call(TOOL, &json!({}));
        home.run(&["stop", &name]).succeeded();
        let exported = home.text(&format!("{kind}.json"));
        home.run(&["export", &name, &exported]).succeeded();
        let text = fs::read_to_string(&exported).unwrap();
        assert!(!text.contains("hush"), "{text}");
        let options: Value = serde_json::from_str(&text).unwrap();
        for (option, value) in [
            ("otel_endpoint", json!(endpoint)),
            ("otel_env_vars", json!(["REGION"])),
            ("otel_enable_prometheus_metrics_path", json!(true)),
        ] {
            assert!(options.to_string().contains(&format!("\"{option}\":{value}")), "{option}: {text}");
        }
        // The workload is removed, and started again from its exported file.
        home.run(&["rm", &name]).succeeded();
        let url = home.run(&["run", "--from-config", &exported]).succeeded().url();
        Session::open(&url).call(TOOL, &json!({}));
        home.run(&["stop", &name]).succeeded();
        home.run(&["rm", &name]).succeeded();
        let exports = runtime.block_on(receiver.finish());
        // Traces and metrics of two runs. An export contains no headers, because headers may be secrets.
        let marked = exports.headers.iter().filter(|headers| headers["x-key"] == "hush").count();
        assert!(marked >= 4, "{:?}", exports.headers);
        assert!(exports.headers.iter().all(|headers| headers["x-other"].is_null()), "{:?}", exports.headers);
        let title = format!("tools/call {TOOL}");
        let spans: Vec<_> = exports.spans.iter().filter(|span| span.name == title).collect();
        assert_eq!(spans.len(), 4, "before and after each restart, and after the export: {exports:#?}");
        let old_transport = if kind == "stdio" { "stdio" } else { "http" };
        for span in spans {
            for (key, value) in [
                ("mcp.server.name", name.as_str()),
                ("mcp.method.name", "tools/call"),
                ("gen_ai.tool.name", TOOL),
                ("environment.REGION", "north"),
                ("server.address", "127.0.0.1"),
                ("client.address", "127.0.0.1"),
                ("mcp.transport", old_transport),
            ] {
                assert_eq!(span.attributes.get(key).map(String::as_str), Some(value), "{key}: {span:#?}");
            }
            let backend = exports.spans.iter().find(|one| one.name == "backend" && one.parent == span.id);
            assert_eq!(backend.unwrap().attributes["network.transport"], transport);
        }
        assert_eq!(exports.resource["service.name"], format!("mcpm-{name}"));
        assert_eq!(exports.resource["team"], "red");
        // Each export repeats the metrics.
        let of_workload = [("server", name.as_str()), ("tool", TOOL), ("status", "success")];
        assert!(exports.count("mcpm_mcp_tool_calls", &of_workload) >= 4.0);
        assert!(exports.count("mcpm_mcp_requests", &[("transport", kind), ("mcp_resource_id", TOOL)]) >= 4.0);
    }
    home.assert_nothing_left();
}
