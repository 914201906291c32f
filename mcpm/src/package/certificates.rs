//! Reads the certificate authorities (`ca_cert`) that a build and a server trust in addition to those of their image.

use std::{fmt, path::Path};

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use crate::{Error, ErrorKind, Result};

/// The path, in an image, of the file with only these authorities, for programs that add them to their own.
pub(crate) const CA_FILE: &str = "/etc/mcpm/ca.pem";
/// The path, in an image, of the file with these and the system's authorities, for programs that read a single file.
pub(crate) const CA_BUNDLE_FILE: &str = "/etc/mcpm/ca-bundle.pem";
/// Files in which operating systems keep the certificates that they trust.
pub(crate) const SYSTEM_CA_BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// The variables that name these files to programs.
pub(crate) const CA_VARIABLES: &[(&str, &str)] = &[
    ("SSL_CERT_FILE", CA_BUNDLE_FILE),
    ("REQUESTS_CA_BUNDLE", CA_BUNDLE_FILE),
    ("CURL_CA_BUNDLE", CA_BUNDLE_FILE),
    ("GIT_SSL_CAINFO", CA_BUNDLE_FILE),
    ("NODE_EXTRA_CA_CERTS", CA_FILE),
];

/// Certificates of a PEM file, without its other content.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Certificates(Vec<CertificateDer<'static>>);

impl Certificates {
    /// Reads a file.
    ///
    /// # Errors
    /// `NotFound` or `Io` when it cannot be read, `InvalidOption` when it contains no certificate or an invalid one.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read(path).map_err(|error| {
            let kind = match error.kind() {
                std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                _ => ErrorKind::Io,
            };
            Error::new(kind, format!("cannot read `{shown}`")).source(error)
        })?;
        let broken = |why: String| {
            Error::new(
                ErrorKind::InvalidOption,
                format!("`{shown}` does not contain valid certificates in PEM format"),
            )
            .source(why)
            .hint("set `ca_cert` to a file with `-----BEGIN CERTIFICATE-----`")
        };
        let mut all = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(&text) {
            let certificate = certificate.map_err(|error| broken(error.to_string()))?;
            RootCertStore::empty().add(certificate.clone()).map_err(|error| broken(error.to_string()))?;
            all.push(certificate);
        }
        if all.is_empty() { Err(broken("it contains no certificate".to_owned())) } else { Ok(Self(all)) }
    }

    /// Returns each certificate as a PEM file of its own, as the certificate stores of systems require.
    pub(super) fn files(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|certificate| pem(certificate))
    }

    /// Returns all of them as one PEM text.
    pub(crate) fn text(&self) -> String {
        self.files().collect()
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificates({})", self.0.len())
    }
}

fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(der);
    let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text + "-----END CERTIFICATE-----\n"
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
pub(crate) mod tests;
