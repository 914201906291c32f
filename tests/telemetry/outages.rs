//! Tests collectors that are unreachable, slow or reject exports: requests are not affected, and stopping is not
//! delayed beyond its limit.

use std::net::TcpListener;

use mcpm::options::OtlpProtocol;
use mcpm_tests::harness::with_timeout;

use super::fixture::{OtlpReceiver, call, measured_proxy};

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_or_hangs_delays_nothing() {
    for protocol in [OtlpProtocol::Http, OtlpProtocol::Grpc] {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        for mode in ["away", "--hang", "--refuse"] {
            let receiver = if mode == "away" { None } else { Some(OtlpReceiver::start(mode).await) };
            let at = receiver.as_ref().map_or(&closed, |receiver| match protocol {
                OtlpProtocol::Http => &receiver.http,
                OtlpProtocol::Grpc => &receiver.grpc,
            });
            let measured = measured_proxy(|proxy| {
                let proxy = proxy.otel_endpoint(format!("http://{at}")).otel_sampling_rate(1.0);
                proxy.otel_protocol(protocol)
            })
            .await;
            for _ in 0..20 {
                assert_eq!(measured.http.post("/mcp", call("add", "")).send().await.status, 200);
            }
            with_timeout("the proxy to stop", measured.proxy.stop()).await;
        }
    }
}

#[tokio::test]
async fn a_dropped_proxy_flushes_telemetry_without_blocking() {
    // The runtime has a single thread, which is this one.
    let mut receiver = OtlpReceiver::start("").await;
    let measured = measured_proxy(|proxy| {
        let proxy = proxy.otel_endpoint(format!("http://{}", receiver.http)).otel_sampling_rate(1.0);
        proxy.otel_metrics_enabled(false)
    })
    .await;
    assert_eq!(measured.http.post("/mcp", call("add", "")).send().await.status, 200);
    drop(measured);
    let (form, export) = receiver.next().await;
    assert_eq!(form, "http traces");
    assert!(export.to_string().contains("tools/call add"), "{export}");
}
