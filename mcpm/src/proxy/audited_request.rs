//! What becomes of one request, for the audit log.
//!
//! [`layers::audit`](super::layers::audit) begins a [`AuditedRequest`] and puts it into the request's extensions. Layers further
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
    audited_message::{AuditedMessage, AuditedResponse},
    denial::Denial,
    layers::telemetry::RequestTelemetry,
    messages::{Hook, HookVerdict, MAX_MESSAGE_BYTES, RequestMessages, ResponseMessage, is_encoded},
    respond::{Request, Response},
};
use crate::{
    audit::{Audit, AuditOutcome, AuditSource, Event, EventType, LimitedCause, put},
    auth::incoming::Principal,
    explain::Reason,
    mcp::message::{Message, MessageKind},
    options::Secret,
    redact::{Redactor, hex, is_secret_name, truncate},
};

/// Longest path that is recorded.
const MAX_PATH_BYTES: usize = 1024;
/// Longest text of a header that is recorded.
const MAX_HEADER_BYTES: usize = 256;
const EVENT_STREAM: &[u8] = b"text/event-stream";
const MCP_SESSION_ID: &str = "mcp-session-id";
/// Digits of a session's digest.
const SESSION_DIGEST_DIGITS: usize = 16;

/// The address at the other end of a connection, in the extensions of requests that are recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// One request. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct AuditedRequest(Arc<AuditedRequestInner>);

#[derive(Debug)]
struct AuditedRequestInner {
    audit: Arc<Audit>,
    /// Whether callers say who they are.
    requires_auth: bool,
    began: Instant,
    started_at: SystemTime,
    method: Method,
    path: String,
    source: AuditSource,
    session: Option<String>,
    /// Whether it asks for a stream, or posts JSON.
    wants_events: bool,
    posts_json: bool,
    traceparent: Option<String>,
    /// Where the request stands in its trace, if that is measured.
    journey: Option<Arc<RequestTelemetry>>,
    state: Mutex<AuditState>,
}

#[derive(Debug, Default)]
struct AuditState {
    principal: Option<Arc<Principal>>,
    /// What the caller's token was exchanged for, and the header that it is in.
    exchanged_token: Option<(HeaderName, Secret)>,
    /// The credentials that the server was sent, in names.
    credential: Option<String>,
    messages: Vec<AuditedMessage>,
    head: Option<AuditedResponseHead>,
    /// Whether nothing more comes of the answer, and whether it broke off.
    ended: bool,
    truncated: bool,
    /// Whether the answer is a stream whose messages are still to come.
    is_streaming: bool,
    /// Whether everything was written.
    settled: bool,
}

#[derive(Debug, Clone)]
struct AuditedResponseHead {
    status: StatusCode,
    denial: Option<Denial>,
    events: bool,
    /// Whether messages in the answer were looked at.
    was_inspected: bool,
    size: Option<u64>,
    session: Option<String>,
}

impl AuditedRequest {
    /// Begins with what is known from the head of a request. `trusted` says whether a proxy in front is believed, `gated`
    /// whether callers say who they are.
    pub(crate) fn new(audit: &Arc<Audit>, request: &Request, trusted: bool, gated: bool) -> Self {
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
        Self(Arc::new(AuditedRequestInner {
            audit: Arc::clone(audit),
            requires_auth: gated,
            began: Instant::now(),
            started_at: SystemTime::now(),
            method: request.method().clone(),
            // A query may hold anything.
            path: truncate(&audit.masks().redact(request.uri().path()), MAX_PATH_BYTES).into_owned(),
            source: source(request, audit.masks(), trusted),
            session: session(headers).or_else(in_query),
            wants_events: is(header::ACCEPT, b"text/event-stream"),
            posts_json: request.method() == Method::POST && is(header::CONTENT_TYPE, b"json"),
            journey: request.extensions().get().cloned(),
            traceparent: headers.get("traceparent").and_then(|text| text.to_str().ok()).map(str::to_owned),
            state: Mutex::default(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, AuditState> {
        // No code panics while it holds the lock.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes who asks.
    pub(crate) fn set_principal(&self, principal: &Arc<Principal>) {
        self.state().principal = Some(Arc::clone(principal));
    }

    /// Notes what the caller's token was exchanged for: the value of that header.
    pub(crate) fn set_exchanged_token(&self, name: &HeaderName, value: &HeaderValue) {
        let value = String::from_utf8_lossy(value.as_bytes());
        let token = value.split_once(' ').map_or(&*value, |(_, token)| token);
        self.state().exchanged_token = Some((name.clone(), Secret::from(token)));
    }

    /// Notes with which headers the request goes to the server, of which some are set for all requests to it.
    pub(crate) fn set_outgoing_headers(&self, headers: &HeaderMap, set: &HeaderMap) {
        let mut state = self.state();
        let is_secret = |(name, value): &(&HeaderName, &HeaderValue)| {
            value.is_sensitive() || is_secret_name(name.as_str())
        };
        let mut names: Vec<&str> = set.iter().filter(is_secret).map(|(name, _)| name.as_str()).collect();
        let put_in = state.exchanged_token.as_ref().map(|(name, _)| name);
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
    pub(crate) fn is_authenticated(&self) -> bool {
        self.state().principal.is_some()
    }

    /// Notes what is asked.
    pub(crate) fn set_messages(&self, asked: &RequestMessages) {
        if let Some(journey) = &self.0.journey {
            // The span of the request begins below what its message names.
            journey.set_messages(asked);
        }
        let mut state = self.state();
        let masks = self.masks(&state);
        let calls = asked.messages().iter().map(|message| {
            AuditedMessage::new(
                &self.0.audit,
                message,
                asked.is_batch(),
                &masks,
                self.0.traceparent.as_deref(),
            )
        });
        state.messages = calls.collect();
    }

    /// The events that say what is about to be sent on.
    pub(crate) fn pending_events(&self) -> Vec<Event> {
        let mut state = self.state();
        if state.messages.is_empty() {
            state.messages.push(self.without_message(None));
        }
        let events = state.messages.iter().filter(|call| self.0.audit.records(call.kind));
        events.map(|call| self.event(&state, call, AuditOutcome::Pending)).collect()
    }

    /// Takes the head of the answer, and returns the events whose outcome is known by it.
    pub(crate) fn on_response(&self, response: &Response) -> Vec<Event> {
        let events = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let events = events.and_then(|kind| kind.get(..EVENT_STREAM.len()));
        let events = events.is_some_and(|kind| kind.eq_ignore_ascii_case(EVENT_STREAM));
        let size = http_body::Body::size_hint(response.body()).exact();
        let denial = response.extensions().get::<Denial>().cloned();
        let mut state = self.state();
        if state.messages.is_empty() {
            state.messages.push(self.without_message(denial.as_ref()));
        }
        state.head = Some(AuditedResponseHead {
            status: response.status(),
            denial,
            events,
            was_inspected: !is_encoded(response.headers())
                && size.is_none_or(|size| size <= MAX_MESSAGE_BYTES as u64),
            size,
            session: session(response.headers()),
        });
        state.is_streaming = events && !state.ended;
        if state.is_streaming {
            // Of these nothing is answered.
            return self.settle(&mut state, |call| !call.is_request);
        }
        state.settled = true;
        self.settle(&mut state, |_| true)
    }

    /// Forgets the head of an answer that is not given.
    pub(crate) fn discard_response(&self) {
        self.state().settled = true;
    }

    /// The events of a request that ends without an answer.
    fn finish_unanswered(&self, outcome: AuditOutcome) {
        let mut state = self.state();
        if std::mem::replace(&mut state.settled, true) {
            return;
        }
        if state.messages.is_empty() {
            state.messages.push(self.without_message(None));
        }
        let calls = std::mem::take(&mut state.messages);
        let is_unauthenticated = self.0.requires_auth && state.principal.is_none();
        for call in calls.iter().filter(|call| !call.settled && self.0.audit.records(call.kind)) {
            let event = self.event(&state, call, outcome);
            if is_unauthenticated {
                self.0.audit.post_limited(LimitedCause::Unauthenticated, &event);
            } else {
                self.0.audit.post(&event);
            }
        }
    }

    /// The event of a request without messages, or whose messages were not read.
    fn without_message(&self, denial: Option<&Denial>) -> AuditedMessage {
        let inner = &*self.0;
        let of_caller = denial.is_some_and(|denial| denial.reason.layer() == Reason::TokenMissing.layer());
        let kind = match inner.method {
            _ if of_caller => EventType::AuthFailure,
            Method::GET if inner.wants_events => EventType::SseConnection,
            Method::DELETE if inner.session.is_some() => EventType::SessionEnd,
            Method::POST if inner.posts_json => EventType::Request,
            _ => EventType::Http,
        };
        AuditedMessage::without_message(kind, &inner.method, inner.traceparent.as_deref())
    }

    /// Ends the calls that `which` chooses, and returns their events.
    fn settle(&self, state: &mut AuditState, which: impl Fn(&AuditedMessage) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        for place in 0..state.messages.len() {
            let call = &state.messages[place];
            if call.settled || !which(call) {
                continue;
            }
            let outcome = self.outcome(state, call);
            if self.0.audit.records(call.kind) {
                events.push(self.event(state, call, outcome));
            }
            let call = &mut state.messages[place];
            call.settled = true;
            call.in_flight = None;
        }
        events
    }

    fn outcome(&self, state: &AuditState, call: &AuditedMessage) -> AuditOutcome {
        let Some(head) = &state.head else { return AuditOutcome::Error };
        match head.status {
            status if status.is_server_error() => AuditOutcome::Error,
            _ if head.denial.is_some() || call.is_denied() => AuditOutcome::Denied,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => AuditOutcome::Denied,
            status if status.is_client_error() => AuditOutcome::Failure,
            _ if call.failed() && self.0.audit.spec().detect_application_errors => {
                AuditOutcome::ApplicationError
            }
            status
                if call.is_request
                    && call.response.is_none()
                    && status.is_success()
                    && head.was_inspected =>
            {
                match status {
                    StatusCode::ACCEPTED => AuditOutcome::Accepted,
                    _ if state.truncated => AuditOutcome::Error,
                    _ => AuditOutcome::Unanswered,
                }
            }
            _ => AuditOutcome::Success,
        }
    }

    fn masks(&self, state: &AuditState) -> Redactor {
        let token = state.principal.as_ref().map(|principal| &principal.token);
        self.0
            .audit
            .masks()
            .with(token.into_iter().chain(state.exchanged_token.as_ref().map(|(_, token)| token)))
    }

    fn event(&self, state: &AuditState, call: &AuditedMessage, outcome: AuditOutcome) -> Event {
        let inner = &*self.0;
        let mut event = inner.audit.event(call.kind, outcome, call.audit_id.clone(), inner.started_at);
        event.source = Some(inner.source.clone());
        event.subjects = subjects(state.principal.as_deref(), call, inner.audit.masks());
        put(&mut event.target, "endpoint", Some(inner.path.clone()));
        call.write_target(&mut event.target);
        if let Some(principal) = &state.principal {
            event.delegation = inner.audit.delegation(&principal.claims);
        }
        let extra = &mut event.metadata.extra;
        if outcome != AuditOutcome::Pending {
            let duration = inner.began.elapsed().as_micros();
            put(extra, "duration_ms", Some(u64::try_from(duration).unwrap_or(u64::MAX) as f64 / 1000.0));
        }
        let head = state.head.as_ref();
        let events = head.map_or(call.kind == EventType::SseConnection, |head| head.events);
        put(extra, "transport", Some(if events { "sse" } else { "http" }));
        put(extra, "backend_name", Some(inner.audit.server()));
        if let Some(head) = head {
            put(extra, "http_status", Some(head.status.as_u16()));
            put(extra, "response_size_bytes", call.response_size().or(head.size));
            if let Some(denial) = &head.denial {
                put_denial(extra, denial);
                let rule = denial.rule.as_deref().map(|rule| self.masks(state).redact(rule).into_owned());
                put(extra, "rule", rule);
            }
        }
        put(extra, "credential", state.credential.clone());
        let opened = head.and_then(|head| head.session.clone());
        put(extra, "session", inner.session.clone().or(opened));
        // What a request without messages is, is known by its answer; then its span begins, if not before.
        let own = inner.journey.as_deref().and_then(RequestTelemetry::trace_ids);
        call.describe(extra, own, &mut event.data);
        event
    }

    /// Looks at a message of the answer.
    fn on_message(&self, message: &Message, denial: Option<&Denial>) {
        if message.kind() != MessageKind::Response {
            return;
        }
        let mut state = self.state();
        let masks = self.masks(&state);
        let answered = AuditedResponse::of(&self.0.audit, message, denial, &masks);
        let place = state.messages.iter().position(|call| !call.settled && call.matches_response(message));
        // Who cannot tell which request was at fault answers without its id; of a single one it is clear.
        let is_single =
            || matches!(message.id_text(), b"" | b"null") && answered.failed && state.messages.len() == 1;
        let place = place.or_else(|| (!state.is_streaming && is_single()).then_some(0));
        let streams = state.is_streaming;
        let mut events = Vec::new();
        let mut of_stream = None;
        match place {
            Some(place) => {
                state.messages[place].response = Some(answered);
                if streams {
                    let audit_id = state.messages[place].audit_id.clone();
                    events = self.settle(&mut state, |call| call.audit_id == audit_id);
                }
            }
            // The request came another way.
            None if streams && answered.failed && self.0.audit.records(EventType::StreamError) => {
                let mut call = AuditedMessage::without_message(EventType::StreamError, &self.0.method, None);
                call.response = Some(answered);
                let outcome = self.outcome(&state, &call);
                of_stream = Some(self.event(&state, &call, outcome));
            }
            None => {}
        }
        drop(state);
        if let Some(event) = of_stream {
            // The server sends as many of them as it likes, whatever was asked.
            self.0.audit.post_limited(LimitedCause::StreamError, &event);
        }
        events.iter().for_each(|event| self.0.audit.post(event));
    }

    /// Is told that nothing more comes of the answer.
    fn on_end(&self, broken: bool) {
        let mut state = self.state();
        (state.ended, state.truncated) = (true, broken);
        let streams = state.is_streaming;
        drop(state);
        if streams {
            self.finish_unanswered(if broken { AuditOutcome::Error } else { AuditOutcome::Unanswered });
        }
    }

    /// Whether the proxy ends what the caller asked for, since their token has ended.
    fn is_token_expired(&self) -> bool {
        let end = self.state().principal.as_ref().and_then(|principal| principal.expires_with_leeway());
        end.is_some_and(|end| end <= SystemTime::now())
    }

    fn is_streaming(&self) -> bool {
        self.state().is_streaming
    }
}

/// Writes what is not written yet when a request ends before its answer: its client went, or the proxy has a defect.
#[derive(Debug)]
pub(crate) struct AuditGuard(pub(crate) AuditedRequest);

impl Drop for AuditGuard {
    fn drop(&mut self) {
        if !self.0.is_streaming() {
            self.0.finish_unanswered(if std::thread::panicking() {
                AuditOutcome::Error
            } else {
                AuditOutcome::ClientGone
            });
        }
    }
}

/// Sees the messages of the answer as the client gets them.
#[derive(Debug)]
pub(crate) struct AuditHook {
    trail: AuditedRequest,
    ended: bool,
}

impl AuditHook {
    pub(crate) fn new(trail: AuditedRequest) -> Self {
        Self { trail, ended: false }
    }
}

impl Hook for AuditHook {
    fn on_message(&mut self, said: &ResponseMessage<'_>) -> HookVerdict {
        self.trail.on_message(said.message, said.denial);
        HookVerdict::Keep
    }

    fn on_end(&mut self, broken: bool) {
        self.ended = true;
        self.trail.on_end(broken);
    }
}

impl Drop for AuditHook {
    fn drop(&mut self) {
        // The client went in the middle of a stream. Streams without calls have nothing to wait for.
        if !self.ended && self.trail.is_streaming() {
            self.trail.finish_unanswered(if self.trail.is_token_expired() {
                AuditOutcome::Unanswered
            } else {
                AuditOutcome::ClientGone
            });
        }
    }
}

/// Says which refusal it is.
pub(super) fn put_denial(extra: &mut Map<String, Value>, denial: &Denial) {
    put(extra, "reason", Some(denial.reason.id()));
    put(extra, "refusal", Some(denial.id.as_str()));
}

fn subjects(principal: Option<&Principal>, call: &AuditedMessage, masks: &Redactor) -> Map<String, Value> {
    let mut subjects = Map::new();
    let claim = |principal: &Principal, name: &str| {
        principal.claims.get(name).and_then(Value::as_str).map(|text| masks.redact(text).into_owned())
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

fn source(request: &Request, masks: &Redactor, trusted: bool) -> AuditSource {
    let headers = request.headers();
    let peer = request.extensions().get::<Peer>().map(|peer| peer.0.ip().to_canonical().to_string());
    let forwarded = trusted.then(|| forwarded_client(headers)).flatten();
    let mut extra = Map::new();
    let text = |name: HeaderName| {
        let text = String::from_utf8_lossy(headers.get(name)?.as_bytes()).into_owned();
        Some(truncate(&masks.redact(&text), MAX_HEADER_BYTES).into_owned())
    };
    put(&mut extra, "user_agent", text(header::USER_AGENT));
    put(&mut extra, "request_id", text(HeaderName::from_static("x-request-id")));
    if forwarded.is_some() {
        put(&mut extra, "peer", peer.clone());
    }
    let value = forwarded.or(peer).unwrap_or_else(|| "unknown".to_owned());
    AuditSource { kind: "network", value, extra }
}

/// Who called the proxy in front, as that says: what it wrote itself is the last one.
pub(crate) fn forwarded_client(headers: &HeaderMap) -> Option<String> {
    let line = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
    let last = line.rsplit(',').next()?.trim();
    last.parse::<std::net::IpAddr>().ok().map(|address| address.to_string())
}

/// Which session it is: an id would let others in.
fn session(headers: &HeaderMap) -> Option<String> {
    Some(digest(headers.get(MCP_SESSION_ID)?.to_str().ok()?))
}

fn digest(id: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, id.as_bytes());
    hex(&digest.as_ref()[..SESSION_DIGEST_DIGITS / 2])
}

#[cfg(test)]
#[path = "audited_request_tests.rs"]
mod tests;
