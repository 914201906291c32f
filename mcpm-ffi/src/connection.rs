//! Exports the connection type to Python and Swift: JSON-RPC messages to and from a server whose proxy runs in the same
//! process.

use std::sync::Arc;

use crate::{McpmError, connection_handle::ConnectionHandle, executor};

/// A connection to a server from this process, which needs no port.
///
/// It transports JSON-RPC messages in both directions. Requests pass through all layers of the proxy, as if they had
/// arrived at its port: authentication, tool filters, policies and the audit log apply. The connection ends when the
/// workload or proxy stops, or when the server has lost the session and cannot continue it.
#[derive(Debug, uniffi::Object)]
pub struct Connection(Arc<ConnectionHandle>);

impl Connection {
    pub(crate) fn new(handle: Arc<ConnectionHandle>) -> Arc<Self> {
        Arc::new(Self(handle))
    }
}

#[uniffi::export]
impl Connection {
    /// Sends one JSON-RPC message. Responses are received with `receive`. If the caller is cancelled, the message is
    /// still sent.
    pub async fn send(&self, message: String) -> Result<(), McpmError> {
        let handle = Arc::clone(&self.0);
        // Half a message would make the connection unusable, so a caller cannot cancel it.
        Ok(executor::spawn_cancellable(async move { handle.send(&message).await })?.join().await?)
    }

    /// Waits for the next JSON-RPC message from the server; returns none after the end of the connection.
    // Needs none of mcpm's threads: the sender wakes the waiting task.
    pub async fn receive(&self) -> Result<Option<String>, McpmError> {
        Ok(self.0.receive().await?)
    }

    /// Ends the connection. mcpm waits up to 2 s for pending responses, which can still be received.
    pub async fn close(&self) -> Result<(), McpmError> {
        Ok(self.0.close().await?)
    }
}
