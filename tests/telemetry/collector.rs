//! Tests a real collector between the proxy and the receiver. Building the collector takes minutes, so only nightly
//! runs use it.

use std::{fs, net::TcpListener, process::Stdio};

use mcpm::options::OtlpProtocol;
use mcpm_tests::harness::{certificate_authority::CertificateAuthority, poll, testbed};
use serde_json::{Value, json};
use tokio::{net::TcpStream, process::Command};

use super::fixture::{OtlpExports, OtlpReceiver, call, measured_proxy};

fn free() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Accepts both protocols, and forwards what it understood.
fn config(http: &str, grpc: &str, authority: Option<&CertificateAuthority>, to: &str) -> Value {
    let tls = authority.map(|own| json!({ "cert_file": own.server, "key_file": own.key }));
    let at = |endpoint: &str| match &tls {
        Some(tls) => json!({ "endpoint": endpoint, "tls": tls }),
        None => json!({ "endpoint": endpoint }),
    };
    let pipeline = json!({ "receivers": ["otlp"], "exporters": ["otlphttp"] });
    json!({
        "receivers": { "otlp": { "protocols": { "http": at(http), "grpc": at(grpc) } } },
        "exporters": { "otlphttp": { "endpoint": format!("http://{to}"), "compression": "none" } },
        "service": {
            "telemetry": { "metrics": { "level": "none" } },
            "pipelines": { "traces": pipeline, "metrics": pipeline },
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "nightly: the collector takes minutes to compile"]
async fn a_real_collector_takes_both_protocols_with_and_without_tls() {
    let own = CertificateAuthority::new();
    for (protocol, authority) in [
        (OtlpProtocol::Http, None),
        (OtlpProtocol::Grpc, None),
        (OtlpProtocol::Http, Some(&own)),
        (OtlpProtocol::Grpc, Some(&own)),
    ] {
        let mut receiver = OtlpReceiver::start("").await;
        let folder = tempfile::tempdir().unwrap();
        let (http, grpc) = (free(), free());
        let file = folder.path().join("config.yaml");
        fs::write(&file, config(&http, &grpc, authority, &receiver.http).to_string()).unwrap();
        let _collector = Command::new(testbed::path("MCPM_TEST_COLLECTOR"))
            .arg(format!("--config={}", file.display()))
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let at = if protocol == OtlpProtocol::Http { http } else { grpc };
        poll::wait_for_async("the collector to listen", async || TcpStream::connect(&at).await.ok()).await;
        let measured = measured_proxy(|proxy| {
            let proxy = proxy.otel_protocol(protocol).otel_sampling_rate(1.0);
            match authority {
                Some(own) => proxy.otel_endpoint(format!("https://{at}")).mcpm_ca_bundle(&own.certificate),
                None => proxy.otel_endpoint(format!("http://{at}")),
            }
        })
        .await;
        assert_eq!(measured.http.post("/mcp", call("add", "")).send().await.status, 200);
        measured.proxy.stop().await;
        // It forwards each signal separately.
        let mut exports = OtlpExports::default();
        let mut forms = Vec::new();
        for _ in 0..2 {
            let (form, said) = receiver.next().await;
            forms.push(form);
            exports.add(&said["export"]);
        }
        forms.sort();
        assert_eq!(forms, ["http metrics", "http traces"]);
        let span = exports.span("tools/call add");
        assert_eq!((span.kind.as_str(), span.failed), ("SPAN_KIND_SERVER", false));
        assert_eq!(span.attributes["gen_ai.tool.name"], "add");
        assert_eq!(exports.span("backend").parent, span.id);
        let of_call = [("mcp.method.name", "tools/call")];
        assert_eq!(exports.count("mcp.server.operation.duration", &of_call), 1.0);
    }
}
