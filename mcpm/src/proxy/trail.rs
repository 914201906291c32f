//! What becomes of one request, for the audit log.
//!
//! [`layers::audit`](super::layers::audit) begins a [`Trail`] and puts it into the request's extensions. Layers further
//! in add what they find out: who asks, and what. The head of the answer, and the messages in it, say how it came out.
//! There is one event for each message, and one for a request without any; each is written once, as soon as its outcome
//! is known.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Instant, SystemTime},
};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use serde_json::{Map, Value};

use super::{
    denial::Denial,
    layers::telemetry::Journey,
    messages::{Asked, Hook, LARGEST, Said, Verdict, is_encoded},
    respond::{Request, Response},
    trail_call::{Answered, Call},
};
use crate::{
    audit::{Audit, Event, EventType, Limited, Outcome, Source, put},
    auth::incoming::Principal,
    explain::Reason,
    mcp::message::{Kind, Message},
    options::Secret,
    redact::{Masks, cut, hex, names_secret},
};

/// Longest path that is recorded.
const LONGEST_PATH: usize = 1024;
/// Longest text of a header that is recorded.
const LONGEST: usize = 256;
const EVENTS: &[u8] = b"text/event-stream";
const SESSION: &str = "mcp-session-id";
/// Digits of a session's digest.
const DIGITS: usize = 16;

/// The address at the other end of a connection, in the extensions of requests that are recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// One request. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Trail(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    audit: Arc<Audit>,
    /// Whether callers say who they are.
    gated: bool,
    began: Instant,
    since: SystemTime,
    method: Method,
    path: String,
    source: Source,
    session: Option<String>,
    /// Whether it asks for a stream, or posts JSON.
    wants_events: bool,
    posts_json: bool,
    traceparent: Option<String>,
    /// Where the request stands in its trace, if that is measured.
    journey: Option<Arc<Journey>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    principal: Option<Arc<Principal>>,
    /// What the caller's token was exchanged for, and the header that it is in.
    exchanged: Option<(HeaderName, Secret)>,
    /// The credentials that the server was sent, in names.
    credential: Option<String>,
    calls: Vec<Call>,
    head: Option<Head>,
    /// Whether nothing more comes of the answer, and whether it broke off.
    over: bool,
    broken: bool,
    /// Whether the answer is a stream whose messages are still to come.
    streams: bool,
    /// Whether everything was written.
    settled: bool,
}

#[derive(Debug, Clone)]
struct Head {
    status: StatusCode,
    denial: Option<Denial>,
    events: bool,
    /// Whether messages in the answer were looked at.
    read: bool,
    size: Option<u64>,
    session: Option<String>,
}

impl Trail {
    /// Begins with what is known from the head of a request. `trusted` says whether a proxy in front is believed, `gated`
    /// whether callers say who they are.
    pub(crate) fn begin(audit: &Arc<Audit>, request: &Request, trusted: bool, gated: bool) -> Self {
        let headers = request.headers();
        let is = |name: HeaderName, kind: &[u8]| {
            let mut values = headers.get_all(name).iter();
            values.any(|value| memchr::memmem::find(&value.as_bytes().to_ascii_lowercase(), kind).is_some())
        };
        let query = request.uri().query().unwrap_or_default();
        let in_query = || {
            let mut pairs = url::form_urlencoded::parse(query.as_bytes());
            pairs.find(|(name, _)| matches!(&**name, "session_id" | "sessionId")).map(|(_, id)| digest(&id))
        };
        Self(Arc::new(Inner {
            audit: Arc::clone(audit),
            gated,
            began: Instant::now(),
            since: SystemTime::now(),
            method: request.method().clone(),
            // A query may hold anything.
            path: cut(&audit.masks().text(request.uri().path()), LONGEST_PATH).into_owned(),
            source: source(request, audit.masks(), trusted),
            session: session(headers).or_else(in_query),
            wants_events: is(header::ACCEPT, b"text/event-stream"),
            posts_json: request.method() == Method::POST && is(header::CONTENT_TYPE, b"json"),
            journey: request.extensions().get().cloned(),
            traceparent: headers.get("traceparent").and_then(|text| text.to_str().ok()).map(str::to_owned),
            state: Mutex::default(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes who asks.
    pub(crate) fn caller(&self, principal: &Arc<Principal>) {
        self.state().principal = Some(Arc::clone(principal));
    }

    /// Notes what the caller's token was exchanged for: the value of that header.
    pub(crate) fn exchanged(&self, name: &HeaderName, value: &HeaderValue) {
        let value = String::from_utf8_lossy(value.as_bytes());
        let token = value.split_once(' ').map_or(&*value, |(_, token)| token);
        self.state().exchanged = Some((name.clone(), Secret::from(token)));
    }

    /// Notes with which headers the request goes to the server, of which some are set for all requests to it.
    pub(crate) fn sends(&self, headers: &HeaderMap, set: &HeaderMap) {
        let mut state = self.state();
        let is_secret =
            |(name, value): &(&HeaderName, &HeaderValue)| value.is_sensitive() || names_secret(name.as_str());
        let mut names: Vec<&str> = set.iter().filter(is_secret).map(|(name, _)| name.as_str()).collect();
        let put_in = state.exchanged.as_ref().map(|(name, _)| name);
        if put_in.is_some_and(|name| !set.contains_key(name)) {
            names.push("exchanged");
        }
        let own = headers.contains_key(header::AUTHORIZATION) && put_in != Some(&header::AUTHORIZATION);
        if own && !set.contains_key(header::AUTHORIZATION) {
            // Callers are not asked who they are, so that it is the server's to check.
            names.push("caller");
        }
        let credential = if names.is_empty() { "none".to_owned() } else { names.join(",") };
        state.credential = Some(credential);
    }

    /// Whether it is known who asks.
    pub(crate) fn has_caller(&self) -> bool {
        self.state().principal.is_some()
    }

    /// Notes what is asked.
    pub(crate) fn asks(&self, asked: &Asked) {
        if let Some(journey) = &self.0.journey {
            // The span of the request begins below what its message names.
            journey.understand(asked);
        }
        let mut state = self.state();
        let masks = self.masks(&state);
        let calls = asked.messages().iter().map(|message| {
            Call::new(&self.0.audit, message, asked.is_batch(), &masks, self.0.traceparent.as_deref())
        });
        state.calls = calls.collect();
    }

    /// The events that say what is about to be sent on.
    pub(crate) fn pending(&self) -> Vec<Event> {
        let mut state = self.state();
        if state.calls.is_empty() {
            state.calls.push(self.bare(None));
        }
        let events = state.calls.iter().filter(|call| self.0.audit.takes(call.kind));
        events.map(|call| self.event(&state, call, Outcome::Pending)).collect()
    }

    /// Takes the head of the answer, and returns the events whose outcome is known by it.
    pub(crate) fn answered(&self, response: &Response) -> Vec<Event> {
        let events = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let events = events.and_then(|kind| kind.get(..EVENTS.len()));
        let events = events.is_some_and(|kind| kind.eq_ignore_ascii_case(EVENTS));
        let size = http_body::Body::size_hint(response.body()).exact();
        let denial = response.extensions().get::<Denial>().cloned();
        let mut state = self.state();
        if state.calls.is_empty() {
            state.calls.push(self.bare(denial.as_ref()));
        }
        state.head = Some(Head {
            status: response.status(),
            denial,
            events,
            read: !is_encoded(response.headers()) && size.is_none_or(|size| size <= LARGEST as u64),
            size,
            session: session(response.headers()),
        });
        state.streams = events && !state.over;
        if state.streams {
            // Of these nothing is answered.
            return self.settle(&mut state, |call| !call.is_request);
        }
        state.settled = true;
        self.settle(&mut state, |_| true)
    }

    /// Forgets the head of an answer that is not given.
    pub(crate) fn replaced(&self) {
        self.state().settled = true;
    }

    /// The events of a request that ends without an answer.
    fn lost(&self, outcome: Outcome) {
        let mut state = self.state();
        if std::mem::replace(&mut state.settled, true) {
            return;
        }
        if state.calls.is_empty() {
            state.calls.push(self.bare(None));
        }
        let calls = std::mem::take(&mut state.calls);
        let is_unauthenticated = self.0.gated && state.principal.is_none();
        for call in calls.iter().filter(|call| !call.settled && self.0.audit.takes(call.kind)) {
            let event = self.event(&state, call, outcome);
            if is_unauthenticated {
                self.0.audit.post_limited(Limited::Unauthenticated, &event);
            } else {
                self.0.audit.post(&event);
            }
        }
    }

    /// The event of a request without messages, or whose messages were not read.
    fn bare(&self, denial: Option<&Denial>) -> Call {
        let inner = &*self.0;
        let of_caller = denial.is_some_and(|denial| denial.reason.layer() == Reason::TokenMissing.layer());
        let kind = match inner.method {
            _ if of_caller => EventType::AuthFailure,
            Method::GET if inner.wants_events => EventType::SseConnection,
            Method::DELETE if inner.session.is_some() => EventType::SessionEnd,
            Method::POST if inner.posts_json => EventType::Request,
            _ => EventType::Http,
        };
        Call::bare(kind, &inner.method, inner.traceparent.as_deref())
    }

    /// Ends the calls that `which` chooses, and returns their events.
    fn settle(&self, state: &mut State, which: impl Fn(&Call) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        for place in 0..state.calls.len() {
            let call = &state.calls[place];
            if call.settled || !which(call) {
                continue;
            }
            let outcome = self.outcome(state, call);
            if self.0.audit.takes(call.kind) {
                events.push(self.event(state, call, outcome));
            }
            let call = &mut state.calls[place];
            call.settled = true;
            call.in_flight = None;
        }
        events
    }

    fn outcome(&self, state: &State, call: &Call) -> Outcome {
        let Some(head) = &state.head else { return Outcome::Error };
        match head.status {
            status if status.is_server_error() => Outcome::Error,
            _ if head.denial.is_some() || call.is_refused() => Outcome::Denied,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Outcome::Denied,
            status if status.is_client_error() => Outcome::Failure,
            _ if call.failed() && self.0.audit.spec().detect_application_errors => Outcome::ApplicationError,
            status if call.is_request && call.answered.is_none() && status.is_success() && head.read => {
                match status {
                    StatusCode::ACCEPTED => Outcome::Accepted,
                    _ if state.broken => Outcome::Error,
                    _ => Outcome::Unanswered,
                }
            }
            _ => Outcome::Success,
        }
    }

    fn masks(&self, state: &State) -> Masks {
        let token = state.principal.as_ref().map(|principal| &principal.token);
        self.0.audit.masks().with(token.into_iter().chain(state.exchanged.as_ref().map(|(_, token)| token)))
    }

    fn event(&self, state: &State, call: &Call, outcome: Outcome) -> Event {
        let inner = &*self.0;
        let mut event = inner.audit.event(call.kind, outcome, call.audit_id.clone(), inner.since);
        event.source = Some(inner.source.clone());
        event.subjects = subjects(state.principal.as_deref(), call, inner.audit.masks());
        put(&mut event.target, "endpoint", Some(inner.path.clone()));
        call.target(&mut event.target);
        if let Some(principal) = &state.principal {
            event.delegation = inner.audit.delegation(&principal.claims);
        }
        let extra = &mut event.metadata.extra;
        if outcome != Outcome::Pending {
            let duration = inner.began.elapsed().as_micros();
            put(extra, "duration_ms", Some(u64::try_from(duration).unwrap_or(u64::MAX) as f64 / 1000.0));
        }
        let head = state.head.as_ref();
        let events = head.map_or(call.kind == EventType::SseConnection, |head| head.events);
        put(extra, "transport", Some(if events { "sse" } else { "http" }));
        put(extra, "backend_name", Some(inner.audit.server()));
        if let Some(head) = head {
            put(extra, "http_status", Some(head.status.as_u16()));
            put(extra, "response_size_bytes", call.answer_size().or(head.size));
            if let Some(denial) = &head.denial {
                named(extra, denial);
                let rule = denial.rule.as_deref().map(|rule| self.masks(state).text(rule).into_owned());
                put(extra, "rule", rule);
            }
        }
        put(extra, "credential", state.credential.clone());
        let opened = head.and_then(|head| head.session.clone());
        put(extra, "session", inner.session.clone().or(opened));
        // What a request without messages is, is known by its answer; then its span begins, if not before.
        let own = inner.journey.as_deref().and_then(Journey::ids);
        call.describe(extra, own, &mut event.data);
        event
    }

    /// Looks at a message of the answer.
    fn said(&self, message: &Message, denial: Option<&Denial>) {
        if message.kind() != Kind::Response {
            return;
        }
        let mut state = self.state();
        let masks = self.masks(&state);
        let answered = Answered::of(&self.0.audit, message, denial, &masks);
        let place = state.calls.iter().position(|call| !call.settled && call.is_answered_by(message));
        // Who cannot tell which request was at fault answers without its id; of a single one it is clear.
        let is_single =
            || matches!(message.id_text(), b"" | b"null") && answered.failed && state.calls.len() == 1;
        let place = place.or_else(|| (!state.streams && is_single()).then_some(0));
        let streams = state.streams;
        let mut events = Vec::new();
        let mut of_stream = None;
        match place {
            Some(place) => {
                state.calls[place].answered = Some(answered);
                if streams {
                    let audit_id = state.calls[place].audit_id.clone();
                    events = self.settle(&mut state, |call| call.audit_id == audit_id);
                }
            }
            // The request came another way.
            None if streams && answered.failed && self.0.audit.takes(EventType::StreamError) => {
                let mut call = Call::bare(EventType::StreamError, &self.0.method, None);
                call.answered = Some(answered);
                let outcome = self.outcome(&state, &call);
                of_stream = Some(self.event(&state, &call, outcome));
            }
            None => {}
        }
        drop(state);
        if let Some(event) = of_stream {
            // The server sends as many of them as it likes, whatever was asked.
            self.0.audit.post_limited(Limited::StreamError, &event);
        }
        events.iter().for_each(|event| self.0.audit.post(event));
    }

    /// Is told that nothing more comes of the answer.
    fn over(&self, broken: bool) {
        let mut state = self.state();
        (state.over, state.broken) = (true, broken);
        let streams = state.streams;
        drop(state);
        if streams {
            self.lost(if broken { Outcome::Error } else { Outcome::Unanswered });
        }
    }

    /// Whether the proxy ends what the caller asked for, since their token has ended.
    fn has_expired(&self) -> bool {
        let end = self.state().principal.as_ref().and_then(|principal| principal.end());
        end.is_some_and(|end| end <= SystemTime::now())
    }

    fn streams(&self) -> bool {
        self.state().streams
    }
}

/// Writes what is not written yet when a request ends before its answer: its client went, or the proxy has a defect.
#[derive(Debug)]
pub(crate) struct Unanswered(pub(crate) Trail);

impl Drop for Unanswered {
    fn drop(&mut self) {
        if !self.0.streams() {
            self.0.lost(if std::thread::panicking() { Outcome::Error } else { Outcome::ClientGone });
        }
    }
}

/// Sees the messages of the answer as the client gets them.
#[derive(Debug)]
pub(crate) struct Listener {
    trail: Trail,
    over: bool,
}

impl Listener {
    pub(crate) fn new(trail: Trail) -> Self {
        Self { trail, over: false }
    }
}

impl Hook for Listener {
    fn message(&mut self, said: &Said<'_>) -> Verdict {
        self.trail.said(said.message, said.denial);
        Verdict::Keep
    }

    fn end(&mut self, broken: bool) {
        self.over = true;
        self.trail.over(broken);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // The client went in the middle of a stream. Streams without calls have nothing to wait for.
        if !self.over && self.trail.streams() {
            self.trail.lost(if self.trail.has_expired() { Outcome::Unanswered } else { Outcome::ClientGone });
        }
    }
}

/// Says which refusal it is.
pub(super) fn named(extra: &mut Map<String, Value>, denial: &Denial) {
    put(extra, "reason", Some(denial.reason.id()));
    put(extra, "refusal", Some(denial.refusal.as_str()));
}

fn subjects(principal: Option<&Principal>, call: &Call, masks: &Masks) -> Map<String, Value> {
    let mut subjects = Map::new();
    let claim = |principal: &Principal, name: &str| {
        principal.claims.get(name).and_then(Value::as_str).map(|text| masks.text(text).into_owned())
    };
    match principal {
        Some(principal) => {
            let user = ["preferred_username", "name", "email"].iter().find_map(|name| claim(principal, name));
            put(&mut subjects, "user", Some(user.unwrap_or_else(|| principal.subject.clone())));
            put(&mut subjects, "user_id", Some(principal.subject.clone()));
            put(&mut subjects, "issuer", Some(principal.issuer.clone()));
            put(&mut subjects, "client_id", principal.client_id.clone());
        }
        None => put(&mut subjects, "user", Some("anonymous")),
    }
    if let Some((name, version)) = &call.client {
        put(&mut subjects, "client_name", Some(name.clone()));
        put(&mut subjects, "client_version", version.clone());
    }
    subjects
}

fn source(request: &Request, masks: &Masks, trusted: bool) -> Source {
    let headers = request.headers();
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0.ip().to_canonical().to_string());
    let forwarded = trusted.then(|| forwarded(headers)).flatten();
    let mut extra = Map::new();
    let text = |name: HeaderName| {
        let text = String::from_utf8_lossy(headers.get(name)?.as_bytes()).into_owned();
        Some(cut(&masks.text(&text), LONGEST).into_owned())
    };
    put(&mut extra, "user_agent", text(header::USER_AGENT));
    put(&mut extra, "request_id", text(HeaderName::from_static("x-request-id")));
    if forwarded.is_some() {
        put(&mut extra, "peer", peer.clone());
    }
    let value = forwarded.or(peer).unwrap_or_else(|| "unknown".to_owned());
    Source { kind: "network", value, extra }
}

/// Who called the proxy in front, as that says: what it wrote itself is the last one.
pub(crate) fn forwarded(headers: &HeaderMap) -> Option<String> {
    let line = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
    let last = line.rsplit(',').next()?.trim();
    last.parse::<std::net::IpAddr>().ok().map(|address| address.to_string())
}

/// Which session it is: an id would let others in.
fn session(headers: &HeaderMap) -> Option<String> {
    Some(digest(headers.get(SESSION)?.to_str().ok()?))
}

fn digest(id: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, id.as_bytes());
    hex(&digest.as_ref()[..DIGITS / 2])
}

#[cfg(test)]
#[path = "trail_tests.rs"]
mod tests;
