//! Connections that wait for their next request.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{task::AbortHandle, time::Instant};

use super::link::Link;

/// A connection is not used again after this: common servers close theirs after 5 s of silence.
const KEPT_FOR: Duration = Duration::from_secs(4);
/// How long none is used twice after the server has closed one without an answer.
const CLOSED_FOR: Duration = Duration::from_secs(60);
/// Most connections kept.
const KEPT: usize = 256;

/// The kept connections to one server, newest last.
#[derive(Debug, Default)]
pub(super) struct Pool {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    links: Vec<(Box<Link>, Instant)>,
    /// Keeps none until then.
    closed_until: Option<Instant>,
    /// Closes what waits too long; there is one while something waits.
    sweeper: Option<AbortHandle>,
}

impl Pool {
    /// Takes a connection that can be used.
    pub(super) fn take(&self) -> Option<Box<Link>> {
        loop {
            let (mut link, since) = self.lock().links.pop()?;
            if since.elapsed() > KEPT_FOR {
                // Those below are older still.
                self.lock().links.clear();
                return None;
            }
            // The server may have closed it meanwhile.
            if link.is_silent() {
                return Some(link);
            }
        }
    }

    /// Keeps a connection whose last answer was read to the end.
    pub(super) fn keep(self: &Arc<Self>, link: Box<Link>) {
        let mut kept = self.lock();
        if kept.closed_until.is_some_and(|until| until > Instant::now()) {
            return;
        }
        kept.closed_until = None;
        if kept.links.len() < KEPT {
            kept.links.push((link, Instant::now()));
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
        kept.links.clear();
    }

    /// Nobody polls a kept connection, so one that its server closes stays until it is swept away.
    fn sweep(self: &Arc<Self>) -> AbortHandle {
        let pool = Arc::downgrade(self);
        let sweeper = async move {
            loop {
                tokio::time::sleep(KEPT_FOR).await;
                let Some(pool) = pool.upgrade() else { return };
                let mut kept = pool.lock();
                kept.links.retain(|(_, since)| since.elapsed() < KEPT_FOR);
                if kept.links.is_empty() {
                    kept.sweeper = None;
                    return;
                }
            }
        };
        tokio::spawn(sweeper).abort_handle()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(sweeper) = self.lock().sweeper.take() {
            sweeper.abort();
        }
    }
}
