//! Terminates TLS in front of a plain HTTP server, with a certificate of a private authority.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig, crypto,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    },
};

use super::certificate_authority::CertificateAuthority;

/// Terminates TLS and relays the bytes to a server, until it is dropped.
#[derive(Debug)]
pub struct TlsTerminator {
    address: SocketAddr,
    runtime: Option<Runtime>,
}

impl TlsTerminator {
    /// Listens on a free port of 127.0.0.1, in front of the server at `backend`.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn start(authority: &CertificateAuthority, backend: &str) -> Self {
        let certificates = CertificateDer::pem_file_iter(&authority.server).unwrap().map(Result::unwrap);
        let key = PrivateKeyDer::from_pem_file(&authority.key).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(certificates.collect(), key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let runtime = Runtime::new().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let backend = backend.to_owned();
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(relay(acceptor.clone(), stream, backend.clone()));
            }
        });
        Self { address, runtime: Some(runtime) }
    }

    /// Its host and port.
    pub fn address(&self) -> String {
        self.address.to_string()
    }
}

/// A client that does not trust the certificate ends the handshake, which is not an error of the terminator.
async fn relay(acceptor: TlsAcceptor, stream: TcpStream, backend: String) -> Option<()> {
    let mut client = acceptor.accept(stream).await.ok()?;
    let mut server = TcpStream::connect(backend).await.ok()?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await.ok().map(drop)
}

impl Drop for TlsTerminator {
    fn drop(&mut self) {
        // A test that has its own runtime must not wait for this task.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
