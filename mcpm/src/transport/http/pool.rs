//! The pool of idle connections to one server.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{task::AbortHandle, time::Instant};

use super::connection::HttpConnection;

/// Idle time after which a connection is closed: common servers close idle connections after 5 s.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// How long connections are not reused after the server has closed one without a response.
const CLOSED_FOR: Duration = Duration::from_secs(60);
/// Maximum number of idle connections.
const MAX_IDLE_CONNECTIONS: usize = 256;

/// The idle connections to one server, newest last.
#[derive(Debug, Default)]
pub(super) struct ConnectionPool {
    idle: Mutex<IdleConnections>,
}

#[derive(Debug, Default)]
struct IdleConnections {
    connections: Vec<(Box<HttpConnection>, Instant)>,
    /// Connections are not reused before this time.
    closed_until: Option<Instant>,
    /// The task that closes connections that were idle for too long; it runs as long as there are idle connections.
    sweeper: Option<AbortHandle>,
}

impl ConnectionPool {
    /// Takes an open connection.
    pub(super) fn take(&self) -> Option<Box<HttpConnection>> {
        loop {
            let (mut connection, since) = self.lock().connections.pop()?;
            if since.elapsed() > IDLE_TIMEOUT {
                // The other connections are even older.
                self.lock().connections.clear();
                return None;
            }
            // The server may have closed the connection.
            if connection.is_open_and_idle() {
                return Some(connection);
            }
        }
    }

    /// Returns a connection to the pool after its last response was read to the end.
    pub(super) fn put(self: &Arc<Self>, connection: Box<HttpConnection>) {
        let mut idle = self.lock();
        if idle.closed_until.is_some_and(|until| until > Instant::now()) {
            return;
        }
        idle.closed_until = None;
        if idle.connections.len() < MAX_IDLE_CONNECTIONS {
            idle.connections.push((connection, Instant::now()));
        }
        if idle.sweeper.is_none() {
            idle.sweeper = Some(self.sweep());
        }
    }

    /// Closes the pool for a while: the server closes connections without notice, or was restarted.
    pub(super) fn close(&self) {
        let mut idle = self.lock();
        if idle.closed_until.is_none() {
            tracing::debug!(
                "the server closes idle connections without notice, so connections are not reused for a while"
            );
        }
        idle.closed_until = Some(Instant::now() + CLOSED_FOR);
        idle.connections.clear();
    }

    /// Starts the task that closes connections that were idle for too long. Idle connections are not polled, so a
    /// connection that the server has closed stays in the pool until then.
    fn sweep(self: &Arc<Self>) -> AbortHandle {
        let pool = Arc::downgrade(self);
        let sweeper = async move {
            loop {
                tokio::time::sleep(IDLE_TIMEOUT).await;
                let Some(pool) = pool.upgrade() else { return };
                let mut idle = pool.lock();
                idle.connections.retain(|(_, since)| since.elapsed() < IDLE_TIMEOUT);
                if idle.connections.is_empty() {
                    idle.sweeper = None;
                    return;
                }
            }
        };
        tokio::spawn(sweeper).abort_handle()
    }

    fn lock(&self) -> MutexGuard<'_, IdleConnections> {
        // No code panics while it holds the lock, so the state of a poisoned lock is consistent.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPool {
    fn drop(&mut self) {
        if let Some(sweeper) = self.lock().sweeper.take() {
            sweeper.abort();
        }
    }
}
