//! The audit log: requests with their callers and outcomes, and denied connections of isolated servers, one JSON object
//! per line.
//!
//! [`config`] defines which events are recorded and where, [`event`] defines their format, and [`sink`] writes their
//! lines. This module passes the lines of events to a [`line_writer`](crate::line_writer), and tracks which calls are
//! in flight. The fields that describe a request are created in `proxy/observe/request_audit.rs`.

mod config;
mod event;
mod id;
mod limit;
mod sink;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Instant, SystemTime},
};

use serde_json::{Map, Value, json};

pub(crate) use config::AuditOwner;
pub use config::{AuditSink, AuditSpec};
pub use event::EventType;
pub(crate) use event::{AuditOutcome, Event, EventFields, put};
pub(crate) use id::{AuditId, SessionDigest};
pub(crate) use limit::LimitedCause;

use event::EventHead;
use id::SessionDigests;
use limit::{Limit, Suppressed};

use crate::{
    Error, ErrorKind, Result,
    auth::incoming::{Principal, PrincipalCache},
    line_writer::{BackgroundLineWriter, LineSink, LossNotice, WriteError},
    redact::{Redactor, extended::ExtendedRedactor, truncate},
};

/// Capacity of the queue of events.
const QUEUE: usize = 8192;
/// Maximum number of calls in flight that an event lists.
const MAX_LISTED_CALLS: usize = 32;
/// Maximum size of message data that is recorded: larger data cannot be searched for secrets.
const MAX_INSPECTED_BYTES: usize = 1 << 20;
/// Claims that identify an actor of a delegation.
const ACTOR: [&str; 3] = ["sub", "iss", "client_id"];

/// The audit log of one server.
#[derive(Debug)]
pub(crate) struct Audit {
    component: String,
    server: String,
    spec: AuditSpec,
    masks: Redactor,
    journal: BackgroundLineWriter,
    limit: Limit,
    callers: PrincipalCache<Arc<CallerFields>>,
    sessions: SessionDigests,
    calls: Mutex<BTreeMap<u64, Arc<CallInfo>>>,
    next: AtomicU64,
}

/// The fields of events that describe a caller.
#[derive(Debug)]
pub(crate) struct CallerFields {
    /// The fields of `subjects`.
    pub(crate) subjects: Vec<u8>,
    /// The actors of a delegation.
    pub(crate) delegation: Vec<Value>,
}

/// A call, for its own event and for events that it may have caused.
#[derive(Debug)]
pub(crate) struct CallInfo {
    pub(crate) audit_id: AuditId,
    pub(crate) method: Cow<'static, str>,
    /// The name of the tool, prompt or resource.
    pub(crate) name: Option<String>,
}

/// Removes a call from those in flight when it is dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard {
    audit: Arc<Audit>,
    number: u64,
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.audit.calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

impl Audit {
    /// Opens the log of `server`. `usual` is the file of a workload, for [`AuditSink::Usual`]. Known secrets are
    /// never written.
    ///
    /// # Errors
    /// `Io` if the log cannot be written.
    pub(crate) fn open(
        spec: &AuditSpec,
        server: &str,
        usual: Option<PathBuf>,
        secrets: impl IntoIterator<Item = crate::options::Secret>,
    ) -> Result<Arc<Self>> {
        Self::with(spec, server, sink::open(spec, usual)?, secrets)
    }

    fn with(
        spec: &AuditSpec,
        server: &str,
        sink: Box<dyn LineSink>,
        secrets: impl IntoIterator<Item = crate::options::Secret>,
    ) -> Result<Arc<Self>> {
        let component = spec.component.clone().unwrap_or_else(|| server.to_owned());
        let of_gap = component.clone();
        let gap: LossNotice = Box::new(move |lost| lost_events(&of_gap, lost).line);
        let journal = BackgroundLineWriter::start(sink, QUEUE, Some(gap)).map_err(|error| {
            Error::new(ErrorKind::Io, "cannot start the thread of the audit log").source(error)
        })?;
        Ok(Arc::new(Self {
            component,
            server: server.to_owned(),
            spec: spec.clone(),
            masks: Redactor::new(secrets, &spec.redact),
            journal,
            limit: Limit::new(spec.rotate_size),
            callers: PrincipalCache::default(),
            sessions: SessionDigests::default(),
            calls: Mutex::default(),
            next: AtomicU64::new(0),
        }))
    }

    /// The configuration.
    pub(crate) fn spec(&self) -> &AuditSpec {
        &self.spec
    }

    /// The server's name.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// The redactor.
    pub(crate) fn masks(&self) -> &Redactor {
        &self.masks
    }

    /// Returns the digest of a session's id.
    pub(crate) fn session_digest(&self, id: &str) -> SessionDigest {
        self.sessions.get(id)
    }

    /// Whether events of this type are recorded.
    pub(crate) fn records(&self, kind: EventType) -> bool {
        let among = self.spec.event_types.is_empty() || self.spec.event_types.contains(&kind);
        among && !self.spec.exclude_event_types.contains(&kind)
    }

    /// Creates an event without other fields.
    #[cfg(test)]
    fn event(&self, kind: EventType, outcome: AuditOutcome, audit_id: AuditId, since: SystemTime) -> Event {
        self.event_with(kind, outcome, &audit_id, since, |event| {
            event.object("metadata", |metadata| {
                metadata.object("extra", |_| ());
            })
        })
    }

    /// Creates an event with the fields that `write` adds.
    pub(crate) fn event_with(
        &self,
        kind: EventType,
        outcome: AuditOutcome,
        audit_id: &AuditId,
        since: SystemTime,
        write: impl FnOnce(&mut EventFields<'_>),
    ) -> Event {
        Event::new(&EventHead { kind, outcome, audit_id, since, component: &self.component }, write)
    }

    /// Queues an event.
    pub(crate) fn post(&self, event: &Event) {
        self.before_unlimited(event);
        self.journal.post(&event.line);
    }

    /// Queues a rate-limited event, or counts it for the next summary event.
    pub(crate) fn post_limited(&self, cause: LimitedCause, event: &Event) {
        if let Some(line) = self.admit(cause, event) {
            self.journal.post(&line);
        }
    }

    /// Writes an event and waits until it is written.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) async fn write(&self, event: &Event) -> Result<(), WriteError> {
        self.before_unlimited(event);
        self.journal.write_and_wait(event.line.clone()).await
    }

    /// Writes a rate-limited event and waits until it is written. An event beyond the limit is counted for the next
    /// summary event, and then counts as written.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) async fn write_limited(&self, cause: LimitedCause, event: &Event) -> Result<(), WriteError> {
        match self.admit(cause, event) {
            Some(line) => self.journal.write_and_wait(line).await,
            None => Ok(()),
        }
    }

    /// Credits an unlimited event to the allowances of limited ones.
    fn before_unlimited(&self, event: &Event) {
        if self.limit.has_suppressed() {
            self.summarize(self.limit.due(Instant::now()));
        }
        self.limit.earn(event.line.len() as u64);
    }

    /// The line of a rate-limited event. Such events may use at most half of the queue.
    fn admit(&self, cause: LimitedCause, event: &Event) -> Option<Vec<u8>> {
        let now = Instant::now();
        let room = self.journal.is_below_half_full();
        let line = self.limit.admit(cause, event.kind, now, room, || event.line.clone());
        if line.is_none() {
            self.summarize(self.limit.due(now));
        }
        line
    }

    /// Queues a summary event for each cause with suppressed events.
    fn summarize(&self, suppressed: Vec<Suppressed>) {
        for suppressed in suppressed {
            let mut fields = Map::new();
            suppressed.describe(&mut fields);
            let (kind, outcome) = (EventType::EventsSuppressed, AuditOutcome::Error);
            let event = self.event_with(kind, outcome, &AuditId::random(), suppressed.since, |event| {
                event.object("metadata", |metadata| metadata.object("extra", |extra| extra.put_all(&fields)));
            });
            self.limit.spend(suppressed.cause, event.line.len() as u64);
            self.journal.post(&event.line);
        }
    }

    /// Waits until all queued events are written, including a summary of suppressed ones.
    pub(crate) async fn flush(&self) {
        self.summarize(self.limit.take());
        self.journal.flush().await;
    }

    /// Tracks a call as in flight until the returned guard is dropped.
    pub(crate) fn track_call(self: &Arc<Self>, call: &Arc<CallInfo>) -> InFlightGuard {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::clone(call));
        InFlightGuard { audit: Arc::clone(self), number }
    }

    /// Records a denied connection of the server, with the calls in flight: any of them may have caused the connection,
    /// or none.
    pub(crate) fn connection_denied(&self, target: Map<String, Value>, extra: Map<String, Value>) {
        if !self.records(EventType::ConnectionRefused) {
            return;
        }
        let mut extra = extra;
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let named = calls.values().take(MAX_LISTED_CALLS).map(|call| {
            let mut shown = Map::new();
            put(&mut shown, "audit_id", Some(call.audit_id.as_str()));
            put(&mut shown, "method", Some(&*call.method));
            put(&mut shown, "name", call.name.clone());
            Value::from(shown)
        });
        let named: Vec<Value> = named.collect();
        put(&mut extra, "calls_in_flight", Some(calls.len()));
        drop(calls);
        put(&mut extra, "in_flight", Some(named));
        let (kind, outcome) = (EventType::ConnectionRefused, AuditOutcome::Denied);
        let event = self.event_with(kind, outcome, &AuditId::random(), SystemTime::now(), |event| {
            event.object_if_any("target", |fields| fields.put_all(&target));
            event.object("metadata", |metadata| metadata.object("extra", |fields| fields.put_all(&extra)));
        });
        self.post_limited(LimitedCause::ConnectionRefused, &event);
    }

    /// The data of a message as it is recorded: redacted, and truncated to the maximum size.
    pub(crate) fn data(&self, text: &str, masks: &ExtendedRedactor<'_>) -> Value {
        let max_bytes = self.spec.max_data_size;
        if text.len() > MAX_INSPECTED_BYTES {
            return json!({ "truncated": true, "size": text.len(), "text": "" });
        }
        let Ok(mut value) = serde_json::from_str::<Value>(text) else { return Value::Null };
        masks.redact_json(&mut value);
        let plain = value.to_string();
        if plain.len() <= max_bytes {
            return value;
        }
        json!({ "truncated": true, "size": text.len(), "text": truncate(&plain, max_bytes) })
    }

    /// Returns the fields that describe a caller. They are prepared once for all requests with the same token.
    pub(crate) fn caller(&self, principal: &Arc<Principal>) -> Arc<CallerFields> {
        self.callers.get_or_insert(principal, || {
            let claim = |name: &&str| principal.claims.get(*name).and_then(Value::as_str);
            let user = ["preferred_username", "name", "email"].iter().find_map(claim);
            let user = user.map_or(Cow::Borrowed(&*principal.subject), |user| self.masks.redact(user));
            let subjects = EventFields::written(|subjects| {
                subjects.put("user", Some(user));
                subjects.put("user_id", Some(&principal.subject));
                subjects.put("issuer", Some(&principal.issuer));
                subjects.put("client_id", principal.client_id.as_deref());
            });
            Arc::new(CallerFields { subjects, delegation: self.delegation(&principal.claims) })
        })
    }

    /// The actors of a delegation (RFC 8693 section 4.1), the most recent first.
    fn delegation(&self, claims: &Map<String, Value>) -> Vec<Value> {
        let mut actors = Vec::new();
        let mut next = claims.get("act");
        while let Some(Value::Object(actor)) = next
            && actors.len() < self.spec.max_delegation_depth
        {
            let shown = ACTOR.iter().filter_map(|name| Some((*name, actor.get(*name)?.as_str()?)));
            let shown: Map<String, Value> =
                shown.map(|(name, text)| (name.to_owned(), self.masks.redact(text).into())).collect();
            actors.push(Value::from(shown));
            next = actor.get("act");
        }
        actors
    }
}

fn lost_events(component: &str, lost: u64) -> Event {
    let (id, now) = (AuditId::random(), SystemTime::now());
    let (kind, outcome) = (EventType::EventsLost, AuditOutcome::Error);
    let head = EventHead { kind, outcome, audit_id: &id, since: now, component };
    Event::new(&head, |event| {
        event.object("metadata", |metadata| {
            metadata.object("extra", |extra| extra.put("events", Some(lost)));
        })
    })
}

#[cfg(test)]
#[path = "audit_tests.rs"]
pub(crate) mod tests;
