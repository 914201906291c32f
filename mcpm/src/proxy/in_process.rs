//! Connects clients in the proxy's own process to the proxy, without a port.

use std::sync::{Arc, Weak};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{
    listener::DRAIN_TIMEOUT,
    observe::Peer,
    respond::{Request, Response},
    stack::Stack,
    target::Target,
};
use crate::{Error, ErrorKind, Result};

/// Maximum number of connections from the process of the proxy.
const MAX_IN_PROCESS_CONNECTIONS: u32 = 256;

/// The endpoint of a proxy for clients in its process.
#[derive(Debug)]
pub(crate) struct InProcessEndpoint {
    /// Cannot be upgraded once the proxy has stopped.
    stack: Weak<Stack>,
    permits: Arc<Semaphore>,
    /// The value of the `Host` header.
    authority: String,
    pub(super) path: String,
}

/// A connection to a proxy of this process.
#[derive(Debug)]
pub(crate) struct InProcessConnection {
    stack: Weak<Stack>,
    _permit: OwnedSemaphorePermit,
}

impl InProcessEndpoint {
    pub(super) fn new(stack: Weak<Stack>, authority: String, path: String) -> Self {
        let permits = Arc::new(Semaphore::new(MAX_IN_PROCESS_CONNECTIONS as usize));
        Self { stack, permits, authority, path }
    }

    /// Returns the layers of the proxy; `None` once it has stopped.
    pub(super) fn stack(&self) -> Option<Arc<Stack>> {
        self.stack.upgrade()
    }

    /// Returns the URL of the endpoint, which nothing but a [connection](Self::connect) can reach.
    pub(super) fn target(&self) -> Result<Target> {
        Target::parse(&format!("http://{}{}", self.authority, self.path))
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// `Upstream` if too many are open, or if the proxy has stopped.
    pub(super) fn connect(&self) -> Result<InProcessConnection> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().map_err(|_| {
            let message =
                format!("{MAX_IN_PROCESS_CONNECTIONS} connections are open in this process, the maximum");
            Error::new(ErrorKind::Upstream, message).hint("drop connections that are no longer used")
        })?;
        Ok(InProcessConnection { stack: Weak::clone(&self.stack), _permit: permit })
    }

    /// Waits briefly until all connections are closed.
    pub(super) async fn closed(&self) {
        // The connections close because the proxy stops.
        let _ = timeout(DRAIN_TIMEOUT, self.permits.acquire_many(MAX_IN_PROCESS_CONNECTIONS)).await;
    }
}

impl InProcessConnection {
    /// Handles a request like one that arrived at the port.
    ///
    /// # Errors
    /// `Upstream` if the proxy has stopped.
    pub(crate) async fn handle(&self, mut request: Request) -> Result<Response> {
        let stopped = || Error::new(ErrorKind::Upstream, "the proxy has stopped");
        let stack = self.stack.upgrade().ok_or_else(stopped)?;
        request.extensions_mut().insert(Peer::InProcess);
        // Boxed, because the future is large, and callers also contain that of the other way to a server.
        Ok(Box::pin(stack.handle(request)).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_are_bounded() {
        let endpoint = InProcessEndpoint::new(Weak::new(), "localhost".to_owned(), "/mcp".to_owned());
        let mut open = Vec::new();
        for _ in 0..MAX_IN_PROCESS_CONNECTIONS {
            open.push(endpoint.connect().expect("a connection"));
        }
        let refused = endpoint.connect().expect_err("one more");
        assert_eq!(refused.kind(), ErrorKind::Upstream);
        assert!(refused.to_string().starts_with("256 connections are open"), "{refused}");
        open.pop();
        open.push(endpoint.connect().expect("a connection in place of the closed one"));
        let stopped = open[0].handle(Request::new(crate::proxy::body::Body::empty())).await;
        assert_eq!(stopped.expect_err("it has stopped").to_string(), "the proxy has stopped");
        open.clear();
        endpoint.closed().await;
    }
}
