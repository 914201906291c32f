//! Stores what the proxy needs to reopen the sessions of an HTTP server when the server has lost them.
//!
//! The server assigns the session ids. When a session is reopened, the client keeps using the old id, and the proxy
//! maps it to the new one. [`super::session_recovery`] decides when to reopen a session.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use foldhash::quality::RandomState;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use tokio::sync::Semaphore;

pub(super) const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// Maximum number of sessions.
const MAX_SESSIONS: usize = 10_000;
/// Maximum total size in bytes.
const MAX_SESSION_BYTES: usize = 16 << 20;
/// Size that is counted for a session in addition to its `initialize`.
const SESSION_OVERHEAD_BYTES: usize = 512;
/// Interval of the sweep; a session that was not used between two sweeps is removed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(2 * 3600);

/// The sessions of one server, by the ids that their clients know.
#[derive(Debug, Default)]
pub(super) struct RecoverableSessions {
    /// Boxed, because futures that start a server contain it.
    known: Box<Mutex<RecoverableState>>,
}

#[derive(Debug, Default)]
struct RecoverableState {
    by_client_session_id: HashMap<HeaderValue, RecoverableSession, RandomState>,
    /// For sessions that were opened again: the client's id by the server's id.
    client_session_by_server_session: HashMap<HeaderValue, HeaderValue>,
    bytes: usize,
    /// A counter of uses, which orders sessions by their last use without a clock.
    uses: u64,
    /// The time of the last sweep, and the counter then.
    last_sweep: Option<(Instant, u64)>,
}

#[derive(Debug)]
struct RecoverableSession {
    opening: SavedInitialize,
    server_session_id: HeaderValue,
    generation: u64,
    used: u64,
    recovery_lock: Arc<Semaphore>,
}

/// How a session was opened.
#[derive(Debug, Clone)]
pub(super) struct SavedInitialize {
    /// The URI of the `initialize` request.
    pub(super) uri: Uri,
    /// The body of the `initialize` request.
    pub(super) body: Bytes,
}

/// The server's side of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerSession {
    /// The server's session id.
    pub(super) server_session_id: HeaderValue,
    /// The generation of the server that opened the session or last responded in it.
    pub(super) generation: u64,
}

/// The known session of a request.
#[derive(Debug, Default)]
pub(super) struct SessionLookup {
    pub(super) session: Option<ServerSession>,
    /// Whether the server has certainly lost it, because it has assigned the id to another session since. Servers
    /// that number their sessions start again after a restart.
    pub(super) lost: bool,
}

impl RecoverableSessions {
    /// Looks up the session of a request.
    pub(super) fn find(&self, headers: &HeaderMap, generation: u64) -> SessionLookup {
        let Some(id) = headers.get(MCP_SESSION_ID) else { return SessionLookup::default() };
        let mut known = self.lock();
        let uses = known.uses + 1;
        let server_session = known.by_client_session_id.get_mut(id).map(|session| {
            session.used = uses;
            session.place()
        });
        known.uses = uses;
        let lost = known.belongs_to_another(
            id,
            server_session.as_ref().map_or(id, |server_session| &server_session.server_session_id),
            generation,
        );
        SessionLookup { session: server_session, lost }
    }

    /// Adds a session that was opened.
    pub(super) fn remember(&self, id: &HeaderValue, opening: SavedInitialize, generation: u64) {
        let Ok(uri) = opening.uri.to_string().parse() else { return };
        let (id, opening) = (detached(id), SavedInitialize { uri, ..opening });
        let mut known = self.lock();
        known.sweep(Instant::now());
        known.forget(&id);
        // The server has assigned this id to a new session, so it no longer stands for a reopened one.
        known.client_session_by_server_session.remove(&id);
        let cost = opening.cost();
        if known.by_client_session_id.len() >= MAX_SESSIONS || known.bytes + cost > MAX_SESSION_BYTES {
            known.make_room();
        }
        known.bytes += cost;
        known.uses += 1;
        let turn = Arc::new(Semaphore::new(1));
        let session = RecoverableSession {
            opening,
            server_session_id: id.clone(),
            generation,
            used: known.uses,
            recovery_lock: turn,
        };
        known.by_client_session_id.insert(id, session);
    }

    /// Removes a session that has ended.
    pub(super) fn forget(&self, id: &HeaderValue) {
        self.lock().forget(id);
    }

    /// How a session was opened, and a semaphore for reopening it.
    pub(super) fn saved_initialize(&self, id: &HeaderValue) -> Option<(SavedInitialize, Arc<Semaphore>)> {
        let known = self.lock();
        known
            .by_client_session_id
            .get(id)
            .map(|session| (session.opening.clone(), Arc::clone(&session.recovery_lock)))
    }

    /// The server's side of a session.
    pub(super) fn server_session(&self, id: &HeaderValue) -> Option<ServerSession> {
        self.lock().by_client_session_id.get(id).map(RecoverableSession::place)
    }

    /// Updates the server's side of a session, unless it has changed since it was `seen`.
    pub(super) fn update_server_session(
        &self,
        id: &HeaderValue,
        seen: &ServerSession,
        server_session: ServerSession,
    ) {
        let mut known = self.lock();
        let Some(session) = known.by_client_session_id.get_mut(id).filter(|session| session.place() == *seen)
        else {
            return;
        };
        (session.server_session_id, session.generation) =
            (detached(&server_session.server_session_id), server_session.generation);
        if server_session.server_session_id != seen.server_session_id {
            known.unlink_server_id(id, &seen.server_session_id);
            known
                .client_session_by_server_session
                .insert(detached(&server_session.server_session_id), detached(id));
        }
    }

    fn lock(&self) -> MutexGuard<'_, RecoverableState> {
        // No code panics while it holds the lock, so the state of a poisoned lock is consistent.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecoverableState {
    fn forget(&mut self, id: &HeaderValue) {
        if let Some(session) = self.by_client_session_id.remove(id) {
            self.bytes -= session.opening.cost();
            self.unlink_server_id(id, &session.server_session_id);
        }
    }

    /// Removes the mapping from the server's id of a session.
    fn unlink_server_id(&mut self, id: &HeaderValue, server: &HeaderValue) {
        if self.client_session_by_server_session.get(server).is_some_and(|client| client == id) {
            self.client_session_by_server_session.remove(server);
        }
    }

    /// Whether the server has assigned an id to another session in this generation.
    fn belongs_to_another(&self, id: &HeaderValue, server: &HeaderValue, generation: u64) -> bool {
        let known = self.client_session_by_server_session.get(server);
        let client = known.unwrap_or(server);
        if client == id {
            return false;
        }
        let other = self.by_client_session_id.get(client);
        let other = other.filter(|other| known.is_some() || other.server_session_id == *server);
        other.is_some_and(|other| other.generation == generation)
    }

    /// Removes sessions that were not used since the last sweep, if a sweep is due.
    fn sweep(&mut self, now: Instant) {
        match self.last_sweep {
            Some((since, _)) if now.saturating_duration_since(since) < SWEEP_INTERVAL => return,
            Some((_, uses)) => self.retain_used_after(uses),
            None => {}
        }
        self.last_sweep = Some((now, self.uses));
    }

    /// Removes the least recently used quarter.
    fn make_room(&mut self) {
        let mut uses: Vec<u64> = self.by_client_session_id.values().map(|session| session.used).collect();
        uses.sort_unstable();
        if let Some(last) = uses.get(uses.len() / 4) {
            self.retain_used_after(*last);
        }
    }

    /// Removes sessions whose last use was at this count or before.
    fn retain_used_after(&mut self, after: u64) {
        self.by_client_session_id.retain(|_, session| session.used > after);
        self.client_session_by_server_session
            .retain(|_, client| self.by_client_session_id.contains_key(client));
        self.bytes = self.by_client_session_id.values().map(|session| session.opening.cost()).sum();
    }
}

impl RecoverableSession {
    fn place(&self) -> ServerSession {
        ServerSession { server_session_id: self.server_session_id.clone(), generation: self.generation }
    }
}

/// A copy: a value from a message would retain the read buffer of its connection.
pub(super) fn detached(value: &HeaderValue) -> HeaderValue {
    HeaderValue::from_bytes(value.as_bytes()).unwrap_or_else(|_| value.clone())
}

impl SavedInitialize {
    fn cost(&self) -> usize {
        self.body.len()
            + self.uri.path_and_query().map_or(0, |path| path.as_str().len())
            + SESSION_OVERHEAD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remember(sessions: &RecoverableSessions, id: usize, size: usize) {
        let opening = SavedInitialize { uri: Uri::from_static("/mcp"), body: vec![b' '; size].into() };
        sessions.remember(&id.into(), opening, 0);
    }

    fn knows(sessions: &RecoverableSessions, id: usize) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(MCP_SESSION_ID, id.into());
        sessions.find(&headers, 0).session.is_some()
    }

    #[test]
    fn the_least_recently_used_sessions_are_evicted() {
        let sessions = RecoverableSessions::default();
        (0..MAX_SESSIONS).for_each(|id| remember(&sessions, id, 10));
        assert!(knows(&sessions, 0));
        remember(&sessions, MAX_SESSIONS, 10);
        assert!(knows(&sessions, 0) && knows(&sessions, MAX_SESSIONS) && knows(&sessions, MAX_SESSIONS - 1));
        assert!(!knows(&sessions, 1));
        let known = sessions.lock();
        assert!(
            known.by_client_session_id.len() <= MAX_SESSIONS
                && known.by_client_session_id.len() > MAX_SESSIONS / 2
        );
        assert_eq!(
            known.bytes,
            known.by_client_session_id.len() * (10 + "/mcp".len() + SESSION_OVERHEAD_BYTES)
        );
    }

    #[test]
    fn a_session_id_reused_by_the_server_is_lost() {
        let sessions = RecoverableSessions::default();
        let lost = |id: usize, life| {
            let mut headers = HeaderMap::new();
            headers.insert(MCP_SESSION_ID, id.into());
            sessions.find(&headers, life).lost
        };
        let place =
            |server: usize, life| ServerSession { server_session_id: server.into(), generation: life };
        for id in [1, 2, 3] {
            remember(&sessions, id, 10);
        }
        assert!((1..=4).all(|id| !lost(id, 0) && !lost(id, 1)));
        // With the same generation, and with another one, as after a known restart.
        for (life, next) in [(0, 0), (0, 1)] {
            sessions.update_server_session(&2.into(), &place(2, life), place(1, next));
            assert!(lost(1, next) && !lost(2, next) && !lost(3, next), "{next}");
            sessions.update_server_session(&1.into(), &place(1, life), place(2, next));
            assert!((1..=3).all(|id| !lost(id, next)), "{next}");
            remember(&sessions, 1, 10);
            remember(&sessions, 2, 10);
        }
        sessions.update_server_session(&3.into(), &place(3, 0), place(4, 0));
        assert!(lost(4, 0) && !lost(4, 1), "one that is not remembered is no other's either");
        let opening = SavedInitialize { uri: Uri::from_static("/mcp"), body: Bytes::new() };
        sessions.remember(&4.into(), opening, 0);
        assert!(lost(3, 0) && !lost(4, 0), "a client opened one with that id");
        sessions.forget(&4.into());
        assert!(!lost(3, 0));
        (1..=3).for_each(|id: usize| sessions.forget(&id.into()));
        assert!(sessions.lock().client_session_by_server_session.is_empty());
    }

    #[test]
    fn large_handshakes_take_room_too() {
        let sessions = RecoverableSessions::default();
        for id in 0..2000 {
            remember(&sessions, id, 64 << 10);
            assert!(sessions.lock().bytes <= MAX_SESSION_BYTES);
            assert!(knows(&sessions, id));
        }
        (0..2000).for_each(|id| sessions.forget(&id.into()));
        let known = sessions.lock();
        assert_eq!((known.bytes, known.by_client_session_id.len()), (0, 0));
    }

    #[test]
    fn sessions_unused_between_two_sweeps_are_removed() {
        let sessions = RecoverableSessions::default();
        (0..3).for_each(|id| remember(&sessions, id, 10));
        let now = Instant::now();
        sessions.lock().sweep(now + SWEEP_INTERVAL);
        assert!(knows(&sessions, 1));
        sessions.lock().sweep(now + SWEEP_INTERVAL + SWEEP_INTERVAL);
        assert!(!knows(&sessions, 0) && knows(&sessions, 1) && !knows(&sessions, 2));
    }
}
