//! Tests the spans and metrics of requests, as a collector receives them.

use mcpm::{
    Environment,
    environment::Variables,
    options::{Attributes, OtlpProtocol},
    proxy::{ProxySpec, StdioProxy},
    telemetry::{OtlpSpec, TelemetrySpec},
};
use mcpm_tests::harness::{mcp::Session, scripted_server::ScriptedServer};
use serde_json::json;

use super::fixture::{OtlpExports, OtlpReceiver, call, measured_proxy};

const ONE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OTHER: &str = "00-11111111111111111111111111111111-2222222222222222-01";

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_one_trace_over_both_protocols_and_holds_no_secret() {
    for protocol in [OtlpProtocol::Http, OtlpProtocol::Grpc] {
        let mut receiver = OtlpReceiver::start("").await;
        let at = if protocol == OtlpProtocol::Http { &receiver.http } else { &receiver.grpc };
        let variables = [("REGION", "north"), ("MCPM_X", "canary-variable")];
        let variables: Variables =
            variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut measured = measured_proxy(|proxy| {
            proxy
                .otel_endpoint(format!("http://{at}"))
                .otel_protocol(protocol)
                .otel_sampling_rate(1.0)
                .otel_headers(("x-key", "canary-key"))
                .otel_service_name("front")
                .otel_custom_attributes(Attributes::from_iter([("deployment.environment", "test")]))
                .otel_env_vars("REGION")
                .environment(Environment { variables, ..Environment::from_lookup(|_| None) })
        })
        .await;
        let request = measured.http.post("/mcp?token=canary-query", call("add", ""));
        let request = request.header("Authorization", "Bearer canary-token").header("Mcp-Session-Id", "s-1");
        let response = request.header("MCP-Protocol-Version", "2025-11-25").send().await;
        assert_eq!((response.status, response.json().await["id"].clone()), (200, json!(1)));
        let got = measured.through.recv().await.unwrap();
        measured.proxy.stop().await;
        let (form, first) = receiver.next().await;
        assert!(form.starts_with(protocol.as_str()), "{form}");
        let mut exports = receiver.finish().await;
        exports.headers.push(first["headers"].clone());
        exports.add(&first["export"]);

        let server = exports.span("tools/call add");
        assert_eq!(
            (server.kind.as_str(), server.parent.as_str(), server.failed),
            ("SPAN_KIND_SERVER", "", false)
        );
        let backend = exports.span("backend");
        assert_eq!((backend.kind.as_str(), &backend.parent), ("SPAN_KIND_CLIENT", &server.id));
        assert_eq!(exports.span("receive").parent, server.id);
        for part in ["queue", "stream"] {
            assert_eq!(exports.span(part).parent, backend.id, "{part}");
        }
        assert!(exports.spans.iter().all(|span| span.trace == server.trace));
        // The span of the server behind the proxy is a child of the proxy's span.
        let parent = got.headers.get("traceparent").unwrap();
        assert_eq!(parent, format!("00-{}-{}-01", server.trace, backend.id));
        for (key, value) in [
            ("mcp.method.name", "tools/call"),
            ("mcp.session.id", "s-1"),
            ("mcp.protocol.version", "2025-11-25"),
            ("gen_ai.tool.name", "add"),
            ("gen_ai.operation.name", "execute_tool"),
            ("jsonrpc.request.id", "1"),
            ("jsonrpc.protocol.version", "2.0"),
            ("http.request.method", "POST"),
            ("http.response.status_code", "200"),
            ("url.path", "/mcp"),
            ("network.transport", "tcp"),
            ("environment.REGION", "north"),
            // The attributes of older versions of the conventions.
            ("mcp.method", "tools/call"),
            ("mcp.tool.name", "add"),
            ("mcp.request.id", "1"),
            ("http.status_code", "200"),
        ] {
            assert_eq!(server.attributes.get(key).map(String::as_str), Some(value), "{key}: {server:#?}");
        }
        assert_eq!(exports.resource["service.name"], "front");
        assert_eq!(exports.resource["deployment.environment"], "test");
        let of_call = [("mcp.method.name", "tools/call"), ("gen_ai.tool.name", "add")];
        assert_eq!(exports.count("mcp.server.operation.duration", &of_call), 1.0);
        assert_eq!(exports.count("http.server.request.duration", &[("http.request.method", "POST")]), 1.0);
        assert_eq!(exports.count("mcpm_mcp_tool_calls", &[("tool", "add"), ("status", "success")]), 1.0);
        assert_eq!(exports.count("http.server.active_requests", &[]), 0.0);
        assert!(exports.headers.iter().all(|headers| headers["x-key"] == "canary-key"), "{exports:?}");
        assert!(!exports.text.contains("canary"), "{}", exports.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_names_its_parent_before_its_headers_do() {
    let receiver = OtlpReceiver::start("").await;
    let mut measured = measured_proxy(|proxy| {
        let proxy = proxy.otel_endpoint(format!("http://{}/base", receiver.http)).otel_sampling_rate(1.0);
        proxy.otel_metrics_enabled(false).otel_use_legacy_attributes(false)
    })
    .await;
    let meta = format!(r#","_meta":{{"traceparent":"{ONE}"}}"#);
    let body = call("a", &meta);
    let request = measured.http.post("/mcp", body.clone()).header("traceparent", OTHER);
    assert_eq!(request.send().await.status, 200);
    // An HTTP server gets the header, and the message unchanged.
    let got = measured.through.recv().await.unwrap();
    assert_eq!(got.body, body.into_bytes());
    assert!(got.headers.get("traceparent").unwrap().contains(&ONE[3..35]));
    let request = measured.http.post("/mcp", call("b", "")).header("traceparent", OTHER);
    assert_eq!(request.header("tracestate", "v=1").send().await.status, 200);
    assert_eq!(measured.through.recv().await.unwrap().headers.get("tracestate"), Some("v=1"));
    measured.proxy.stop().await;
    let exports = receiver.finish().await;
    let (one, other) = (exports.span("tools/call a"), exports.span("tools/call b"));
    assert_eq!((one.trace.as_str(), one.parent.as_str()), (&ONE[3..35], &ONE[36..52]));
    assert_eq!(one.links, [OTHER[3..35].to_owned()]);
    assert_eq!((other.trace.as_str(), other.parent.as_str()), (&OTHER[3..35], &OTHER[36..52]));
    assert!(exports.points.is_empty() && !one.attributes.contains_key("mcp.method"));
    assert!(exports.headers.iter().all(|headers| headers[":path"] == "/base/v1/traces"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_the_proxy_makes_for_itself_is_no_part_of_the_trace() {
    let receiver = OtlpReceiver::start("").await;
    let folder = tempfile::tempdir().unwrap();
    let policies = folder.path().join("policies.json");
    let policy = "permit(principal, action, resource) unless { resource has destructiveHint };";
    let config = json!({ "version": "1.0", "type": "cedarv1", "cedar": { "policies": [policy] } });
    std::fs::write(&policies, config.to_string()).unwrap();
    let mut measured = measured_proxy(|proxy| {
        let proxy = proxy.otel_endpoint(format!("http://{}", receiver.http)).otel_sampling_rate(1.0);
        proxy.authz_config(policies)
    })
    .await;
    assert_eq!(measured.http.post("/mcp", call("add", "")).send().await.status, 200);
    for method in ["tools/list", "tools/call"] {
        let got = measured.through.recv().await.unwrap();
        assert!(String::from_utf8_lossy(&got.body).contains(method));
    }
    measured.proxy.stop().await;
    let exports = receiver.finish().await;
    let times = |name| exports.span(name).times;
    let whole = times("tools/call add");
    for (began, ended) in ["authorize", "backend", "queue"].map(times) {
        assert!(whole.0 <= began && began <= ended && ended <= whole.1, "{:#?}", exports.spans);
    }
    let order = [times("authorize").1, times("backend").0, times("queue").0];
    assert!(order.is_sorted(), "{:#?}", exports.spans);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_sampled_is_counted_and_what_a_parent_samples_is_sent() {
    let receiver = OtlpReceiver::start("").await;
    let mut measured = measured_proxy(|proxy| {
        proxy.otel_endpoint(format!("http://{}", receiver.http)).otel_sampling_rate(0.0)
    })
    .await;
    assert_eq!(measured.http.post("/mcp", call("a", "")).send().await.status, 200);
    let parent = measured.through.recv().await.unwrap();
    assert!(parent.headers.get("traceparent").unwrap().ends_with("-00"));
    let sampled = measured.http.post("/mcp", call("b", "")).header("traceparent", ONE);
    assert_eq!(sampled.send().await.status, 200);
    measured.proxy.stop().await;
    let exports = receiver.finish().await;
    assert_eq!(exports.span("tools/call b").trace, &ONE[3..35]);
    assert!(exports.spans.iter().all(|span| span.trace == ONE[3..35]), "{exports:#?}");
    assert_eq!(exports.count("mcp.server.operation.duration", &[("mcp.method.name", "tools/call")]), 2.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn error_types_are_recorded_for_json_and_sse() {
    let receiver = OtlpReceiver::start("").await;
    let measured = measured_proxy(|proxy| {
        let proxy = proxy.otel_endpoint(format!("http://{}", receiver.http)).otel_sampling_rate(1.0);
        proxy.tools("!hidden")
    })
    .await;
    for name in ["add", "missing", "broken", "hidden"] {
        let mut response = measured.http.post("/mcp", call(name, "")).send().await;
        response.bytes().await.unwrap();
    }
    let opened = measured.http.post(
        "/mcp",
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
    );
    assert_eq!(opened.send().await.status, 200);
    let closed = measured.http.request("DELETE", "/mcp").header("Mcp-Session-Id", "session-1");
    assert_eq!(closed.send().await.status, 200);
    measured.proxy.stop().await;
    let exports = receiver.finish().await;
    let calls = |with: &[(&str, &str)]| exports.count("mcp.server.operation.duration", with);
    assert_eq!(calls(&[("gen_ai.tool.name", "broken"), ("error.type", "tool_error")]), 1.0, "{exports:#?}");
    // Tools without a successful response are not recorded by name.
    let unknown =
        [("gen_ai.tool.name", "other"), ("error.type", "-32602"), ("rpc.response.status_code", "-32602")];
    assert_eq!(calls(&unknown), 2.0);
    assert_eq!(calls(&[("mcp.method.name", "tools/call")]), 4.0);
    assert!(exports.span("tools/call broken").failed && exports.span("tools/call missing").failed);
    assert!(!exports.span("tools/call add").failed);
    assert_eq!(exports.count("mcpm.denials", &[("mcpm.denial.layer", "tools")]), 1.0, "{exports:#?}");
    let refused = |name: &str| {
        exports
            .spans
            .iter()
            .any(|span| span.name == name && span.attributes.contains_key("mcpm.denial.reason"))
    };
    assert!(refused("filter") && refused("tools/call hidden"), "{exports:#?}");
    assert_eq!(exports.count("mcp.server.session.duration", &[("mcp.protocol.version", "2025-11-25")]), 1.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_span_names_whoever_calls_and_believes_only_a_trusted_proxy_in_front() {
    for trusted in [false, true] {
        let receiver = OtlpReceiver::start("").await;
        let measured = measured_proxy(|proxy| {
            let proxy = proxy.otel_endpoint(format!("http://{}", receiver.http)).otel_sampling_rate(1.0);
            proxy.trust_proxy_headers(trusted)
        })
        .await;
        let request = measured.http.post("/mcp", call("add", ""));
        let request = request.header("X-Forwarded-For", "198.51.100.1, 203.0.113.7");
        let request = request.header("X-Forwarded-Host", "mcp.example:8443");
        assert_eq!(request.header("X-Forwarded-Proto", "https").send().await.status, 200);
        let own = measured.proxy.address().unwrap();
        measured.proxy.stop().await;
        let exports = receiver.finish().await;
        let span = exports.span("tools/call add").attributes.clone();
        let said = |key: &str| span.get(key).map(String::as_str);
        assert_eq!(said("network.peer.address"), Some("127.0.0.1"));
        assert!(said("network.peer.port").unwrap().parse::<u16>().unwrap() > 0);
        assert_eq!(
            (said("network.protocol.name"), said("network.protocol.version")),
            (Some("http"), Some("1.1"))
        );
        assert_eq!(said("mcp.server.name"), Some("measured"));
        let port = own.port().to_string();
        let (client, expected) = match trusted {
            true => ("203.0.113.7", ("https", "mcp.example", "8443")),
            false => ("127.0.0.1", ("http", "127.0.0.1", port.as_str())),
        };
        assert_eq!(said("client.address"), Some(client), "{span:#?}");
        assert_eq!(said("client.port"), said("network.peer.port").filter(|_| !trusted));
        let (scheme, host, port) = expected;
        assert_eq!(
            (said("url.scheme"), said("server.address"), said("server.port")),
            (Some(scheme), Some(host), Some(port)),
        );
        let labels = exports.points.iter().flat_map(|(_, labels, _)| labels.keys());
        assert!(labels.into_iter().all(|label| !label.contains("client") && !label.contains("peer")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn otel_variables_fill_unset_options() {
    let receiver = OtlpReceiver::start("").await;
    let measured = measured_proxy(|proxy| {
        let variables = [
            ("OTEL_SERVICE_NAME", "by-variable"),
            ("OTEL_RESOURCE_ATTRIBUTES", "team=variable,zone=north%20east"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let proxy = proxy.otel_endpoint(format!("http://{}", receiver.http)).otel_sampling_rate(1.0);
        proxy.otel_custom_attributes(Attributes::from_iter([("team", "option")])).environment(Environment {
            variables: variables.into_iter().collect(),
            ..Environment::from_lookup(|_| None)
        })
    })
    .await;
    assert_eq!(measured.http.post("/mcp", call("add", "")).send().await.status, 200);
    measured.proxy.stop().await;
    let resource = receiver.finish().await.resource;
    for (key, value) in [("service.name", "by-variable"), ("team", "option"), ("zone", "north east")] {
        assert_eq!(resource.get(key).map(String::as_str), Some(value), "{resource:?}");
    }
}

/// The metrics of a stdio server.
fn spec(receiver: &OtlpReceiver) -> TelemetrySpec {
    TelemetrySpec {
        service_name: "piped".to_owned(),
        attributes: std::collections::BTreeMap::default(),
        legacy: false,
        prometheus: false,
        prometheus_port: None,
        otlp: Some(OtlpSpec {
            endpoint: format!("http://{}", receiver.http),
            protocol: OtlpProtocol::Http,
            ca_bundle: None,
            headers: Vec::new(),
            tracing: true,
            metrics: true,
            sampling_rate: 1.0,
            variables: Vec::new(),
        }),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stdio_server_gets_the_trace_context_in_meta() {
    let receiver = OtlpReceiver::start("").await;
    let script = ScriptedServer::new(env!("CARGO_BIN_EXE_scripted-server")).await;
    let spec = ProxySpec { telemetry: Some(spec(&receiver)), ..ProxySpec::default() };
    let proxy = StdioProxy::new("piped", script.process(&[])).spec(spec);
    let mut bridge = script.serve(proxy).await;
    let session = Session::open(bridge.http).await;
    let answer = session.call("c", "echo", json!({"text": "hello"})).await;
    assert_eq!(answer["id"], "c", "{answer}");
    let got = bridge.process.received("tools/call").await;
    let place = got["params"]["_meta"]["traceparent"].as_str().unwrap().to_owned();
    bridge.running.stop(std::time::Duration::from_secs(5)).await;
    let exports: OtlpExports = receiver.finish().await;
    let server = exports.span("tools/call echo").clone();
    let of_call: Vec<_> = exports.spans.iter().filter(|span| span.trace == server.trace).collect();
    let backend = of_call.iter().find(|span| span.name == "backend").unwrap();
    assert_eq!(place, format!("00-{}-{}-01", server.trace, backend.id));
    assert_eq!((backend.attributes["network.transport"].as_str(), backend.failed), ("pipe", false));
    assert!(of_call.iter().any(|span| span.name == "queue" && span.parent == backend.id));
    assert_eq!(exports.count("mcp.server.session.duration", &[]), 1.0);
}
