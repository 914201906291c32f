//! Connections to a proxy from its own process, without a port.

use std::{io, sync::Arc};

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::target::Target;
use crate::{Result, platform::LocalStream, transport::http::Dial};

/// Maximum number of connections from the process of the proxy.
const MAX_IN_PROCESS_CONNECTIONS: usize = 256;
/// Connections that wait to be accepted.
const MAX_WAITING_CONNECTIONS: usize = 16;

/// A connection, and its permit.
pub(super) type InProcessConnection = (LocalStream, OwnedSemaphorePermit);

/// Opens connections to a proxy of this process.
#[derive(Debug, Clone)]
pub(crate) struct InProcessConnector {
    connections: mpsc::Sender<InProcessConnection>,
    permits: Arc<Semaphore>,
}

impl InProcessConnector {
    /// Creates a connector, and the queue of the connections that it opens.
    pub(super) fn new() -> (Self, mpsc::Receiver<InProcessConnection>) {
        let (connections, queue) = mpsc::channel(MAX_WAITING_CONNECTIONS);
        (Self { connections, permits: Arc::new(Semaphore::new(MAX_IN_PROCESS_CONNECTIONS)) }, queue)
    }
}

/// The endpoint of a proxy for clients in its process.
#[derive(Debug)]
pub(crate) struct InProcessEndpoint {
    pub(super) connector: InProcessConnector,
    /// The value of the `Host` header.
    pub(super) authority: String,
    pub(super) path: String,
}

impl InProcessEndpoint {
    pub(super) fn target(&self) -> Result<Target> {
        let target = Target::parse(&format!("http://{}{}", self.authority, self.path))?;
        Ok(target.with_dialer(Arc::new(self.connector.clone())))
    }
}

#[async_trait]
impl Dial for InProcessConnector {
    async fn dial(&self) -> io::Result<LocalStream> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().map_err(|_| {
            let message = format!("{MAX_IN_PROCESS_CONNECTIONS} connections are open in this process");
            io::Error::new(io::ErrorKind::QuotaExceeded, message)
        })?;
        let (ours, theirs) = LocalStream::pair()?;
        let stopped = |_| io::Error::new(io::ErrorKind::ConnectionRefused, "the proxy has stopped");
        self.connections.send((theirs, permit)).await.map_err(stopped)?;
        Ok(ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_are_bounded() {
        let (connector, mut queue) = InProcessConnector::new();
        let mut open = Vec::new();
        for _ in 0..MAX_IN_PROCESS_CONNECTIONS {
            let ours = connector.dial().await.expect("a connection");
            open.push((ours, queue.recv().await.expect("its other end")));
        }
        let refused = connector.dial().await.expect_err("one more");
        assert_eq!(refused.kind(), io::ErrorKind::QuotaExceeded);
        open.pop();
        connector.dial().await.expect("a connection in place of the closed one");
        drop(queue);
        open.pop();
        let refused = connector.dial().await.expect_err("nobody accepts it");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
