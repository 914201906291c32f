//! Creates a private certificate authority for a test, and a certificate for servers on this machine.

use std::{path::Path, process::Command};

/// The folder with its files, which is removed at the end.
pub struct CertificateAuthority {
    _folder: tempfile::TempDir,
    /// The authority's own certificate.
    pub certificate: String,
    /// A certificate for `localhost` and 127.0.0.1.
    pub server: String,
    /// The key of that certificate.
    pub key: String,
}

impl CertificateAuthority {
    /// Creates an authority with `openssl`.
    ///
    /// # Panics
    /// If that fails.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (certificate, own) = (path("authority.pem"), path("authority.key"));
        let (server, key) = (path("server.pem"), path("server.key"));
        make(folder.path(), &["-subj", "/CN=authority", "-out", &certificate, "-keyout", &own]);
        let names = "subjectAltName=DNS:localhost,IP:127.0.0.1";
        let of_server = ["-subj", "/CN=server", "-addext", names, "-addext", "basicConstraints=CA:FALSE"];
        let by = ["-CA", &certificate, "-CAkey", &own, "-out", &server, "-keyout", &key];
        make(folder.path(), &[&of_server[..], &by].concat());
        Self { _folder: folder, certificate, server, key }
    }
}

impl Default for CertificateAuthority {
    fn default() -> Self {
        Self::new()
    }
}

fn make(folder: &Path, more: &[&str]) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args(["-days", "2"])
        .args(more)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}
