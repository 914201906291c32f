//! Connections that others speak HTTP/2 on, such as gRPC does.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::Uri;
use hyper_util::rt::TokioIo;
use tower_service::Service;

use super::{Http1Client, stream::Stream};
use crate::{Error, Result};

/// Opens connections as a client of requests does, with the same limits.
#[derive(Clone)]
pub(crate) struct Connector {
    client: Arc<Http1Client>,
    failed: Arc<dyn Fn(&Error) + Send + Sync>,
}

impl Connector {
    /// `failed` is told why there is no connection: who speaks HTTP/2 keeps that to itself.
    pub(crate) fn new(client: Http1Client, failed: impl Fn(&Error) + Send + Sync + 'static) -> Self {
        Self { client: Arc::new(client), failed: Arc::new(failed) }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<Stream>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// The URI is that of the endpoint, and so the address that is known already.
    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { client, failed } = self.clone();
        Box::pin(async move {
            client
                .with_connect_timeout(client.open())
                .await
                .map(TokioIo::new)
                .inspect_err(|error| failed(error))
        })
    }
}
