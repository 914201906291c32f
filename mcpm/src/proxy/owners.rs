//! Whose sessions are whose.
//!
//! A session id is no credential: with incoming authentication, a session is its opener's alone. Sessions of
//! streamable HTTP have an id in a header. Those of the deprecated SSE transport have a place that the server names,
//! in a query or at the end of a path; a place of such a form must be, letter for letter, one that was named.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use url::Url;

use crate::auth::incoming::Principal;

/// Most sessions that are remembered.
const MOST: usize = 50_000;
/// Most forms of places.
const MOST_FORMS: usize = 64;

/// Who opened what.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_id: HashMap<Id, Owned>,
    forms: HashSet<Form>,
    uses: u64,
}

/// What a session is known by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Id {
    /// Its id.
    Header(Box<str>),
    /// A part of the place where messages are posted.
    Place(Form, Box<str>),
}

/// Where in a place the id of a session stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Form {
    /// In the query, under that name.
    Query(Box<str>),
    /// At the end, below that path.
    Below(Box<str>),
}

#[derive(Debug)]
struct Owned {
    /// `None` when several have it: then it tells nobody apart.
    owner: Option<Owner>,
    used: u64,
}

/// Who opens sessions: issuer, subject and client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner(Arc<str>);

impl Owner {
    pub(crate) fn of(principal: &Principal) -> Self {
        let client = principal.client_id.as_deref().unwrap_or_default();
        let parts = serde_json::json!([principal.issuer, principal.subject, client]);
        Self(parts.to_string().into())
    }
}

/// Notes the place of a session when the server names it.
#[derive(Debug, Clone)]
pub(crate) struct Opening {
    owners: Arc<Owners>,
    owner: Owner,
}

impl Opening {
    pub(crate) fn new(owners: &Arc<Owners>, owner: Owner) -> Self {
        Self { owners: Arc::clone(owners), owner }
    }

    /// Notes where messages of the session are posted, as it was said in the answer to a request for `path`.
    pub(crate) fn at(&self, place: &str, path: &str) {
        let here = Url::parse("http://here").and_then(|base| base.join(path));
        if let Ok(place) = here.and_then(|here| here.join(place)) {
            self.owners.note_place(&place, &self.owner);
        }
    }
}

impl Owners {
    /// Whether a session is that owner's.
    pub(crate) fn has(&self, id: &str, owner: &Owner) -> bool {
        self.lock().is_of(&Id::Header(id.into()), owner)
    }

    /// Notes that a session was opened. One that is another's stays so.
    pub(crate) fn note(&self, id: &str, owner: &Owner) {
        let mut known = self.lock();
        let id = Id::Header(id.into());
        if !known.by_id.contains_key(&id) {
            known.put(id, Some(owner.clone()));
        }
    }

    /// Forgets a session that has ended.
    pub(crate) fn forget(&self, id: &str) {
        self.lock().by_id.remove(&Id::Header(id.into()));
    }

    /// Whether messages may be posted to a path and query.
    pub(crate) fn may_post(&self, place: &str, owner: &Owner) -> bool {
        let mut known = self.lock();
        if known.forms.is_empty() {
            return true;
        }
        // Not joined, since `//` would begin a host.
        let Ok(url) = Url::parse(&format!("http://here{place}")) else { return false };
        // Every part that looks like the id of a session must be that of one.
        ids(&url).into_iter().all(|id| match &id {
            Id::Place(form, _) if known.forms.contains(form) => known.is_of(&id, owner),
            _ => true,
        })
    }

    fn note_place(&self, place: &Url, owner: &Owner) {
        let mut known = self.lock();
        let in_query = place.query().is_some_and(|query| !query.is_empty());
        for id in ids(place) {
            let Id::Place(form, _) = &id else { continue };
            if matches!(form, Form::Query(_)) != in_query {
                continue;
            }
            if !known.forms.contains(form) {
                if known.forms.len() >= MOST_FORMS {
                    tracing::warn!("the server names places for messages in too many forms");
                    continue;
                }
                let form = form.clone();
                known.forms.insert(form);
            }
            let shared = known.by_id.get(&id).is_some_and(|known| known.owner.as_ref() != Some(owner));
            known.put(id, (!shared).then(|| owner.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn is_of(&mut self, id: &Id, owner: &Owner) -> bool {
        self.uses += 1;
        let Some(owned) = self.by_id.get_mut(id) else { return false };
        let is_of = owned.owner.as_ref().is_none_or(|of| of == owner);
        if is_of {
            owned.used = self.uses;
        }
        is_of
    }

    fn put(&mut self, id: Id, owner: Option<Owner>) {
        if self.by_id.len() >= MOST {
            let mut uses: Vec<u64> = self.by_id.values().map(|owned| owned.used).collect();
            uses.sort_unstable();
            let last = uses.get(uses.len() / 4).copied().unwrap_or_default();
            self.by_id.retain(|_, owned| owned.used > last);
        }
        self.uses += 1;
        self.by_id.insert(id, Owned { owner, used: self.uses });
    }
}

/// The parts of a place that may be ids, decoded: other spellings of the same are the same to a server.
fn ids(place: &Url) -> Vec<Id> {
    let queries = place
        .query_pairs()
        .map(|(name, value)| Id::Place(Form::Query(name.as_ref().into()), value.as_ref().into()));
    let path = decoded(place.path());
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    // Right below the root there is room for everything, and no ids.
    let end = parts
        .split_last()
        .filter(|(_, before)| !before.is_empty())
        .map(|(last, before)| Id::Place(Form::Below(before.join("/").into()), (*last).into()));
    queries.chain(end).collect()
}

fn decoded(path: &str) -> String {
    // A query is decoded in the same way, once `+` is kept from being a space.
    let text = format!("x={}", path.replace('+', "%2B"));
    let mut pairs = url::form_urlencoded::parse(text.as_bytes());
    pairs.next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        Owner(name.into())
    }

    #[test]
    fn a_session_is_its_openers() {
        let owners = Owners::default();
        owners.note("1", &owner("a"));
        owners.note("1", &owner("b"));
        assert!(owners.has("1", &owner("a")));
        assert!(!owners.has("1", &owner("b")) && !owners.has("2", &owner("a")));
        owners.forget("1");
        assert!(!owners.has("1", &owner("a")));
    }

    #[test]
    fn a_place_is_its_openers_however_it_is_spelled() {
        let owners = Arc::new(Owners::default());
        assert!(owners.may_post("/messages?session_id=A", &owner("b")), "nothing is known yet");
        Opening::new(&owners, owner("a")).at("/messages?session_id=ab-c&v=1", "/sse");
        Opening::new(&owners, owner("b")).at("messages?session_id=b&v=1", "/sse");
        assert!(owners.may_post("/messages?session_id=ab-c&v=1", &owner("a")));
        assert!(owners.may_post("/messages?session_id=b&v=1", &owner("b")));
        for place in [
            "/messages?session_id=ab-c",
            "/messages?v=1&session_id=ab%2Dc",
            "/messages?session_id=abc",
            "/messages?session_id=AB-C",
            "/messages?%73ession_id=ab-c",
            "/messages?session_id=b&session_id=ab-c",
        ] {
            assert!(!owners.may_post(place, &owner("b")), "{place}");
        }
        assert!(owners.may_post("/mcp", &owner("c")));
    }

    #[test]
    fn a_place_may_be_a_path() {
        let owners = Arc::new(Owners::default());
        Opening::new(&owners, owner("a")).at("/sse/post/ab", "/sse");
        assert!(owners.may_post("/sse/post/ab", &owner("a")));
        for place in [
            "/sse/post/ab",
            "//sse/post/ab",
            "/sse/post/%61b",
            "/sse//post/./ab",
            "/sse/x/../post/ab?y",
            "/sse/post/AB",
        ] {
            assert!(!owners.may_post(place, &owner("b")), "{place}");
        }
        assert!(owners.may_post("/sse/post", &owner("b")));
    }

    #[test]
    fn what_was_not_used_for_longest_is_forgotten_first() {
        let owners = Owners::default();
        let id = |number: usize| number.to_string();
        (0..MOST).for_each(|number| owners.note(&id(number), &owner("a")));
        assert!(owners.has("0", &owner("a")));
        owners.note("new", &owner("b"));
        assert!(owners.has("0", &owner("a")) && owners.has("new", &owner("b")));
        assert!(!owners.has("1", &owner("a")));
    }
}
