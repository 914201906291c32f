//! Tests collectors with a certificate of a private authority.

use mcpm::{Proxy, options::OtlpProtocol};
use mcpm_tests::harness::certificate_authority::CertificateAuthority;

use super::fixture::{OtlpReceiver, call, measured_proxy};

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_of_a_private_authority_is_trusted_when_that_is_named() {
    let authority = CertificateAuthority::new();
    for protocol in [OtlpProtocol::Http, OtlpProtocol::Grpc] {
        let receiver = OtlpReceiver::over_tls(&authority).await;
        let at = if protocol == OtlpProtocol::Http { &receiver.http } else { &receiver.grpc };
        let measured = measured_proxy(|proxy| {
            let proxy = proxy.otel_endpoint(at.clone()).otel_protocol(protocol).otel_sampling_rate(1.0);
            proxy.mcpm_ca_bundle(&authority.certificate)
        })
        .await;
        assert_eq!(measured.http.post("/mcp", call("add", "")).send().await.status, 200);
        measured.proxy.stop().await;
        let exports = receiver.finish().await;
        assert_eq!(exports.span("tools/call add").attributes["gen_ai.tool.name"], "add");
        let of_call = [("mcp.method.name", "tools/call")];
        assert_eq!(exports.count("mcp.server.operation.duration", &of_call), 1.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_not_trusted_gets_nothing_and_harms_no_call() {
    let (authority, other) = (CertificateAuthority::new(), CertificateAuthority::new());
    for protocol in [OtlpProtocol::Http, OtlpProtocol::Grpc] {
        for trusted in [None, Some(&other)] {
            let receiver = OtlpReceiver::over_tls(&authority).await;
            let at = if protocol == OtlpProtocol::Http { &receiver.http } else { &receiver.grpc };
            let measured = measured_proxy(|proxy| {
                let proxy = proxy.otel_endpoint(at.clone()).otel_protocol(protocol).otel_sampling_rate(1.0);
                match trusted {
                    Some(authority) => proxy.mcpm_ca_bundle(&authority.certificate),
                    None => proxy,
                }
            })
            .await;
            assert_eq!(measured.http.post("/mcp", call("add", "")).send().await.status, 200);
            measured.proxy.stop().await;
            assert_eq!(receiver.finish().await.text, "");
        }
    }
}

#[test]
fn certificates_that_cannot_be_read_are_refused_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "no certificate").unwrap();
    for (path, said) in
        [(folder.path().join("missing.pem"), "missing.pem"), (empty, "it contains no certificate")]
    {
        let proxy = Proxy::builder("p", "http://127.0.0.1:9/mcp").otel_endpoint("https://collector.example");
        let error = proxy.mcpm_ca_bundle(path).build().unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
}
