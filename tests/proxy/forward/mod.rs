//! Tests a proxy in front of an HTTP server: which parts of requests, responses and streams pass unchanged, and what
//! happens to lost sessions and connections.

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
    /// Starts a proxy whose target has this path.
    async fn of(path: &str) -> Self {
        let upstream = Upstream::listen().await;
        let proxy = Proxy::builder("up", upstream.uri(path)).build().unwrap();
        let running = with_timeout("the proxy to start", proxy.start()).await.unwrap();
        Self { upstream, http: Http(running.address().unwrap()), running }
    }

    /// Sends a request through the proxy and responds to it; returns the request that the server received and the
    /// response that the client received.
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

    /// Sends a request, and returns both connections.
    async fn begin(
        &self,
        request: Request,
    ) -> (tokio::task::JoinHandle<Response>, Connection, ReceivedRequest) {
        let response = tokio::spawn(request.send());
        let (connection, received) = self.upstream.request().await;
        (response, connection, received)
    }
}
