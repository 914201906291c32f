//! TLS towards a server, with the roots this machine trusts.

use std::{io, path::Path, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use rustls_platform_verifier::{BuilderVerifierExt as _, Verifier};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{Error, ErrorKind, Result};

/// Reads the machine's trusted roots; costs some milliseconds, so it is done at the first use.
pub(super) fn connector() -> io::Result<TlsConnector> {
    Ok(TlsConnector::from(Arc::new(of_machine()?)))
}

/// Trusts the certificates of a PEM file beside those roots, if one is named.
///
/// # Errors
/// `InvalidOption` for a file that cannot be read or holds no certificate.
pub(crate) fn connector_with(bundle: Option<&Path>) -> Result<TlsConnector> {
    Ok(TlsConnector::from(Arc::new(config(bundle)?)))
}

/// The same for connections that HTTP/2 is spoken on.
///
/// # Errors
/// As [`connector_with`].
pub(crate) fn for_http2_with(bundle: Option<&Path>) -> Result<TlsConnector> {
    let mut config = config(bundle)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn of_machine() -> io::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_platform_verifier())
        .map_err(io::Error::other)?
        .with_no_client_auth();
    Ok(config)
}

fn config(bundle: Option<&Path>) -> Result<ClientConfig> {
    let unfit = |error: Box<dyn std::error::Error + Send + Sync>| {
        Error::new(ErrorKind::Io, "the certificates that this machine trusts cannot be read").source(error)
    };
    let Some(path) = bundle else { return of_machine().map_err(|error| unfit(error.into())) };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new_with_extra_roots(read_bundle(path)?, Arc::clone(&provider))
        .map_err(|error| refused(path, &error.to_string()))?;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unfit(error.into()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(config)
}

/// Whether a connection failed because the other side's certificate is of nobody who is trusted.
pub(crate) fn is_distrust(error: &io::Error) -> bool {
    let tls = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    matches!(tls, Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)))
}

/// Reads the certificates of a PEM file, and checks that each can be trusted. It costs less than
/// [`connector_with`], which reads those of the machine as well.
///
/// # Errors
/// `InvalidOption` for a file that cannot be read or holds no certificate.
pub(crate) fn read_bundle(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found = found.map_err(|error| refused(path, &error.to_string()))?;
    if found.is_empty() {
        return Err(refused(path, "there is none in PEM form"));
    }
    let mut roots = RootCertStore::empty();
    for certificate in &found {
        roots.add(certificate.clone()).map_err(|error| refused(path, &error.to_string()))?;
    }
    Ok(found)
}

fn refused(path: &Path, why: &str) -> Error {
    let message = format!("cannot use the certificates in `{}`: {why}", path.display());
    Error::new(ErrorKind::InvalidOption, message)
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
