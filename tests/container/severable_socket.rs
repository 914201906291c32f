//! Provides a socket in front of the engine under test that can be closed, as if the engine had stopped.

use std::path::PathBuf;

use mcpm::{
    Result,
    image::credentials::CredentialStore,
    runtime::docker::{Docker, EngineEndpoint},
};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::timeout,
};

use super::support::{LIMIT, endpoint};

/// The socket, and the task that relays its connections.
pub(crate) struct SeverableSocket {
    folder: tempfile::TempDir,
    carrier: JoinHandle<()>,
    count: watch::Receiver<usize>,
}

impl SeverableSocket {
    pub(crate) async fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("engine.sock")).unwrap();
        let engine = PathBuf::from(endpoint().strip_prefix("unix://").unwrap());
        let (counter, count) = watch::channel(0);
        let carrier = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                let mut far = UnixStream::connect(&engine).await.unwrap();
                connections.spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
                counter.send_modify(|count| *count += 1);
            }
        });
        Self { folder, carrier, count }
    }

    /// Connects to the engine through this socket.
    pub(crate) async fn connect(&self) -> Result<Docker> {
        let socket = self.folder.path().join("engine.sock");
        Docker::connect(&EngineEndpoint::Unix(socket), CredentialStore::default()).await
    }

    /// Returns the number of connections that were relayed so far.
    pub(crate) fn count(&self) -> usize {
        *self.count.borrow()
    }

    /// Waits until this number of connections was relayed.
    pub(crate) async fn wait_for_connections(&self, number: usize) {
        let mut count = self.count.clone();
        timeout(LIMIT, count.wait_for(|count| *count >= number)).await.unwrap().unwrap();
    }

    /// Closes every connection and accepts no more.
    pub(crate) async fn sever(self) {
        self.carrier.abort();
        let _ = self.carrier.await;
    }
}
