//! Records which caller owns which session.
//!
//! A session id is not a credential: with incoming authentication, a session may only be used by the principal that
//! opened it. Sessions of streamable HTTP have an id in a header. Sessions of the deprecated SSE transport have the
//! URL of a message endpoint instead. Only the server knows which part of this URL is the session id, and which
//! spellings of the URL are equivalent. So once a server has named a message endpoint, a caller may post messages only
//! to an endpoint that the server named to this caller, or to the server's own path.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use foldhash::quality::RandomState;
use url::Url;

pub(crate) use crate::stdio::owner::Owner;

use super::target::SSE_PATH;
use crate::auth::incoming::Principal;

/// Maximum number of sessions, and of message endpoints.
const MAX_ENTRIES: usize = 50_000;
/// Maximum number of sessions, and of message endpoints, for one caller across all its clients, so that no caller can
/// evict those of all others. A caller can have any number of clients if clients register dynamically.
const MAX_ENTRIES_PER_CALLER: usize = 1000;

/// The owners of sessions and message endpoints.
#[derive(Debug, Default)]
pub(crate) struct SessionOwners {
    /// The paths of the server itself, without a trailing slash.
    paths: Vec<String>,
    known: Mutex<SessionOwnersState>,
}

#[derive(Debug, Default)]
struct SessionOwnersState {
    by_id: HashMap<Box<str>, OwnedSession, RandomState>,
    /// The number of sessions and open message endpoints of each caller.
    counts: HashMap<Arc<str>, OwnerCounts>,
    /// The owners of the open streams that named an endpoint.
    endpoints: HashMap<MessageEndpoint, Vec<Owner>>,
    /// Whether an endpoint was ever named.
    has_named_endpoint: bool,
    /// Whether an endpoint was ever named at a path of the server itself.
    has_endpoint_at_server_path: bool,
    uses: u64,
}

#[derive(Debug, Default)]
struct OwnerCounts {
    sessions: usize,
    places: usize,
}

#[derive(Debug)]
struct OwnedSession {
    owner: Owner,
    used: u64,
}

/// A decoded path and query.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct MessageEndpoint {
    path: String,
    query: Vec<String>,
}

impl Owner {
    pub(crate) fn of(principal: &Principal) -> Self {
        let client = principal.client_id.as_deref().unwrap_or_default();
        Self::new(&principal.issuer, &principal.subject, client)
    }
}

/// Registers the message endpoint of a session when the server names it.
#[derive(Debug, Clone)]
pub(crate) struct EndpointRegistrar {
    owners: Arc<SessionOwners>,
    owner: Owner,
}

/// A registered endpoint. The stream that named the endpoint owns this value, so that both end together.
#[derive(Debug)]
pub(crate) struct EndpointRegistration {
    opening: EndpointRegistrar,
    place: MessageEndpoint,
}

impl EndpointRegistrar {
    pub(crate) fn new(owners: &Arc<SessionOwners>, owner: Owner) -> Self {
        Self { owners: Arc::clone(owners), owner }
    }

    /// Registers an endpoint that was named in the response to a request for `path`.
    pub(crate) fn register(&self, endpoint: &str, path: &str) -> Option<EndpointRegistration> {
        let here = Url::parse("http://here").and_then(|base| base.join(path));
        let url = here.and_then(|here| here.join(endpoint));
        let endpoint = url.ok().map(|url| MessageEndpoint::new(url.path(), url.query()));
        self.owners.add_endpoint(endpoint.as_ref(), &self.owner);
        Some(EndpointRegistration { opening: self.clone(), place: endpoint? })
    }

    /// Registers that the server may have named an endpoint that could not be parsed. From then on, endpoints without a
    /// known owner are denied.
    pub(crate) fn register_unknown(&self) {
        self.owners.add_endpoint(None, &self.owner);
    }
}

impl Drop for EndpointRegistration {
    fn drop(&mut self) {
        self.opening.owners.remove_endpoint(&self.place, &self.opening.owner);
    }
}

impl MessageEndpoint {
    fn new(path: &str, query: Option<&str>) -> Self {
        let query = query.unwrap_or_default().split('&').filter(|part| !part.is_empty()).map(percent_decoded);
        Self { path: percent_decoded(path), query: query.collect() }
    }
}

impl SessionOwners {
    /// `paths` are those of the server itself.
    pub(crate) fn new<'a>(paths: impl IntoIterator<Item = &'a str>) -> Self {
        let paths = paths.into_iter().map(|path| percent_decoded(path.trim_end_matches('/'))).collect();
        Self { paths, known: Mutex::default() }
    }

    /// Whether a session belongs to an owner.
    pub(crate) fn is_owner(&self, id: &str, owner: &Owner) -> bool {
        self.lock().is_owner(id, owner)
    }

    /// Registers a session. An existing owner is kept, unless the session is `new`: when a server assigns an id to
    /// a request without one, it no longer knows another session with that id.
    pub(crate) fn insert(&self, id: &str, owner: &Owner, new: bool) {
        let mut known = self.lock();
        if new || !known.by_id.contains_key(id) {
            known.put(id, owner);
        }
    }

    /// Removes a session that has ended.
    pub(crate) fn forget(&self, id: &str) {
        self.lock().remove(id);
    }

    /// Whether an owner may post messages to a path and query.
    pub(crate) fn may_post(&self, endpoint: &str, owner: &Owner) -> bool {
        let known = self.lock();
        if !known.has_named_endpoint {
            return true;
        }
        let (path, query) =
            endpoint.split_once('?').map_or((endpoint, None), |(path, query)| (path, Some(query)));
        let endpoint = MessageEndpoint::new(path, query);
        // A query at the server's own path may contain a session id, if endpoints with one were named there.
        let is_own = self.is_server_path(&endpoint.path)
            && (endpoint.query.is_empty() || !known.has_endpoint_at_server_path);
        is_own || known.endpoints.get(&endpoint).is_some_and(|owners| owners.contains(owner))
    }

    /// Whether a path and query are one of the server's own paths, below one of them, or a message endpoint that the
    /// server has named to any caller.
    pub(crate) fn is_endpoint(&self, endpoint: &str) -> bool {
        let (path, query) =
            endpoint.split_once('?').map_or((endpoint, None), |(path, query)| (path, Some(query)));
        let below = |own: &String| {
            let rest = path.strip_prefix(own.as_str()).and_then(|rest| rest.strip_prefix('/'));
            !own.is_empty() && rest.is_some_and(is_plain_path)
        };
        if !path.contains('%') && self.is_server_path(path) {
            // Without `%` there is nothing to decode.
            return true;
        }
        let endpoint = MessageEndpoint::new(path, query);
        self.is_server_path(&endpoint.path)
            || endpoint.path == SSE_PATH
            || self.paths.iter().any(below)
            || self.lock().endpoints.contains_key(&endpoint)
    }

    fn is_server_path(&self, path: &str) -> bool {
        self.paths.iter().any(|own| own == path.trim_end_matches('/'))
    }

    fn add_endpoint(&self, endpoint: Option<&MessageEndpoint>, owner: &Owner) {
        let mut known = self.lock();
        // Set even if the endpoint cannot be parsed: from then on, a caller may use only its own known endpoints.
        known.has_named_endpoint = true;
        let Some(endpoint) = endpoint else { return };
        known.has_endpoint_at_server_path |= self.is_server_path(&endpoint.path);
        if known.endpoints.len() >= MAX_ENTRIES && !known.endpoints.contains_key(endpoint) {
            tracing::warn!(
                "the maximum number of SSE streams is reached; messages of further streams will be rejected"
            );
            return;
        }
        let counts = known.counts.entry(Arc::clone(owner.caller_key())).or_default();
        if counts.places >= MAX_ENTRIES_PER_CALLER && !owner.is_anonymous() {
            tracing::warn!(
                "a caller has the maximum number of SSE streams; messages of its further streams will be \
                 rejected"
            );
            return;
        }
        counts.places += 1;
        known.endpoints.entry(endpoint.clone()).or_default().push(owner.clone());
    }

    fn remove_endpoint(&self, endpoint: &MessageEndpoint, owner: &Owner) {
        let mut known = self.lock();
        let Some(owners) = known.endpoints.get_mut(endpoint) else { return };
        if let Some(at) = owners.iter().position(|one| one == owner) {
            owners.swap_remove(at);
            if owners.is_empty() {
                known.endpoints.remove(endpoint);
            }
            known.decrement(owner, |counts| counts.places -= 1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, SessionOwnersState> {
        // No code panics while it holds the lock, so the state of a poisoned lock is consistent.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionOwnersState {
    fn is_owner(&mut self, id: &str, owner: &Owner) -> bool {
        self.uses += 1;
        let Some(owned) = self.by_id.get_mut(id).filter(|owned| owned.owner == *owner) else { return false };
        owned.used = self.uses;
        true
    }

    fn put(&mut self, id: &str, owner: &Owner) {
        self.remove(id);
        if self.counts.get(owner.caller_key()).is_some_and(|counts| counts.sessions >= MAX_ENTRIES_PER_CALLER)
        {
            self.make_room(|owned| owned.owner.caller_key() == owner.caller_key());
        }
        if self.by_id.len() >= MAX_ENTRIES {
            self.make_room(|_| true);
        }
        self.uses += 1;
        self.counts.entry(Arc::clone(owner.caller_key())).or_default().sessions += 1;
        self.by_id.insert(id.into(), OwnedSession { owner: owner.clone(), used: self.uses });
    }

    /// Removes the least recently used quarter of the selected sessions.
    fn make_room(&mut self, of: impl Fn(&OwnedSession) -> bool) {
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
            self.decrement(&owned.owner, |counts| counts.sessions -= 1);
        }
    }

    fn decrement(&mut self, owner: &Owner, one: impl FnOnce(&mut OwnerCounts)) {
        if let Some(counts) = self.counts.get_mut(owner.caller_key()) {
            one(counts);
            if counts.sessions == 0 && counts.places == 0 {
                self.counts.remove(owner.caller_key());
            }
        }
    }
}

/// Whether a path is interpreted in the same way by all servers.
pub(super) fn is_plain_path(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:@".contains(&byte);
    path.split('/').all(|part| !matches!(part, "" | "." | "..") && part.bytes().all(plain))
}

fn percent_decoded(part: &str) -> String {
    // The parts of a form are decoded in the same way, once characters with another meaning there are escaped.
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

    fn owners() -> Arc<SessionOwners> {
        Arc::new(SessionOwners::new(["/mcp", "/", "/v1/mcp"]))
    }

    #[test]
    fn a_session_is_its_openers() {
        let owners = SessionOwners::default();
        owners.insert("1", &owner("a"), true);
        owners.insert("1", &owner("b"), false);
        assert!(owners.is_owner("1", &owner("a")));
        assert!(!owners.is_owner("1", &owner("b")) && !owners.is_owner("2", &owner("a")));
        // The server has restarted, and numbers sessions from one again.
        owners.insert("1", &owner("b"), true);
        assert!(owners.is_owner("1", &owner("b")) && !owners.is_owner("1", &owner("a")));
        owners.forget("1");
        assert!(!owners.is_owner("1", &owner("b")));
    }

    #[test]
    fn messages_may_be_posted_to_own_endpoints_and_the_server_path() {
        let owners = owners();
        assert!(owners.may_post("/messages?session_id=A", &owner("b")), "nothing is known yet");
        let a = EndpointRegistrar::new(&owners, owner("a")).register("/messages?session_id=ab-c&v=1", "/sse");
        let b = EndpointRegistrar::new(&owners, owner("b")).register("messages?session_id=b&v=1", "/sse");
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
    fn an_endpoint_may_be_a_path_or_a_query_at_the_server_path() {
        let owners = owners();
        let opening = EndpointRegistrar::new(&owners, owner("a"));
        let _path = opening.register("/sse/post/ab", "/sse");
        assert!(owners.may_post("/sse/post/ab", &owner("a")));
        for place in
            ["/sse/post/ab", "//sse/post/ab", "/sse/post/%61b", "/sse/x/../post/ab?y", "/sse/post/AB"]
        {
            assert!(!owners.may_post(place, &owner("b")), "{place}");
        }
        let _own = opening.register("/mcp?s=1", "/mcp");
        assert!(owners.may_post("/mcp?s=1", &owner("a")));
        assert!(owners.may_post("/mcp", &owner("b")));
        for place in ["/mcp?s=1", "/?s=1", "/v1/mcp?S=1", "/mcp/?s=1"] {
            assert!(!owners.may_post(place, &owner("b")), "{place}");
        }
    }

    #[test]
    fn an_endpoint_is_removed_when_its_stream_ends() {
        let owners = owners();
        let opening = EndpointRegistrar::new(&owners, owner("a"));
        let (one, same) = (opening.register("/m?s=1", "/sse"), opening.register("/m?s=1", "/sse"));
        drop(one);
        assert!(owners.may_post("/m?s=1", &owner("a")));
        drop(same);
        assert!(!owners.may_post("/m?s=1", &owner("a")) && !owners.may_post("/m?s=1", &owner("b")));
        let _other = EndpointRegistrar::new(&owners, owner("b")).register("/m?s=1", "/sse");
        assert!(owners.may_post("/m?s=1", &owner("b")) && !owners.may_post("/m?s=1", &owner("a")));
    }

    #[test]
    fn endpoints_beyond_the_limit_are_not_registered() {
        let owners = owners();
        let of = |number: usize| owner(&(number / MAX_ENTRIES_PER_CALLER).to_string());
        let at = |number: usize| {
            EndpointRegistrar::new(&owners, of(number)).register(&format!("/m?s={number}"), "/sse")
        };
        let all: Vec<_> = (0..=MAX_ENTRIES).map(at).collect();
        assert!(owners.may_post("/m?s=0", &of(0)) && !owners.may_post("/m?s=0", &of(MAX_ENTRIES)));
        let last = format!("/m?s={MAX_ENTRIES}");
        assert!(!owners.may_post(&last, &of(MAX_ENTRIES)) && !owners.may_post(&last, &of(0)));
        drop(all);
        let known = owners.lock();
        assert!(known.counts.is_empty() && known.endpoints.is_empty());
    }

    #[test]
    fn one_caller_cannot_evict_the_sessions_of_others() {
        let owners = owners();
        let opening = EndpointRegistrar::new(&owners, owner("a"));
        let all: Vec<_> = (0..=MAX_ENTRIES_PER_CALLER)
            .map(|number| opening.register(&format!("/m?s={number}"), "/sse"))
            .collect();
        assert!(owners.may_post("/m?s=0", &owner("a")));
        assert!(!owners.may_post(&format!("/m?s={MAX_ENTRIES_PER_CALLER}"), &owner("a")), "one too many");
        let other = EndpointRegistrar::new(&owners, owner("b")).register("/m?s=b", "/sse");
        assert!(owners.may_post("/m?s=b", &owner("b")));
        drop((all, other));
        owners.insert("b", &owner("b"), true);
        for number in 0..2 * MAX_ENTRIES {
            owners.insert(&format!("a-{number}"), &owner("a"), true);
        }
        assert!(owners.is_owner("b", &owner("b")));
        let known = owners.lock();
        assert!(known.by_id.len() <= MAX_ENTRIES_PER_CALLER + 1, "{}", known.by_id.len());
        assert_eq!(known.counts.values().map(|counts| counts.sessions).sum::<usize>(), known.by_id.len());
    }

    #[test]
    fn the_limit_is_per_caller_whatever_the_client() {
        let owners = owners();
        let of = |number: usize| client_of("a", &number.to_string());
        let at = |number: usize| {
            EndpointRegistrar::new(&owners, of(number)).register(&format!("/m?s={number}"), "/sse")
        };
        let all: Vec<_> = (0..=MAX_ENTRIES_PER_CALLER).map(at).collect();
        assert!(owners.may_post("/m?s=0", &of(0)) && !owners.may_post("/m?s=0", &of(1)));
        let last = format!("/m?s={MAX_ENTRIES_PER_CALLER}");
        assert!(!owners.may_post(&last, &of(MAX_ENTRIES_PER_CALLER)), "one too many");
        drop(all);
        owners.insert("b", &owner("b"), true);
        (0..MAX_ENTRIES).for_each(|number| owners.insert(&format!("a-{number}"), &of(number), true));
        let last = format!("a-{}", MAX_ENTRIES - 1);
        assert!(owners.is_owner("b", &owner("b")) && owners.is_owner(&last, &of(MAX_ENTRIES - 1)));
        assert!(!owners.is_owner(&last, &of(0)), "a session is one client's");
        assert!(owners.lock().by_id.len() <= MAX_ENTRIES_PER_CALLER + 1);
    }

    #[test]
    fn the_least_recently_used_session_is_evicted_first() {
        let owners = SessionOwners::default();
        let id = |number: usize| number.to_string();
        let of = |number: usize| owner(&(number / MAX_ENTRIES_PER_CALLER).to_string());
        (0..MAX_ENTRIES).for_each(|number| owners.insert(&id(number), &of(number), true));
        assert!(owners.is_owner("0", &of(0)));
        owners.insert("new", &owner("b"), true);
        assert!(owners.is_owner("0", &of(0)) && owners.is_owner("new", &owner("b")));
        assert!(!owners.is_owner("1", &of(1)));
    }
}
