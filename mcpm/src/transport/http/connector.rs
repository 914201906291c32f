//! Connections that others speak HTTP/2 on, such as gRPC does.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::Uri;
use hyper_util::rt::TokioIo;
use tower_service::Service;

use super::{Address, Client, stream::Stream};
use crate::{Error, ErrorKind, Result, transport::tls};

/// Opens connections to one server, with the same limits and the same roots as requests to others.
#[derive(Debug, Clone)]
pub(crate) struct Connector(Arc<Client>);

impl Connector {
    /// Reads the machine's trusted roots if it is to speak TLS.
    ///
    /// # Errors
    /// `Io` when they cannot be read.
    pub(crate) fn new(address: Address) -> Result<Self> {
        let is_tls = address.tls;
        let mut client = Client::new(address);
        if is_tls {
            let unfit = |error: std::io::Error| {
                Error::new(ErrorKind::Io, "the certificates that this machine trusts cannot be read")
                    .source(error)
            };
            client.tls = tls::for_http2().map_err(unfit)?.into();
        }
        Ok(Self(Arc::new(client)))
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
        let client = Arc::clone(&self.0);
        Box::pin(async move { client.in_time(client.open()).await.map(TokioIo::new) })
    }
}
