//! Creates the audit events of one request.
//!
//! There is one event for each message, and one for a request without messages. An event is written as soon as the
//! outcome is known: from the head of the response, from a message in the response, or when the request ends without
//! either. If the audit log fails closed, an event with the outcome `pending` is also written before the request is
//! forwarded.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};

use super::{
    audit_message::{AuditedMessage, AuditedResponse, put_denial},
    audit_source::RequestSource,
    facts::{MCP_SESSION_ID, RequestFacts},
    outcome::{RequestOutcome, ResponseHead},
    spans::RequestTelemetry,
};
use crate::{
    audit::{Audit, AuditOutcome, Event, EventFields, EventType, LimitedCause, SessionDigest},
    auth::incoming::Principal,
    explain::Reason,
    mcp::{
        error_code,
        message::{Message, MessageKind},
    },
    options::Secret,
    proxy::{
        denial::Denial,
        messages::RequestMessages,
        respond::{self, Request, Response},
    },
    redact::{extended::ExtendedRedactor, is_secret_name, truncate},
    telemetry::traceparent_header,
};

/// Maximum recorded length of a path.
const MAX_PATH_BYTES: usize = 1024;

/// One request in the audit log.
#[derive(Debug)]
pub(super) struct RequestAudit {
    audit: Arc<Audit>,
    facts: Arc<RequestFacts>,
    /// Provides the ids of the request's own span, if requests are traced.
    telemetry: Option<Arc<RequestTelemetry>>,
    /// Whether callers have to authenticate.
    requires_auth: bool,
    source: RequestSource,
    session: Option<SessionDigest>,
    posts_json: bool,
    traceparent: Option<String>,
    state: Mutex<AuditState>,
}

#[derive(Debug, Default)]
struct AuditState {
    principal: Option<Arc<Principal>>,
    /// The token that replaces the caller's, and the header that holds it.
    exchanged_token: Option<(HeaderName, Secret)>,
    /// The names of the credentials that were sent to the server.
    credential: Option<Cow<'static, str>>,
    messages: Vec<AuditedMessage>,
    head: Option<Arc<ResponseHead>>,
    /// Whether all messages of the response were seen, and whether it broke off.
    ended: bool,
    truncated: bool,
    /// Whether the response is a stream whose messages are still to come.
    is_streaming: bool,
    /// Whether all events were written.
    settled: bool,
}

impl RequestAudit {
    /// Reads the parts of a request's head that only the audit log needs.
    pub(super) fn new(
        audit: &Arc<Audit>,
        facts: &Arc<RequestFacts>,
        telemetry: Option<&Arc<RequestTelemetry>>,
        request: &Request,
        requires_auth: bool,
    ) -> Self {
        let headers = request.headers();
        let is_json = |value: &HeaderValue| {
            value.as_bytes().windows(4).any(|letters| letters.eq_ignore_ascii_case(b"json"))
        };
        let digest = |id: &str| audit.session_digest(id);
        let query = request.uri().query().unwrap_or_default();
        let in_query = || {
            let mut pairs = url::form_urlencoded::parse(query.as_bytes());
            pairs.find(|(name, _)| matches!(&**name, "session_id" | "sessionId")).map(|(_, id)| digest(&id))
        };
        let session = headers.get(MCP_SESSION_ID).and_then(|id| id.to_str().ok()).map(digest);
        Self {
            audit: Arc::clone(audit),
            facts: Arc::clone(facts),
            telemetry: telemetry.cloned(),
            requires_auth,
            source: RequestSource::of(facts, headers, audit.masks()),
            session: session.or_else(in_query),
            posts_json: facts.method == Method::POST
                && headers.get_all(header::CONTENT_TYPE).iter().any(is_json),
            traceparent: traceparent_header(headers).map(str::to_owned),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, AuditState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_principal(&self, principal: &Arc<Principal>) {
        self.state().principal = Some(Arc::clone(principal));
    }

    pub(super) fn set_exchanged_token(&self, name: &HeaderName, value: &HeaderValue) {
        let value = String::from_utf8_lossy(value.as_bytes());
        let token = value.split_once(' ').map_or(&*value, |(_, token)| token);
        self.state().exchanged_token = Some((name.clone(), Secret::from(token)));
    }

    pub(super) fn set_outgoing_headers(&self, headers: &HeaderMap, configured: &HeaderMap) {
        let mut state = self.state();
        let is_secret = |(name, value): &(&HeaderName, &HeaderValue)| {
            value.is_sensitive() || is_secret_name(name.as_str())
        };
        let mut names: Vec<&str> =
            configured.iter().filter(is_secret).map(|(name, _)| name.as_str()).collect();
        let put_in = state.exchanged_token.as_ref().map(|(name, _)| name);
        if put_in.is_some_and(|name| !configured.contains_key(name)) {
            names.push("exchanged");
        }
        let own = headers.contains_key(header::AUTHORIZATION) && put_in != Some(&header::AUTHORIZATION);
        if own && !configured.contains_key(header::AUTHORIZATION) {
            // The proxy does not authenticate callers, so the server checks their credentials.
            names.push("caller");
        }
        let credential = if names.is_empty() { "none".into() } else { names.join(",").into() };
        state.credential = Some(credential);
    }

    pub(super) fn set_messages(&self, messages: &RequestMessages) {
        let mut state = self.state();
        let masks = self.masks(&state);
        let audited = messages.messages().iter().map(|message| {
            AuditedMessage::new(
                &self.audit,
                message,
                messages.is_batch(),
                &masks,
                self.traceparent.as_deref(),
            )
        });
        let audited = audited.collect();
        state.messages = audited;
    }

    /// Writes an event that the request is about to be forwarded.
    ///
    /// # Errors
    /// The denial of a request that cannot be recorded, with the request's `id`.
    pub(super) async fn record_pending(&self, id: &[u8]) -> Result<(), Box<Response>> {
        for event in self.pending_events() {
            self.audit.write(&event).await.map_err(|error| cannot_record(id, &error.to_string()))?;
        }
        Ok(())
    }

    fn pending_events(&self) -> Vec<Event> {
        let mut state = self.state();
        if state.messages.is_empty() {
            state.messages.push(self.without_message(None));
        }
        let recorded = state.messages.iter().filter(|message| self.audit.records(message.kind));
        recorded.map(|message| self.event(&state, message, AuditOutcome::Pending)).collect()
    }

    /// Writes the events whose outcome is known by the head of the response.
    ///
    /// # Errors
    /// The denial that replaces a response that must be recorded but cannot be.
    pub(super) async fn on_response(&self, head: &Arc<ResponseHead>) -> Result<(), Box<Response>> {
        let events = self.settle_by_head(head);
        let limited = self.limited_cause(head.denial.as_ref());
        if !self.audit.spec().fail_closed {
            events.iter().for_each(|event| self.post(limited, event));
            return Ok(());
        }
        for event in &events {
            let written = match limited {
                Some(cause) => self.audit.write_limited(cause, event).await,
                None => self.audit.write(event).await,
            };
            if let Err(error) = written {
                let is_denied = head.denial.as_ref().map(|denial| denial.reason);
                if is_denied == Some(Reason::AuditNotWritten) {
                    return Ok(());
                }
                // The pending event was written already; the outcome stays unknown.
                self.state().settled = true;
                return Err(cannot_record(b"", &error.to_string()));
            }
        }
        Ok(())
    }

    /// The limit for the events of a request whose caller is not authenticated.
    fn limited_cause(&self, denial: Option<&Denial>) -> Option<LimitedCause> {
        let is_authenticated = self.state().principal.is_some();
        match (is_authenticated, denial) {
            (false, Some(denial)) if self.requires_auth || denial.reason.is_for_unauthenticated() => {
                Some(LimitedCause::Unauthenticated)
            }
            (false, None) if self.requires_auth => Some(LimitedCause::Public),
            _ => None,
        }
    }

    fn post(&self, limited: Option<LimitedCause>, event: &Event) {
        match limited {
            Some(cause) => self.audit.post_limited(cause, event),
            None => self.audit.post(event),
        }
    }

    /// Returns the events whose outcome is known by the head of the response.
    fn settle_by_head(&self, head: &Arc<ResponseHead>) -> Vec<Event> {
        let mut state = self.state();
        if state.messages.is_empty() {
            state.messages.push(self.without_message(head.denial.as_ref()));
        }
        state.head = Some(Arc::clone(head));
        state.is_streaming = head.is_events && !state.ended;
        if state.is_streaming {
            // Notifications and responses get no response.
            return self.settle(&mut state, |message| !message.is_request);
        }
        state.settled = true;
        self.settle(&mut state, |_| true)
    }

    /// Writes the remaining events when the request has ended, with the outcome of messages that got no response.
    pub(super) fn finish(&self, outcome: RequestOutcome) {
        let is_streaming = self.is_streaming();
        self.finish_unanswered(match outcome {
            RequestOutcome::Complete => AuditOutcome::Unanswered,
            RequestOutcome::Truncated | RequestOutcome::Panicked => AuditOutcome::Error,
            // The proxy itself ends streams whose tokens have expired.
            RequestOutcome::ClientGone if is_streaming && self.is_token_expired() => AuditOutcome::Unanswered,
            RequestOutcome::ClientGone => AuditOutcome::ClientGone,
        });
    }

    fn finish_unanswered(&self, outcome: AuditOutcome) {
        let mut state = self.state();
        if std::mem::replace(&mut state.settled, true) {
            return;
        }
        if state.messages.is_empty() {
            state.messages.push(self.without_message(None));
        }
        let messages = std::mem::take(&mut state.messages);
        let is_unauthenticated = self.requires_auth && state.principal.is_none();
        let limited = is_unauthenticated.then_some(LimitedCause::Unauthenticated);
        for message in messages.iter().filter(|one| !one.settled && self.audit.records(one.kind)) {
            self.post(limited, &self.event(&state, message, outcome));
        }
    }

    /// The event of a request without messages, or whose messages were not parsed.
    fn without_message(&self, denial: Option<&Denial>) -> AuditedMessage {
        let method = &self.facts.method;
        let of_caller = denial.is_some_and(|denial| denial.reason.layer() == Reason::TokenMissing.layer());
        let kind = match *method {
            _ if of_caller => EventType::AuthFailure,
            Method::GET if self.facts.names_events => EventType::SseConnection,
            Method::DELETE if self.session.is_some() => EventType::SessionEnd,
            Method::POST if self.posts_json => EventType::Request,
            _ => EventType::Http,
        };
        AuditedMessage::without_message(kind, method, self.traceparent.as_deref())
    }

    /// Settles the messages that `which` selects, and returns their events.
    fn settle(&self, state: &mut AuditState, which: impl Fn(&AuditedMessage) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        for place in 0..state.messages.len() {
            let call = &state.messages[place];
            if call.settled || !which(call) {
                continue;
            }
            let outcome = self.outcome(state, call);
            if self.audit.records(call.kind) {
                events.push(self.event(state, call, outcome));
            }
            (state.messages[place].settled, state.messages[place].in_flight) = (true, None);
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
            _ if call.failed() && self.audit.spec().detect_application_errors => {
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

    fn masks<'a>(&'a self, state: &'a AuditState) -> ExtendedRedactor<'a> {
        let token = state.principal.as_ref().map(|principal| &principal.token);
        let exchanged = state.exchanged_token.as_ref().map(|(_, token)| token);
        ExtendedRedactor::new(self.audit.masks(), [token, exchanged])
    }

    fn event(&self, state: &AuditState, call: &AuditedMessage, outcome: AuditOutcome) -> Event {
        let began = self.facts.began.0;
        let caller = state.principal.as_ref().map(|principal| self.audit.caller(principal));
        self.audit.event_with(call.kind, outcome, &call.call.audit_id, began, |event| {
            event.object("source", |source| self.source.write(source));
            event.object_if_any("subjects", |subjects| {
                match &caller {
                    Some(caller) => subjects.put_written(&caller.subjects),
                    None => subjects.put_plain("user", "anonymous"),
                }
                if let Some((name, version)) = &call.client {
                    subjects.put("client_name", Some(name));
                    subjects.put("client_version", version.as_deref());
                }
            });
            event.object("target", |target| {
                let path = self.audit.masks().redact(self.facts.path());
                target.put("endpoint", Some(truncate(&path, MAX_PATH_BYTES)));
                call.write_target(target);
            });
            event.object("metadata", |metadata| {
                metadata.object("extra", |extra| self.write_metadata(extra, state, call, outcome));
            });
            event.object_if_any("data", |data| call.write_data(data));
            let delegation = caller.as_ref().map(|caller| &caller.delegation);
            event.put("delegation", delegation.filter(|actors| !actors.is_empty()));
        })
    }

    fn write_metadata(
        &self,
        extra: &mut EventFields<'_>,
        state: &AuditState,
        call: &AuditedMessage,
        outcome: AuditOutcome,
    ) {
        if outcome != AuditOutcome::Pending {
            let duration = self.facts.began.1.elapsed().as_micros();
            extra.put("duration_ms", Some(u64::try_from(duration).unwrap_or(u64::MAX) as f64 / 1000.0));
        }
        let head = state.head.as_deref();
        let events = head.map_or(call.kind == EventType::SseConnection, |head| head.is_events);
        extra.put_plain("transport", if events { "sse" } else { "http" });
        extra.put("backend_name", Some(self.audit.server()));
        if let Some(head) = head {
            extra.put("http_status", Some(head.status.as_u16()));
            extra.put("response_size_bytes", call.response_size().or(head.size));
            if let Some(denial) = &head.denial {
                put_denial(extra, call.denial().unwrap_or(denial));
                let masks = self.masks(state);
                extra.put("rule", denial.rule.as_deref().map(|rule| masks.redact(rule)));
            }
        }
        extra.put("credential", state.credential.as_deref());
        let opened = || head.and_then(|head| head.session.as_deref());
        let session = self.session.or_else(|| opened().map(|id| self.audit.session_digest(id)));
        if let Some(SessionDigest(digest)) = &session {
            extra.put_hex("session", digest);
        }
        // This begins the span of a request without messages, unless it has begun before.
        let own = self.telemetry.as_deref().and_then(RequestTelemetry::trace_ids);
        call.write_metadata(extra, own);
        if head.is_none_or(|head| head.denial.is_none())
            && let Some(denial) = call.denial()
        {
            put_denial(extra, denial);
        }
    }

    /// Records a message of the response.
    pub(super) fn on_message(&self, message: &Message, denial: Option<&Denial>) {
        if message.kind() != MessageKind::Response {
            return;
        }
        let mut state = self.state();
        let masks = self.masks(&state);
        let answered = AuditedResponse::of(&self.audit, message, denial, &masks);
        let place = state.messages.iter().position(|call| !call.settled && call.matches_response(message));
        // An error without an id belongs to the request if there is only one.
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
                    // Events of messages without a response are not written yet.
                    events = self.settle(&mut state, |call| call.response.is_some());
                }
            }
            // A response to a request of another exchange.
            None if streams && answered.failed && self.audit.records(EventType::StreamError) => {
                let mut call =
                    AuditedMessage::without_message(EventType::StreamError, &self.facts.method, None);
                call.response = Some(answered);
                let outcome = self.outcome(&state, &call);
                of_stream = Some(self.event(&state, &call, outcome));
            }
            None => {}
        }
        drop(state);
        if let Some(event) = of_stream {
            // The server can send any number of them.
            self.audit.post_limited(LimitedCause::StreamError, &event);
        }
        events.iter().for_each(|event| self.audit.post(event));
    }

    /// Records that no more messages of the response follow.
    pub(super) fn on_messages_end(&self, broken: bool) {
        let mut state = self.state();
        (state.ended, state.truncated) = (true, broken);
        let is_streaming = state.is_streaming;
        drop(state);
        if is_streaming {
            self.finish_unanswered(if broken { AuditOutcome::Error } else { AuditOutcome::Unanswered });
        }
    }

    fn is_token_expired(&self) -> bool {
        let end = self.state().principal.as_ref().and_then(|principal| principal.expires_with_leeway());
        end.is_some_and(|end| end <= SystemTime::now())
    }

    /// Whether messages of the response are still to come.
    pub(super) fn is_streaming(&self) -> bool {
        self.state().is_streaming
    }
}

/// The response to a request that cannot be recorded. The cause is only in the operator's log.
fn cannot_record(id: &[u8], cause: &str) -> Box<Response> {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let denial = Denial::new(Reason::AuditNotWritten).input("cause", cause);
    let message = "the request cannot be recorded; try again later";
    Box::new(respond::deny(status, error_code::INTERNAL_ERROR, message, id, denial))
}

#[cfg(test)]
#[path = "request_audit_tests.rs"]
mod tests;
