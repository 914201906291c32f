//! TLS towards a server, with the roots this machine trusts.

use std::{io, sync::Arc};

use rustls::{ClientConfig, pki_types::ServerName};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Reads the machine's trusted roots; costs some milliseconds, so it is done at the first use.
pub(super) fn connector() -> io::Result<TlsConnector> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_platform_verifier())
        .map_err(io::Error::other)?
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Speaks TLS on a connection to `host`.
pub(super) async fn connect(
    tls: &TlsConnector,
    host: &str,
    stream: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    tls.connect(name, stream).await
}
