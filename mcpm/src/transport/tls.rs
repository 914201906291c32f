//! Opens TLS connections to servers, and loads the trusted certificate authorities.

use std::{
    io,
    path::Path,
    sync::{Arc, OnceLock},
};

use rustls::{
    CertificateError, ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use rustls_platform_verifier::Verifier;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{Error, ErrorKind, Result};

/// The certificate authorities that a TLS client trusts: those of this machine, and those of an additional bundle.
///
/// Clones share one configuration. It is loaded for the first connection, because reading the machine's root
/// certificates takes some milliseconds.
#[derive(Clone, Default)]
pub(crate) struct TrustStore(Arc<TrustConfig>);

#[derive(Default)]
struct TrustConfig {
    bundle: Vec<CertificateDer<'static>>,
    connector: OnceLock<TlsConnector>,
}

impl TrustStore {
    /// Reads the certificates of a PEM file, if one is given.
    ///
    /// # Errors
    /// `InvalidOption` for a file that cannot be read or contains no certificate.
    pub(crate) fn with_bundle(bundle: Option<&Path>) -> Result<Self> {
        let bundle = bundle.map(read_bundle).transpose()?.unwrap_or_default();
        Ok(Self(Arc::new(TrustConfig { bundle, connector: OnceLock::new() })))
    }

    /// Returns the connector that trusts these authorities.
    ///
    /// # Errors
    /// `Io` if the machine's roots cannot be read.
    pub(crate) fn connector(&self) -> Result<&TlsConnector> {
        if let Some(connector) = self.0.connector.get() {
            return Ok(connector);
        }
        let connector = TlsConnector::from(Arc::new(config(self.0.bundle.clone())?));
        Ok(self.0.connector.get_or_init(|| connector))
    }
}

impl std::fmt::Debug for TrustStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TrustStore({} beside the machine's)", self.0.bundle.len())
    }
}

fn config(bundle: Vec<CertificateDer<'static>>) -> Result<ClientConfig> {
    let unfit = |error: rustls::Error| {
        Error::new(ErrorKind::Io, "cannot read the certificates that this machine trusts").source(error)
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = match bundle.is_empty() {
        true => Verifier::new(Arc::clone(&provider)),
        false => Verifier::new_with_extra_roots(bundle, Arc::clone(&provider)),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unfit)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier.map_err(unfit)?))
        .with_no_client_auth();
    Ok(config)
}

/// The hint for an error of [`is_untrusted_issuer`].
pub(crate) const UNTRUSTED_ISSUER_HINT: &str =
    "set `mcpm_ca_bundle` to a file with the certificate of the issuing authority";

/// Whether a connection failed because no trusted authority issued the server's certificate.
pub(crate) fn is_untrusted_issuer(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    cause.is_some_and(is_untrusted_issuer_failure)
}

/// Whether a handshake failed because no trusted authority issued the server's certificate.
pub(crate) fn is_untrusted_issuer_failure(error: &io::Error) -> bool {
    // The signature is invalid if a trusted authority has the issuer's name but another key.
    matches!(
        handshake_error(error),
        Some(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature
        ))
    )
}

/// Whether a handshake failed, for any reason.
#[cfg(any(feature = "verify", all(feature = "builtin", target_os = "linux")))]
pub(crate) fn is_handshake_failure(error: &io::Error) -> bool {
    handshake_error(error).is_some()
}

fn handshake_error(error: &io::Error) -> Option<&rustls::Error> {
    let mut cause = error.get_ref();
    // Clients wrap the error of a handshake in further errors.
    while let Some(wrapped) = cause.and_then(|cause| cause.downcast_ref::<io::Error>()) {
        cause = wrapped.get_ref();
    }
    cause.and_then(|cause| cause.downcast_ref())
}

/// Reads the certificates of a PEM file, and checks that each can be trusted.
fn read_bundle(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found = found.map_err(|error| invalid_bundle(path, &error.to_string()))?;
    if found.is_empty() {
        return Err(invalid_bundle(path, "it contains no certificate in PEM form"));
    }
    let mut roots = RootCertStore::empty();
    for certificate in &found {
        roots.add(certificate.clone()).map_err(|error| invalid_bundle(path, &error.to_string()))?;
    }
    Ok(found)
}

fn invalid_bundle(path: &Path, why: &str) -> Error {
    let message = format!("cannot use the certificates in `{}`: {why}", path.display());
    Error::new(ErrorKind::InvalidOption, message)
        .hint("set `mcpm_ca_bundle` to a PEM file with the certificates of authorities")
}

/// Performs the TLS handshake with `host` on a connection.
pub(super) async fn connect(
    tls: &TlsConnector,
    host: &str,
    stream: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    tls.connect(name, stream).await
}
