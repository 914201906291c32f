//! What is remembered of the sessions of a server that speaks HTTP, so that a lost one can be opened again.
//!
//! The ids are the server's own. When a session has to be opened anew, its client keeps the id that it knows,
//! and the server gets the new one. Who opens it, and when, is decided by [`super::reopen`].

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use tokio::sync::Semaphore;

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Most sessions that are remembered.
const MOST: usize = 10_000;
/// Most bytes that they take.
const MOST_BYTES: usize = 16 << 20;
/// Counted for a session beside the bytes of its `initialize`.
const EACH: usize = 512;
/// A session that was not used between two looks is forgotten.
const LOOK: Duration = Duration::from_secs(2 * 3600);

/// The sessions of one server, by the ids that their clients know.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// Boxed, since what starts a server holds it while it waits.
    known: Box<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    by_client: HashMap<HeaderValue, Session>,
    /// Of those that were opened again, the ids that their clients know, by the ids that the server knows.
    reopened: HashMap<HeaderValue, HeaderValue>,
    bytes: usize,
    /// Counts uses, which puts sessions in the order of their last one without asking a clock.
    uses: u64,
    /// The last look for unused ones, and the count then.
    looked: Option<(Instant, u64)>,
}

#[derive(Debug)]
struct Session {
    opening: Opening,
    server: HeaderValue,
    life: u64,
    used: u64,
    turn: Arc<Semaphore>,
}

/// How a session was opened.
#[derive(Debug, Clone)]
pub(super) struct Opening {
    /// Where the `initialize` went.
    pub(super) uri: Uri,
    /// The `initialize`.
    pub(super) body: Bytes,
}

/// Where a session is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The id that the server knows.
    pub(super) server: HeaderValue,
    /// The life of the server in which it was opened, or last answered.
    pub(super) life: u64,
}

/// What is known of the session that a request names.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) place: Option<Place>,
    /// Whether the server has lost it for sure: it has given the id to another one since. One that counts its sessions
    /// begins anew when it is started anew.
    pub(super) lost: bool,
}

impl Sessions {
    /// Finds the session that a request names.
    pub(super) fn find(&self, headers: &HeaderMap, life: u64) -> Found {
        let Some(id) = headers.get(SESSION) else { return Found::default() };
        let mut known = self.lock();
        let uses = known.uses + 1;
        let place = known.by_client.get_mut(id).map(|session| {
            session.used = uses;
            session.place()
        });
        known.uses = uses;
        let lost = known.is_anothers(id, place.as_ref().map_or(id, |place| &place.server), life);
        Found { place, lost }
    }

    /// Remembers a session that was opened.
    pub(super) fn remember(&self, id: &HeaderValue, opening: Opening, life: u64) {
        let Ok(uri) = opening.uri.to_string().parse() else { return };
        let (id, opening) = (copied(id), Opening { uri, ..opening });
        let mut known = self.lock();
        known.look(Instant::now());
        known.forget(&id);
        // Whoever had it before has it no more.
        known.reopened.remove(&id);
        let cost = opening.cost();
        if known.by_client.len() >= MOST || known.bytes + cost > MOST_BYTES {
            known.make_room();
        }
        known.bytes += cost;
        known.uses += 1;
        let turn = Arc::new(Semaphore::new(1));
        let session = Session { opening, server: id.clone(), life, used: known.uses, turn };
        known.by_client.insert(id, session);
    }

    /// Forgets a session that has ended.
    pub(super) fn forget(&self, id: &HeaderValue) {
        self.lock().forget(id);
    }

    /// How a session was opened, and who may open it again: one at a time.
    pub(super) fn opening(&self, id: &HeaderValue) -> Option<(Opening, Arc<Semaphore>)> {
        let known = self.lock();
        known.by_client.get(id).map(|session| (session.opening.clone(), Arc::clone(&session.turn)))
    }

    /// Where a session is now.
    pub(super) fn place(&self, id: &HeaderValue) -> Option<Place> {
        self.lock().by_client.get(id).map(Session::place)
    }

    /// Says where a session is from now on, unless it has left the place where it was seen.
    pub(super) fn settle(&self, id: &HeaderValue, seen: &Place, place: Place) {
        let mut known = self.lock();
        let Some(session) = known.by_client.get_mut(id).filter(|session| session.place() == *seen) else {
            return;
        };
        (session.server, session.life) = (copied(&place.server), place.life);
        if place.server != seen.server {
            known.leave(id, &seen.server);
            known.reopened.insert(copied(&place.server), copied(id));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn forget(&mut self, id: &HeaderValue) {
        if let Some(session) = self.by_client.remove(id) {
            self.bytes -= session.opening.cost();
            self.leave(id, &session.server);
        }
    }

    /// Forgets that a session is at that id of the server's.
    fn leave(&mut self, id: &HeaderValue, server: &HeaderValue) {
        if self.reopened.get(server).is_some_and(|client| client == id) {
            self.reopened.remove(server);
        }
    }

    /// Whether an id of the server's is another session's in this life, and was given to it last.
    fn is_anothers(&self, id: &HeaderValue, server: &HeaderValue, life: u64) -> bool {
        let (client, other) = match self.reopened.get(server) {
            Some(client) => (client, self.by_client.get(client)),
            None => (server, self.by_client.get(server).filter(|other| other.server == *server)),
        };
        client != id && other.is_some_and(|other| other.life == life)
    }

    /// Forgets what was not used since the last look, if that is long ago.
    fn look(&mut self, now: Instant) {
        match self.looked {
            Some((since, _)) if now.saturating_duration_since(since) < LOOK => return,
            Some((_, uses)) => self.keep(uses),
            None => {}
        }
        self.looked = Some((now, self.uses));
    }

    /// Forgets the quarter that was not used for longest.
    fn make_room(&mut self) {
        let mut uses: Vec<u64> = self.by_client.values().map(|session| session.used).collect();
        uses.sort_unstable();
        if let Some(last) = uses.get(uses.len() / 4) {
            self.keep(*last);
        }
    }

    /// Forgets what was last used at a count or before.
    fn keep(&mut self, after: u64) {
        self.by_client.retain(|_, session| session.used > after);
        self.reopened.retain(|_, client| self.by_client.contains_key(client));
        self.bytes = self.by_client.values().map(|session| session.opening.cost()).sum();
    }
}

impl Session {
    fn place(&self) -> Place {
        Place { server: self.server.clone(), life: self.life }
    }
}

/// A value of its own: one out of a message keeps the whole buffer of its connection.
pub(super) fn copied(value: &HeaderValue) -> HeaderValue {
    HeaderValue::from_bytes(value.as_bytes()).unwrap_or_else(|_| value.clone())
}

impl Opening {
    fn cost(&self) -> usize {
        self.body.len() + self.uri.path_and_query().map_or(0, |path| path.as_str().len()) + EACH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remember(sessions: &Sessions, id: usize, size: usize) {
        let opening = Opening { uri: Uri::from_static("/mcp"), body: vec![b' '; size].into() };
        sessions.remember(&id.into(), opening, 0);
    }

    fn knows(sessions: &Sessions, id: usize) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(SESSION, id.into());
        sessions.find(&headers, 0).place.is_some()
    }

    #[test]
    fn room_is_made_by_forgetting_what_was_not_used_for_longest() {
        let sessions = Sessions::default();
        (0..MOST).for_each(|id| remember(&sessions, id, 10));
        assert!(knows(&sessions, 0));
        remember(&sessions, MOST, 10);
        assert!(knows(&sessions, 0) && knows(&sessions, MOST) && knows(&sessions, MOST - 1));
        assert!(!knows(&sessions, 1));
        let known = sessions.lock();
        assert!(known.by_client.len() <= MOST && known.by_client.len() > MOST / 2);
        assert_eq!(known.bytes, known.by_client.len() * (10 + "/mcp".len() + EACH));
    }

    #[test]
    fn an_id_that_another_session_got_anew_is_lost() {
        let sessions = Sessions::default();
        let lost = |id: usize, life| {
            let mut headers = HeaderMap::new();
            headers.insert(SESSION, id.into());
            sessions.find(&headers, life).lost
        };
        let place = |server: usize, life| Place { server: server.into(), life };
        for id in [1, 2, 3] {
            remember(&sessions, id, 10);
        }
        assert!((1..=4).all(|id| !lost(id, 0) && !lost(id, 1)));
        // Whether or not the server is known to have been started anew.
        for (life, next) in [(0, 0), (0, 1)] {
            sessions.settle(&2.into(), &place(2, life), place(1, next));
            assert!(lost(1, next) && !lost(2, next) && !lost(3, next), "{next}");
            sessions.settle(&1.into(), &place(1, life), place(2, next));
            assert!((1..=3).all(|id| !lost(id, next)), "{next}");
            remember(&sessions, 1, 10);
            remember(&sessions, 2, 10);
        }
        sessions.settle(&3.into(), &place(3, 0), place(4, 0));
        assert!(lost(4, 0) && !lost(4, 1), "one that is not remembered is no other's either");
        let opening = Opening { uri: Uri::from_static("/mcp"), body: Bytes::new() };
        sessions.remember(&4.into(), opening, 0);
        assert!(lost(3, 0) && !lost(4, 0), "a client opened one with that id");
        sessions.forget(&4.into());
        assert!(!lost(3, 0));
        (1..=3).for_each(|id: usize| sessions.forget(&id.into()));
        assert!(sessions.lock().reopened.is_empty());
    }

    #[test]
    fn large_handshakes_take_room_too() {
        let sessions = Sessions::default();
        for id in 0..2000 {
            remember(&sessions, id, 64 << 10);
            assert!(sessions.lock().bytes <= MOST_BYTES);
            assert!(knows(&sessions, id));
        }
        (0..2000).for_each(|id| sessions.forget(&id.into()));
        let known = sessions.lock();
        assert_eq!((known.bytes, known.by_client.len()), (0, 0));
    }

    #[test]
    fn what_is_not_used_between_two_looks_is_forgotten() {
        let sessions = Sessions::default();
        (0..3).for_each(|id| remember(&sessions, id, 10));
        let now = Instant::now();
        sessions.lock().look(now + LOOK);
        assert!(knows(&sessions, 1));
        sessions.lock().look(now + LOOK + LOOK);
        assert!(!knows(&sessions, 0) && knows(&sessions, 1) && !knows(&sessions, 2));
    }
}
