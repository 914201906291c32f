//! Opens HTTP/2 connections without a pool, for gRPC.

use http::Uri;
use hyper_rustls::{HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service as _;

use super::{Connector, PROXIES, connect_error, is_https};
use crate::{Result, transport::tls::TrustStore};

/// Opens an HTTP/2 connection, with TLS for an `https` URL.
///
/// # Errors
/// `Upstream` if the server cannot be reached; `Io` if the machine's certificates cannot be read.
pub(crate) async fn connect_http2(
    trust: &TrustStore,
    uri: Uri,
) -> Result<MaybeHttpsStream<TokioIo<TcpStream>>> {
    let connector = Connector::new(None, &PROXIES);
    let connected = if is_https(&uri) {
        let config = trust.connector()?.config().as_ref().clone();
        let builder = HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http2();
        builder.wrap_connector(connector).call(uri.clone()).await
    } else {
        connector.connect(uri.clone()).await.map(MaybeHttpsStream::Http)
    };
    connected.map_err(|error| connect_error(&uri, error))
}
