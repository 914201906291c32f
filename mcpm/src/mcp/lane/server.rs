//! What the server says: answers, notifications, requests of its own, and whom each concerns.

use std::{sync::Arc, time::Instant};

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Asked, InFlight, Lane, Purpose, State, error_answer, is_within};
use crate::mcp::{
    era::{self, Era},
    error_code,
    message::{Kind, Malformed, Message, Span, result_answer, same_id, splice},
    outlet::Outlet,
    owner::Served,
    session::{LogLevel, Session, SessionId},
};

/// Messages kept for a session that has no stream open for them.
const BACKLOG: usize = 1000;

/// What a proxy reads of a notification's or a request's params.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow, default)]
    progress_token: Option<&'a RawValue>,
    #[serde(borrow, default)]
    request_id: Option<&'a RawValue>,
    #[serde(default)]
    uri: Option<String>,
    #[serde(default)]
    level: Option<String>,
    #[serde(default)]
    elicitation_id: Option<String>,
}

/// Why no session can be named.
enum NoOne {
    /// No session is open, or none can do this.
    Able,
    /// Several sessions could be meant.
    Single,
    /// The process has worked for several owners, and it could be about any of them.
    Alone,
}

impl Lane {
    /// Takes one line of the server's standard output.
    pub(crate) fn take_line(&self, line: Bytes) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        match Message::parse(line.clone()) {
            Ok(message) => self.lock().take(message),
            Err(malformed) => match serde_json::from_slice::<Vec<&RawValue>>(&line) {
                // Protocol version 2025-03-26 allowed several messages in one array, and none in an array in that.
                Ok(batch) => {
                    for one in batch {
                        let one = line.slice_ref(one.get().as_bytes());
                        match Message::parse(one.clone()) {
                            Ok(message) => self.lock().take(message),
                            Err(malformed) => no_message(&one, &malformed),
                        }
                    }
                }
                Err(_) => no_message(&line, &malformed),
            },
        }
    }
}

fn no_message(text: &[u8], malformed: &Malformed) {
    let text = String::from_utf8_lossy(&text[..text.len().min(200)]).into_owned();
    tracing::debug!(reason = malformed.reason, text, "the server wrote a line that is no message");
}

impl State {
    fn take(&mut self, message: Message) {
        match message.kind() {
            Kind::Response => self.answered(message),
            Kind::Notification => self.notified(&message),
            Kind::Request => self.asked(&message),
        }
    }

    fn answered(&mut self, message: Message) {
        let Some(id) = message.numeric_id() else { return };
        if let Some(waiting) = self.own.remove(&id) {
            // Whoever asked may have stopped waiting.
            let _ = waiting.send(message);
            return;
        }
        if self.answered_listen(&message) {
            return;
        }
        // A cancelled call may be answered all the same; nobody waits for that any more.
        let Some(call) = self.calls.remove(&id) else { return };
        let answer = self
            .task_answer(&call, &message)
            .unwrap_or_else(|| splice(message.bytes(), &mut [(message.id_span(), &call.id)]).freeze());
        if call.purpose == Purpose::ListTools {
            // The cursor is the client's to follow.
            let _ = self.tools.learn(message.result());
        }
        let mut shared = false;
        if let Some(session) = call.session.as_ref().and_then(|id| self.sessions.get_mut(id)) {
            session.last_used = Instant::now();
            shared = session.single_stream;
            if !message.result().is_empty() {
                match &call.purpose {
                    Purpose::Subscribe(uri) => {
                        session.subscriptions.insert(uri.clone());
                    }
                    Purpose::Unsubscribe(uri) => {
                        session.subscriptions.remove(uri);
                    }
                    Purpose::Plain | Purpose::ListTools => {}
                }
            }
        }
        if shared {
            call.outlet.push(answer);
        } else {
            call.outlet.answer(answer);
        }
    }

    fn notified(&mut self, message: &Message) {
        let params: Params<'_> = serde_json::from_str(message.params()).unwrap_or_default();
        if let Some(span) = subscription_span(message, message.params()) {
            self.told_listeners(message, &span);
            return;
        }
        match message.method() {
            "notifications/progress" => self.progressed(message, params.progress_token),
            "notifications/cancelled" => self.cancelled_by_server(message, params.request_id),
            "notifications/resources/updated" => {
                let uri = params.uri.unwrap_or_default();
                let subscribed =
                    |session: &&Session| session.subscriptions.iter().any(|wanted| is_within(&uri, wanted));
                for session in self.sessions.values().filter(subscribed) {
                    offer(&session.standalone, message.bytes());
                }
            }
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => {
                for session in self.sessions.values().filter(|session| session.negotiated.is_some()) {
                    offer(&session.standalone, message.bytes());
                }
            }
            "notifications/elicitation/complete" => {
                let owner = params.elicitation_id.and_then(|id| self.elicitations.remove(&id));
                match owner.and_then(|id| self.sessions.get(&id)) {
                    Some(session) => offer(&session.standalone, message.bytes()),
                    None => self.deliver_if_clear(message, None),
                }
            }
            "notifications/message" => {
                self.deliver_if_clear(message, params.level.as_deref().and_then(LogLevel::parse));
            }
            _ => self.deliver_if_clear(message, None),
        }
    }

    fn progressed(&mut self, message: &Message, token: Option<&RawValue>) {
        let id = token.and_then(|token| token.get().parse().ok());
        let Some(call) = id.and_then(|id: u64| self.calls.get_mut(&id)) else { return };
        call.heard = Instant::now();
        let (Some(token), Some(own)) = (token, &call.token) else { return };
        if call.streams {
            call.outlet.push(splice(message.bytes(), &mut [(message.span_of(token), own)]).freeze());
        }
    }

    /// The server takes back a request of its own, or (stateless era) ends a listen stream.
    fn cancelled_by_server(&mut self, message: &Message, request_id: Option<&RawValue>) {
        let Some(wanted) = request_id else { return };
        let asked = self
            .asked
            .iter()
            .find(|(_, asked)| same_id(&asked.id, wanted.get().as_bytes()))
            .map(|(id, _)| *id);
        if let Some(id) = asked
            && let Some(asked) = self.asked.remove(&id)
        {
            let line =
                splice(message.bytes(), &mut [(message.span_of(wanted), id.to_string().as_bytes())]).freeze();
            if let Some(session) = self.sessions.get(&asked.session) {
                offer(&self.best_outlet(&asked.session, &session.standalone), &line);
            }
            return;
        }
        if let Ok(id) = wanted.get().parse() {
            self.cancelled_listen(id);
        }
    }

    /// Delivers what carries no sign of whom it concerns, if it can concern one client only.
    fn deliver_if_clear(&mut self, message: &Message, level: Option<LogLevel>) {
        if self.era == Some(Era::Modern) {
            if self.served == Served::Several {
                tracing::debug!(
                    method = message.method(),
                    "dropped a notification: several owners share the server"
                );
            } else if let Some(call) = self.only_call_with_logs() {
                call.heard = Instant::now();
                call.outlet.push(message.bytes().clone());
            }
            return;
        }
        let Ok((id, outlet)) = self.candidate(None) else {
            tracing::debug!(
                method = message.method(),
                "dropped a notification: no telling which client it concerns"
            );
            return;
        };
        if let (Some(level), Some(session)) = (level, self.sessions.get(&id))
            && !session.wants_log(level)
        {
            return;
        }
        offer(&outlet, message.bytes());
    }

    /// The one call in flight that asked for log messages: on a pipe they do not say which call they are of.
    fn only_call_with_logs(&mut self) -> Option<&mut InFlight> {
        let mut calls = self.calls.values_mut().filter(|call| call.logs && call.streams);
        calls.next().filter(|_| calls.next().is_none())
    }

    fn asked(&mut self, message: &Message) {
        if message.method() == "ping" {
            self.send_now(BytesMut::from(&result_answer(&message.id(), b"{}")[..]));
            return;
        }
        let refusal = match self.candidate(era::capability_for(message.method())) {
            Ok((session, outlet)) => {
                let id = self.new_id();
                let line =
                    splice(message.bytes(), &mut [(message.id_span(), id.to_string().as_bytes())]).freeze();
                let params: Params<'_> = serde_json::from_str(message.params()).unwrap_or_default();
                if let Some(elicitation) = params.elicitation_id {
                    self.elicitations.insert(elicitation, session.clone());
                }
                self.asked.insert(id, Asked { session, id: message.id() });
                outlet.push(line);
                return;
            }
            Err(NoOne::Able) => "no connected client can do this",
            Err(NoOne::Alone) => "the server works for several callers, so no telling which of them it asks",
            Err(NoOne::Single) => {
                "several clients are connected and none alone has a call in flight, so the request cannot be routed"
            }
        };
        let code = error_code::METHOD_NOT_FOUND;
        self.send_now(error_answer(&message.id(), code, refusal));
    }

    /// The one session a message of the server can concern, and the stream to put it on.
    fn candidate(&self, needs: Option<&str>) -> Result<(SessionId, Arc<Outlet>), NoOne> {
        // Also when all others are gone: what is said now may be about one of their calls.
        if self.served == Served::Several {
            return Err(NoOne::Alone);
        }
        let able = |id: &&SessionId| {
            self.sessions.get(*id).is_some_and(|session| {
                session.negotiated.is_some() && needs.is_none_or(|capability| session.can(capability))
            })
        };
        let mut busy: Vec<&SessionId> =
            self.calls.values().filter_map(|call| call.session.as_ref()).collect();
        busy.sort_unstable_by(|a, b| a.as_str().cmp(b.as_str()));
        busy.dedup();
        let any_busy = !busy.is_empty();
        let mut found = busy.into_iter().filter(able);
        let only = match (found.next(), found.next()) {
            (Some(only), None) => only,
            (Some(_), Some(_)) => return Err(NoOne::Single),
            (None, _) if any_busy => return Err(NoOne::Able),
            (None, _) => {
                let mut open = self.sessions.keys().filter(able);
                match (open.next(), open.next()) {
                    (Some(only), None) => only,
                    (Some(_), Some(_)) => return Err(NoOne::Single),
                    (None, _) => return Err(NoOne::Able),
                }
            }
        };
        let standalone = self.sessions.get(only).map(|session| &session.standalone).ok_or(NoOne::Able)?;
        Ok((only.clone(), self.best_outlet(only, standalone)))
    }

    /// The stream of the session's newest call that somebody reads, else its standalone stream.
    fn best_outlet(&self, session: &SessionId, standalone: &Arc<Outlet>) -> Arc<Outlet> {
        self.calls
            .iter()
            .filter(|(_, call)| call.streams && call.session.as_ref() == Some(session))
            .filter(|(_, call)| call.outlet.is_reachable())
            .max_by_key(|(id, _)| **id)
            .map_or_else(|| Arc::clone(standalone), |(_, call)| Arc::clone(&call.outlet))
    }
}

/// Puts a message on a stream, unless nobody reads it and it is full.
fn offer(outlet: &Outlet, bytes: &Bytes) {
    if outlet.is_attached() || outlet.unread() < BACKLOG {
        outlet.push(bytes.clone());
    }
}

/// Where `_meta["io.modelcontextprotocol/subscriptionId"]` stands in a message, given its params or result.
pub(super) fn subscription_span(message: &Message, part: &str) -> Option<Span> {
    #[derive(Deserialize)]
    struct Outer<'a> {
        #[serde(borrow, rename = "_meta")]
        meta: Inner<'a>,
    }
    #[derive(Deserialize)]
    struct Inner<'a> {
        #[serde(borrow, rename = "io.modelcontextprotocol/subscriptionId")]
        id: &'a RawValue,
    }
    if !part.contains("io.modelcontextprotocol/subscriptionId") {
        return None;
    }
    serde_json::from_str::<Outer<'_>>(part).ok().map(|outer| message.span_of(outer.meta.id))
}
