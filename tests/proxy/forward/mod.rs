//! A proxy in front of a server that speaks HTTP passes everything on as it is.

mod faults;
mod requests;
mod sessions;
mod streams;

use mcpm::proxy::{Proxy, RunningProxy};
use mcpm_tests::harness::{
    http::{Http, Request, Response},
    upstream::{Connection, ReceivedRequest, Upstream},
    with_timeout,
};

/// A proxy and the server behind it.
struct ForwardFixture {
    upstream: Upstream,
    http: Http,
    running: RunningProxy,
}

impl ForwardFixture {
    /// A proxy whose target has this path.
    async fn of(path: &str) -> Self {
        let upstream = Upstream::listen().await;
        let proxy = Proxy::builder("up", upstream.uri(path)).build().unwrap();
        let running = with_timeout("the proxy to start", proxy.start()).await.unwrap();
        Self { upstream, http: Http(running.address().unwrap()), running }
    }

    /// Sends a request through the proxy and answers it; returns what the server saw and the client got.
    async fn exchange(
        &self,
        request: Request,
        status: &str,
        headers: &str,
        body: &str,
    ) -> (ReceivedRequest, Response) {
        let answering = async {
            let (mut connection, received) = self.upstream.request().await;
            connection.answer(status, headers, body).await;
            received
        };
        tokio::join!(answering, request.send())
    }

    /// Sends a request and hands out both ends.
    async fn begin(
        &self,
        request: Request,
    ) -> (tokio::task::JoinHandle<Response>, Connection, ReceivedRequest) {
        let response = tokio::spawn(request.send());
        let (connection, received) = self.upstream.request().await;
        (response, connection, received)
    }
}
