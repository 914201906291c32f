//! Creates a certificate authority that the machine does not trust, and a certificate for servers on this machine.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The authority and the certificate, as files that are removed at the end.
pub(crate) struct UnknownAuthority(tempfile::TempDir);

fn openssl(folder: &Path, arguments: &str) {
    let made = Command::new("openssl").current_dir(folder).args(arguments.split(' ')).output().unwrap();
    assert!(made.status.success(), "{arguments}: {}", String::from_utf8_lossy(&made.stderr));
}

impl UnknownAuthority {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let within = folder.path();
        let new = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
        openssl(within, &format!("req -x509 {new} -keyout ca.key -out ca.pem -subj /CN=authority -days 2"));
        openssl(within, &format!("req {new} -keyout key.pem -out request.pem -subj /CN=localhost"));
        fs::write(within.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").unwrap();
        let signs = "-CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names";
        openssl(within, &format!("x509 -req -in request.pem {signs} -out certificate.pem"));
        Self(folder)
    }

    /// The certificate that clients must trust.
    pub(crate) fn bundle(&self) -> PathBuf {
        self.0.path().join("ca.pem")
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.0.path().join("certificate.pem")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.0.path().join("key.pem")
    }
}
