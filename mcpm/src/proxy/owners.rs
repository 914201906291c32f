//! Whose sessions are whose.
//!
//! A session id is no credential: with incoming authentication, a session is its opener's alone. Sessions of
//! streamable HTTP have an id in a header. Those of the deprecated SSE transport have a place where messages are
//! posted, and which part of it is the id is the server's to know, as is how else it may be spelled. So in front of a
//! server that names places, messages are posted to a place that was named to their sender, or to the server's own
//! path, and nowhere else.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use url::Url;

pub(crate) use crate::mcp::owner::Owner;

use super::target::SSE_PATH;
use crate::auth::incoming::Principal;

/// Most sessions that are remembered, and most places.
const MOST: usize = 50_000;
/// Most of each that are one caller's, whatever clients they come with: nobody drives out all others, and where clients
/// register themselves anybody has as many as they like.
const OF_ONE: usize = 1000;

/// Who opened what.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    /// The paths of the server itself, without a slash at their end.
    paths: Vec<String>,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_id: HashMap<Box<str>, Owned>,
    /// How many sessions, and how many open places, are whose.
    counts: HashMap<Arc<str>, Counts>,
    /// Whose streams are open that a place was named in.
    places: HashMap<Place, Vec<Owner>>,
    /// Whether a place was ever named.
    names_places: bool,
    /// Whether one was at a path of the server itself.
    at_own_path: bool,
    uses: u64,
}

#[derive(Debug, Default)]
struct Counts {
    sessions: usize,
    places: usize,
}

#[derive(Debug)]
struct Owned {
    owner: Owner,
    used: u64,
}

/// A path and the parts of a query, decoded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    path: String,
    query: Vec<String>,
}

impl Owner {
    pub(crate) fn of(principal: &Principal) -> Self {
        let client = principal.client_id.as_deref().unwrap_or_default();
        Self::new(&principal.issuer, &principal.subject, client)
    }
}

/// Notes the place of a session when the server names it.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    owners: Arc<Owners>,
    owner: Owner,
}

/// A place that was noted. Whoever holds the stream that it was named in holds this too: they end together.
#[derive(Debug)]
pub(crate) struct Noted {
    opening: Opening,
    place: Place,
}

impl Opening {
    pub(crate) fn new(owners: &Arc<Owners>, owner: Owner) -> Self {
        Self { owners: Arc::clone(owners), owner }
    }

    /// Notes where messages of the session are posted, as it was said in the answer to a request for `path`.
    pub(crate) fn at(&self, place: &str, path: &str) -> Option<Noted> {
        let here = Url::parse("http://here").and_then(|base| base.join(path));
        let url = here.and_then(|here| here.join(place));
        let place = url.ok().map(|url| Place::new(url.path(), url.query()));
        self.owners.note_place(place.as_ref(), &self.owner);
        Some(Noted { opening: self.clone(), place: place? })
    }

    /// Notes that a place may have been named that could not be read: nobody posts to a place whose owner is unknown.
    pub(crate) fn unread(&self) {
        self.owners.note_place(None, &self.owner);
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.opening.owners.forget_place(&self.place, &self.opening.owner);
    }
}

impl Place {
    fn new(path: &str, query: Option<&str>) -> Self {
        let query = query.unwrap_or_default().split('&').filter(|part| !part.is_empty()).map(decoded);
        Self { path: decoded(path), query: query.collect() }
    }
}

impl Owners {
    /// Takes the paths of the server itself.
    pub(crate) fn new<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let paths = paths.into_iter().map(|path| decoded(path.trim_end_matches('/'))).collect();
        Self { paths, known: Mutex::default() }
    }

    /// Whether a session is that owner's.
    pub(crate) fn has(&self, id: &str, owner: &Owner) -> bool {
        self.lock().is_of(id, owner)
    }

    /// Notes that a session was opened. One that is another's stays so, unless it is `new`: a server that gives an id
    /// to a request without one knows no other session of that id any more.
    pub(crate) fn note(&self, id: &str, owner: &Owner, new: bool) {
        let mut known = self.lock();
        if new || !known.by_id.contains_key(id) {
            known.put(id, owner);
        }
    }

    /// Forgets a session that has ended.
    pub(crate) fn forget(&self, id: &str) {
        self.lock().remove(id);
    }

    /// Whether messages may be posted to a path and query.
    pub(crate) fn may_post(&self, place: &str, owner: &Owner) -> bool {
        let known = self.lock();
        if !known.names_places {
            return true;
        }
        let (path, query) = place.split_once('?').map_or((place, None), |(path, query)| (path, Some(query)));
        let place = Place::new(path, query);
        // A query at the server's own path may hold an id where places with one are there as well.
        let is_own = self.is_own(&place.path) && (place.query.is_empty() || !known.at_own_path);
        is_own || known.places.get(&place).is_some_and(|owners| owners.contains(owner))
    }

    /// Whether a path and query are the server's own, below one of those, or were named by it for anybody's messages.
    pub(crate) fn is_endpoint(&self, place: &str) -> bool {
        let (path, query) = place.split_once('?').map_or((place, None), |(path, query)| (path, Some(query)));
        let below = |own: &String| {
            let rest = path.strip_prefix(own.as_str()).and_then(|rest| rest.strip_prefix('/'));
            !own.is_empty() && rest.is_some_and(is_plain)
        };
        let place = Place::new(path, query);
        self.is_own(&place.path)
            || place.path == SSE_PATH
            || self.paths.iter().any(below)
            || self.lock().places.contains_key(&place)
    }

    fn is_own(&self, path: &str) -> bool {
        self.paths.iter().any(|own| own == path.trim_end_matches('/'))
    }

    fn note_place(&self, place: Option<&Place>, owner: &Owner) {
        let mut known = self.lock();
        // Also of one that cannot be read: nobody can post there, and nobody to another's.
        known.names_places = true;
        let Some(place) = place else { return };
        known.at_own_path |= self.is_own(&place.path);
        if known.places.len() >= MOST && !known.places.contains_key(place) {
            tracing::warn!("there are too many streams to note another; nothing can be posted for it");
            return;
        }
        let counts = known.counts.entry(Arc::clone(owner.person())).or_default();
        if counts.places >= OF_ONE && !owner.is_anybody() {
            tracing::warn!("a caller has too many streams to note another; nothing can be posted for it");
            return;
        }
        counts.places += 1;
        known.places.entry(place.clone()).or_default().push(owner.clone());
    }

    fn forget_place(&self, place: &Place, owner: &Owner) {
        let mut known = self.lock();
        let Some(owners) = known.places.get_mut(place) else { return };
        if let Some(at) = owners.iter().position(|one| one == owner) {
            owners.swap_remove(at);
            if owners.is_empty() {
                known.places.remove(place);
            }
            known.less(owner, |counts| counts.places -= 1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn is_of(&mut self, id: &str, owner: &Owner) -> bool {
        self.uses += 1;
        let Some(owned) = self.by_id.get_mut(id).filter(|owned| owned.owner == *owner) else { return false };
        owned.used = self.uses;
        true
    }

    fn put(&mut self, id: &str, owner: &Owner) {
        self.remove(id);
        if self.counts.get(owner.person()).is_some_and(|counts| counts.sessions >= OF_ONE) {
            self.make_room(|owned| owned.owner.person() == owner.person());
        }
        if self.by_id.len() >= MOST {
            self.make_room(|_| true);
        }
        self.uses += 1;
        self.counts.entry(Arc::clone(owner.person())).or_default().sessions += 1;
        self.by_id.insert(id.into(), Owned { owner: owner.clone(), used: self.uses });
    }

    /// Forgets the quarter of some sessions that was not used for longest.
    fn make_room(&mut self, of: impl Fn(&Owned) -> bool) {
        let mut uses: Vec<u64> =
            self.by_id.values().filter(|owned| of(owned)).map(|owned| owned.used).collect();
        uses.sort_unstable();
        let last = uses.get(uses.len() / 4).copied().unwrap_or_default();
        let old = self.by_id.iter().filter(|(_, owned)| of(owned) && owned.used <= last);
        let old: Vec<Box<str>> = old.map(|(id, _)| id.clone()).collect();
        for id in old {
            self.remove(&id);
        }
    }

    fn remove(&mut self, id: &str) {
        if let Some(owned) = self.by_id.remove(id) {
            self.less(&owned.owner, |counts| counts.sessions -= 1);
        }
    }

    fn less(&mut self, owner: &Owner, one: impl FnOnce(&mut Counts)) {
        if let Some(counts) = self.counts.get_mut(owner.person()) {
            one(counts);
            if counts.sessions == 0 && counts.places == 0 {
                self.counts.remove(owner.person());
            }
        }
    }
}

/// Whether a path leads on and nowhere else, however it is read.
pub(super) fn is_plain(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:@".contains(&byte);
    path.split('/').all(|part| !matches!(part, "" | "." | "..") && part.bytes().all(plain))
}

fn decoded(part: &str) -> String {
    // The parts of a form are decoded in the same way, once what means something else in them is out of the way.
    let text = format!("={}", part.replace('+', "%2B").replace('&', "%26"));
    let mut pairs = url::form_urlencoded::parse(text.as_bytes());
    pairs.next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        client_of(name, "")
    }

    fn client_of(name: &str, client: &str) -> Owner {
        Owner::new("", name, client)
    }

    fn owners() -> Arc<Owners> {
        Arc::new(Owners::new(["/mcp", "/", "/v1/mcp"]))
    }

    #[test]
    fn a_session_is_its_openers() {
        let owners = Owners::default();
        owners.note("1", &owner("a"), true);
        owners.note("1", &owner("b"), false);
        assert!(owners.has("1", &owner("a")));
        assert!(!owners.has("1", &owner("b")) && !owners.has("2", &owner("a")));
        // The server has begun anew, and counts from one again.
        owners.note("1", &owner("b"), true);
        assert!(owners.has("1", &owner("b")) && !owners.has("1", &owner("a")));
        owners.forget("1");
        assert!(!owners.has("1", &owner("b")));
    }

    #[test]
    fn messages_are_posted_to_places_of_their_sender_and_to_the_servers_own_path() {
        let owners = owners();
        assert!(owners.may_post("/messages?session_id=A", &owner("b")), "nothing is known yet");
        let a = Opening::new(&owners, owner("a")).at("/messages?session_id=ab-c&v=1", "/sse");
        let b = Opening::new(&owners, owner("b")).at("messages?session_id=b&v=1", "/sse");
        assert!(a.is_some() && b.is_some());
        for place in ["/messages?session_id=ab-c&v=1", "/messages?session%5Fid=ab%2dc&v=1&"] {
            assert!(owners.may_post(place, &owner("a")), "{place}");
            assert!(!owners.may_post(place, &owner("b")), "{place}");
        }
        assert!(owners.may_post("/messages?session_id=b&v=1", &owner("b")));
        for place in [
            "/messages?session_id=ab-c",
            "/messages?v=1&session_id=ab-c",
            "/messages?SESSIONID=ab-c",
            "/messages?sessionId[]=ab-c",
            "/messages?session_id=b&v=1&session_id=ab-c",
            "/messages?session_id=b%26v=1",
            "/messages%3Fsession_id=b&v=1",
            "/messages/ab-c",
            "//messages?session_id=ab-c&v=1",
            "/x/../messages?session_id=ab-c&v=1",
            "/messages/?session_id=ab-c&v=1",
            "/messages",
            "/%6dcp/ab-c",
        ] {
            assert!(!owners.may_post(place, &owner("b")), "{place}");
        }
        for place in ["/mcp", "/", "/v1/mcp", "/mcp/", "/mcp?x=y"] {
            assert!(owners.may_post(place, &owner("c")), "{place}");
        }
    }

    #[test]
    fn a_place_may_be_a_path_or_at_the_servers_own() {
        let owners = owners();
        let opening = Opening::new(&owners, owner("a"));
        let _path = opening.at("/sse/post/ab", "/sse");
        assert!(owners.may_post("/sse/post/ab", &owner("a")));
        for place in
            ["/sse/post/ab", "//sse/post/ab", "/sse/post/%61b", "/sse/x/../post/ab?y", "/sse/post/AB"]
        {
            assert!(!owners.may_post(place, &owner("b")), "{place}");
        }
        let _own = opening.at("/mcp?s=1", "/mcp");
        assert!(owners.may_post("/mcp?s=1", &owner("a")));
        assert!(owners.may_post("/mcp", &owner("b")));
        for place in ["/mcp?s=1", "/?s=1", "/v1/mcp?S=1", "/mcp/?s=1"] {
            assert!(!owners.may_post(place, &owner("b")), "{place}");
        }
    }

    #[test]
    fn a_place_ends_with_its_stream_and_is_nobodys_then() {
        let owners = owners();
        let opening = Opening::new(&owners, owner("a"));
        let (one, same) = (opening.at("/m?s=1", "/sse"), opening.at("/m?s=1", "/sse"));
        drop(one);
        assert!(owners.may_post("/m?s=1", &owner("a")));
        drop(same);
        assert!(!owners.may_post("/m?s=1", &owner("a")) && !owners.may_post("/m?s=1", &owner("b")));
        let _other = Opening::new(&owners, owner("b")).at("/m?s=1", "/sse");
        assert!(owners.may_post("/m?s=1", &owner("b")) && !owners.may_post("/m?s=1", &owner("a")));
    }

    #[test]
    fn too_many_places_let_nobody_in() {
        let owners = owners();
        let of = |number: usize| owner(&(number / OF_ONE).to_string());
        let at = |number: usize| Opening::new(&owners, of(number)).at(&format!("/m?s={number}"), "/sse");
        let all: Vec<_> = (0..=MOST).map(at).collect();
        assert!(owners.may_post("/m?s=0", &of(0)) && !owners.may_post("/m?s=0", &of(MOST)));
        let last = format!("/m?s={MOST}");
        assert!(!owners.may_post(&last, &of(MOST)) && !owners.may_post(&last, &of(0)));
        drop(all);
        let known = owners.lock();
        assert!(known.counts.is_empty() && known.places.is_empty());
    }

    #[test]
    fn nobody_takes_the_room_of_all_others() {
        let owners = owners();
        let opening = Opening::new(&owners, owner("a"));
        let all: Vec<_> = (0..=OF_ONE).map(|number| opening.at(&format!("/m?s={number}"), "/sse")).collect();
        assert!(owners.may_post("/m?s=0", &owner("a")));
        assert!(!owners.may_post(&format!("/m?s={OF_ONE}"), &owner("a")), "one too many");
        let other = Opening::new(&owners, owner("b")).at("/m?s=b", "/sse");
        assert!(owners.may_post("/m?s=b", &owner("b")));
        drop((all, other));
        owners.note("b", &owner("b"), true);
        for number in 0..2 * MOST {
            owners.note(&format!("a-{number}"), &owner("a"), true);
        }
        assert!(owners.has("b", &owner("b")));
        let known = owners.lock();
        assert!(known.by_id.len() <= OF_ONE + 1, "{}", known.by_id.len());
        assert_eq!(known.counts.values().map(|counts| counts.sessions).sum::<usize>(), known.by_id.len());
    }

    #[test]
    fn many_clients_of_a_caller_have_the_room_of_one() {
        let owners = owners();
        let of = |number: usize| client_of("a", &number.to_string());
        let at = |number: usize| Opening::new(&owners, of(number)).at(&format!("/m?s={number}"), "/sse");
        let all: Vec<_> = (0..=OF_ONE).map(at).collect();
        assert!(owners.may_post("/m?s=0", &of(0)) && !owners.may_post("/m?s=0", &of(1)));
        let last = format!("/m?s={OF_ONE}");
        assert!(!owners.may_post(&last, &of(OF_ONE)), "one too many");
        drop(all);
        owners.note("b", &owner("b"), true);
        (0..MOST).for_each(|number| owners.note(&format!("a-{number}"), &of(number), true));
        let last = format!("a-{}", MOST - 1);
        assert!(owners.has("b", &owner("b")) && owners.has(&last, &of(MOST - 1)));
        assert!(!owners.has(&last, &of(0)), "a session is one client's");
        assert!(owners.lock().by_id.len() <= OF_ONE + 1);
    }

    #[test]
    fn what_was_not_used_for_longest_is_forgotten_first() {
        let owners = Owners::default();
        let id = |number: usize| number.to_string();
        let of = |number: usize| owner(&(number / OF_ONE).to_string());
        (0..MOST).for_each(|number| owners.note(&id(number), &of(number), true));
        assert!(owners.has("0", &of(0)));
        owners.note("new", &owner("b"), true);
        assert!(owners.has("0", &of(0)) && owners.has("new", &owner("b")));
        assert!(!owners.has("1", &of(1)));
    }
}
