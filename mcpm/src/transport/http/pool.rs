//! Connections that wait for their next request.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{task::AbortHandle, time::Instant};

use super::connection::HttpConnection;

/// A connection is not used again after this: common servers close theirs after 5 s of silence.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// How long none is used twice after the server has closed one without an answer.
const CLOSED_FOR: Duration = Duration::from_secs(60);
/// Most connections kept.
const MAX_IDLE_CONNECTIONS: usize = 256;

/// The kept connections to one server, newest last.
#[derive(Debug, Default)]
pub(super) struct ConnectionPool {
    idle: Mutex<IdleConnections>,
}

#[derive(Debug, Default)]
struct IdleConnections {
    connections: Vec<(Box<HttpConnection>, Instant)>,
    /// Keeps none until then.
    closed_until: Option<Instant>,
    /// Closes what waits too long; there is one while something waits.
    sweeper: Option<AbortHandle>,
}

impl ConnectionPool {
    /// Takes a connection that can be used.
    pub(super) fn take(&self) -> Option<Box<HttpConnection>> {
        loop {
            let (mut link, since) = self.lock().connections.pop()?;
            if since.elapsed() > IDLE_TIMEOUT {
                // Those below are older still.
                self.lock().connections.clear();
                return None;
            }
            // The server may have closed it meanwhile.
            if link.is_open_and_idle() {
                return Some(link);
            }
        }
    }

    /// Keeps a connection whose last answer was read to the end.
    pub(super) fn put(self: &Arc<Self>, link: Box<HttpConnection>) {
        let mut kept = self.lock();
        if kept.closed_until.is_some_and(|until| until > Instant::now()) {
            return;
        }
        kept.closed_until = None;
        if kept.connections.len() < MAX_IDLE_CONNECTIONS {
            kept.connections.push((link, Instant::now()));
        }
        if kept.sweeper.is_none() {
            kept.sweeper = Some(self.sweep());
        }
    }

    /// Keeps no connection for a while: the server closes them without notice, or was started anew.
    pub(super) fn close(&self) {
        let mut kept = self.lock();
        if kept.closed_until.is_none() {
            tracing::debug!(
                "the server closes connections without notice, so none is used twice for a while"
            );
        }
        kept.closed_until = Some(Instant::now() + CLOSED_FOR);
        kept.connections.clear();
    }

    /// Nobody polls a kept connection, so one that its server closes stays until it is swept away.
    fn sweep(self: &Arc<Self>) -> AbortHandle {
        let pool = Arc::downgrade(self);
        let sweeper = async move {
            loop {
                tokio::time::sleep(IDLE_TIMEOUT).await;
                let Some(pool) = pool.upgrade() else { return };
                let mut kept = pool.lock();
                kept.connections.retain(|(_, since)| since.elapsed() < IDLE_TIMEOUT);
                if kept.connections.is_empty() {
                    kept.sweeper = None;
                    return;
                }
            }
        };
        tokio::spawn(sweeper).abort_handle()
    }

    fn lock(&self) -> MutexGuard<'_, IdleConnections> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
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
