//! Tests `/metrics` as promtool and Prometheus read it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    net::TcpListener,
    process::{Command, Stdio},
};

use mcpm::{ErrorKind, Proxy};
use mcpm_tests::harness::{
    http::Http,
    poll, testbed,
    upstream::{Upstream, UpstreamResponse},
};
use serde_json::{Value, json};

use super::fixture::{OtlpReceiver, call, measured_proxy};

#[tokio::test(flavor = "multi_thread")]
async fn promtool_passes_and_label_cardinality_is_bounded() {
    let measured = measured_proxy(|proxy| proxy.otel_enable_prometheus_metrics_path(true)).await;
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
async fn a_port_of_its_own_has_metrics_for_scrapers_without_a_token_and_nothing_else() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let guarded = |name: &str| {
        let builder = Proxy::builder(name, "http://127.0.0.1:1/mcp").otel_prometheus_port(port);
        let builder = builder.oidc_jwks_url("http://127.0.0.1:1/keys").oidc_insecure_allow_http(true);
        builder.jwks_allow_private_ip(true).build().unwrap().start()
    };
    let proxy = guarded("scraped").await.unwrap();
    let (http, scraped) = (Http(proxy.address().unwrap()), Http(([127, 0, 0, 1], port).into()));
    assert_eq!(http.get("/metrics").send().await.status, 401);
    assert_eq!(http.post("/mcp", call("add", "")).send().await.status, 401);
    let text = scraped.get("/metrics").send().await.text().await;
    assert!(text.contains("http_response_status_code=\"401\""), "{text}");
    for (method, path, host, status) in [
        ("POST", "/metrics", "localhost", 405),
        ("GET", "/mcp", "localhost", 404),
        ("GET", "/health", "localhost", 404),
        ("GET", "/metrics", "page.example", 403),
    ] {
        let response = scraped.request(method, path).header("Host", host).send().await;
        assert_eq!(response.status, status, "{method} {path} of {host}");
    }
    let taken = guarded("second").await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::PortTaken);
    assert!(taken.to_string().contains("`otel_prometheus_port`"), "{taken}");
    proxy.stop().await;
    guarded("third").await.expect("the port is free again").stop().await;
}

/// The number of series of each metric.
async fn series(http: Http) -> BTreeMap<String, usize> {
    let text = http.request("GET", "/metrics").send().await.text().await;
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        *counts.entry(name.to_owned()).or_insert(0) += 1;
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn caller_input_cannot_grow_metric_cardinality() {
    /// Each call of a round has a new value in every place where a caller can choose one.
    const ROUND: usize = 1500;
    let server = Upstream::listen().await;
    let uri = server.uri("/mcp");
    // The server knows every tool and prompt and every method, and fails with any code that a caller names.
    server.serve(|received| {
        let asked: Value = serde_json::from_slice(&received.body).unwrap_or_default();
        let body = match asked["params"]["code"].as_i64() {
            Some(code) => json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no"}}),
            None => json!({"jsonrpc": "2.0", "id": 1, "result": {"content": []}}),
        };
        let session = asked["params"]["session"].as_str().map(|id| format!("Mcp-Session-Id: {id}\r\n"));
        UpstreamResponse {
            status: "200 OK".to_owned(),
            headers: format!("Content-Type: application/json\r\n{}", session.unwrap_or_default()),
            body: body.to_string(),
        }
    });
    let proxy = Proxy::builder("measured", uri).otel_enable_prometheus_metrics_path(true).build().unwrap();
    let proxy = proxy.start().await.unwrap();
    let http = Http(proxy.address().unwrap());
    let mut rounds = Vec::new();
    for round in 0..2 {
        for number in round * ROUND..(round + 1) * ROUND {
            let name = format!("made-up-{number}");
            let method = ["tools/call", "prompts/get", "resources/read", "initialize", &name][number % 5];
            let mut params = json!({
                "name": name, "uri": format!("file:///{name}"), "protocolVersion": name, "session": name,
                "clientInfo": {"name": name, "version": name},
                "_meta": {"io.modelcontextprotocol/protocolVersion": name},
            });
            // The server chooses error codes: both rounds have the same ones, on both sides of the reserved range.
            let place = number % ROUND;
            if place.is_multiple_of(7) {
                params["code"] = json!(-40_000 + i64::try_from(place * 6).unwrap());
            }
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
            let verb = if number.is_multiple_of(11) { format!("VERB{number}") } else { "POST".to_owned() };
            let request = http.request(&verb, &format!("/mcp/{name}")).body(body);
            let request = request.header("Content-Type", "application/json").header("User-Agent", &name);
            let request = request.header("MCP-Protocol-Version", &name).header("Mcp-Session-Id", &name);
            request.header("X-Forwarded-For", "203.0.113.9").send().await.bytes().await.unwrap();
        }
        rounds.push(series(http).await);
    }
    assert_eq!(rounds[0], rounds[1], "more calls make no more series");
    let total: usize = rounds[1].values().sum();
    assert!(total < 10_000, "{total} series: {:#?}", rounds[1]);
    let text = http.request("GET", "/metrics").send().await.text().await;
    let named = |label: &str| {
        let begin = format!("{label}=\"");
        let labels = text.split(&begin).skip(1).filter_map(|rest| rest.split('"').next());
        labels.filter(|name| name.starts_with("made-up")).collect::<BTreeSet<_>>().len()
    };
    // Only tools with a successful response, and no more of them than the limit.
    assert_eq!((named("gen_ai_tool_name"), named("gen_ai_prompt_name")), (100, 100));
    assert_eq!((named("tool"), named("mcp_resource_id")), (100, 200));
    for label in [
        "mcp_method_name",
        "mcp_method",
        "mcp_protocol_version",
        "http_request_method",
        "method",
        "error_type",
    ] {
        assert_eq!(named(label), 0, "{label}");
    }
    proxy.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_for_those_who_are_let_in() {
    let receiver = OtlpReceiver::start("").await;
    let measured = measured_proxy(|proxy| {
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
    // Denied requests are counted, though nothing else of them is recorded.
    let exports = receiver.finish().await;
    for reason in ["auth.token_missing", "origin.not_allowed"] {
        assert_eq!(exports.count("mcpm.denials", &[("mcpm.denial.reason", reason)]), 2.0, "{reason}");
    }
    assert_eq!(exports.count("http.server.request.duration", &[]), 0.0);
    // Without the option, the path belongs to the server.
    let measured = measured_proxy(|proxy| proxy).await;
    let response = measured.http.request("GET", "/metrics").send().await;
    assert!(response.headers.get("content-type").unwrap().contains("json"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_prometheus_scrapes_it() {
    let measured = measured_proxy(|proxy| proxy.otel_enable_prometheus_metrics_path(true)).await;
    measured.http.post("/mcp", call("add", "")).send().await.bytes().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs: [{{job_name: mcpm, static_configs: [{{targets: ['{}']}}]}}]\n",
        measured.proxy.address().unwrap()
    );
    std::fs::write(folder.path().join("prometheus.yml"), config).unwrap();
    let web = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let _prometheus = tokio::process::Command::new(testbed::path("MCPM_TEST_PROMETHEUS"))
        .arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
        .arg(format!("--web.listen-address={web}"))
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let scraped = poll::wait_for_async("Prometheus to scrape", async || {
        drop(tokio::net::TcpStream::connect(web).await.ok()?);
        let query = "/api/v1/query?query=mcp_server_operation_duration_seconds_count";
        let response = Http(web).request("GET", query).header("Connection", "close").send().await;
        if response.status != 200 {
            return None;
        }
        let found: Value = response.json().await;
        let mut results = found["data"]["result"].as_array()?.iter();
        let of_tool = results.find(|one| one["metric"]["gen_ai_tool_name"] == "add")?;
        Some(of_tool["value"][1].clone())
    });
    assert_eq!(scraped.await, "1");
    measured.proxy.stop().await;
}
