//! Handles server messages (responses, notifications and server requests), and selects the clients that get them.

use std::{sync::Arc, time::Instant};

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    InFlightCall, MAX_ELICITATIONS, MAX_PENDING_SERVER_REQUESTS, MAX_PENDING_SERVER_REQUESTS_PER_SESSION,
    Multiplexer, MuxState, PendingServerRequest, Purpose, error_response, error_response_with_data,
    is_within,
};
use crate::{
    explain::Reason,
    mcp::{
        era::{self, Era},
        error_code,
        message::{
            ID_TOO_LONG, MAX_ID_BYTES, Malformed, Message, MessageKind, Span, batch, result_response,
            same_id, splice,
        },
    },
    stdio::{
        replay_stream::MessageStream,
        session::{LogLevel, Session, SessionId},
    },
};

/// Maximum number of messages that are kept for a session without an open stream.
const MAX_UNREAD_MESSAGES: usize = 1000;

/// The parsed fields of the params of a notification or request.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerParams<'a> {
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
    #[serde(default)]
    task_id: Option<String>,
    #[serde(default)]
    status: Option<String>,
}

/// Why a message has no recipient.
enum NoRecipient {
    /// No session is open, or none supports the request.
    NoneCapable,
    /// Several sessions are possible.
    Ambiguous,
    /// The process has served several owners, and the message may be about any of them.
    SharedByOwners,
}

impl Multiplexer {
    /// Handles one line of the server's standard output.
    pub(crate) fn handle_line(&self, line: Bytes) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        if !line.trim_ascii_start().starts_with(b"[") {
            return self.take_message(line);
        }
        // Protocol version 2025-03-26 allows several messages in one array, but no nested arrays.
        let text = std::str::from_utf8(&line).unwrap_or_default();
        match batch(text) {
            Ok(messages) => {
                messages.iter().for_each(|one| self.take_message(line.slice_ref(one.get().as_bytes())))
            }
            Err(malformed) => log_malformed(&line, &malformed),
        }
    }

    fn take_message(&self, text: Bytes) {
        match Message::parse(text.clone()) {
            Ok(message) => self.lock().handle_message(message),
            Err(malformed) => {
                log_malformed(&text, &malformed);
                if malformed.reason == ID_TOO_LONG {
                    tracing::warn!("rejected a message of the server: {ID_TOO_LONG}");
                    self.lock().reply(error_response(b"", malformed.code, ID_TOO_LONG));
                }
            }
        }
    }
}

impl Multiplexer {
    /// Handles a line that was skipped for the reason in `text`; `id` is the id of the message, if it could be found.
    ///
    /// If the line is a response, its call gets an error; if it is a request, the server gets an error.
    pub(crate) fn take_skipped(
        &self,
        id: Option<&str>,
        is_request: bool,
        text: &str,
        reason: Option<Reason>,
    ) {
        tracing::warn!(id, "dropped a line of the server: {text}");
        let Some(id) = id else { return };
        let data = reason.map(|reason| format!(r#"{{"reason":"{}"}}"#, reason.id()));
        let error = |code| error_response_with_data(id.as_bytes(), code, text, data.as_deref());
        let mut state = self.lock();
        if is_request {
            state.reply(error(error_code::INVALID_REQUEST));
            return;
        }
        if let Ok(answer) = Message::parse(error(error_code::INTERNAL_ERROR).freeze()) {
            state.handle_message(answer);
        }
    }
}

fn log_malformed(text: &[u8], malformed: &Malformed) {
    let text = String::from_utf8_lossy(&text[..text.len().min(200)]).into_owned();
    tracing::debug!(
        reason = malformed.reason,
        text,
        "the server wrote a line that is not a JSON-RPC message"
    );
}

impl MuxState {
    fn handle_message(&mut self, message: Message) {
        match message.kind() {
            MessageKind::Response => self.handle_response(message),
            // A copy, because clients that read slowly would retain the whole buffer of the line.
            MessageKind::Notification => self.handle_notification(&message.into_owned()),
            MessageKind::Request => self.handle_request(&message),
        }
    }

    fn handle_response(&mut self, message: Message) {
        let Some(id) = message.numeric_id() else { return };
        if let Some(waiting) = self.own_requests.remove(&id) {
            // The receiver may have stopped waiting.
            let _ = waiting.send(message);
            return;
        }
        if self.handle_listen_response(&message) {
            return;
        }
        // The server may still respond to a cancelled call; that response is dropped.
        let Some(call) = self.calls.remove(&id) else { return };
        self.track_task_progress(id, &call, &message);
        let answer = self
            .rewrite_task_response(&call, &message)
            .unwrap_or_else(|| splice(message.bytes(), &mut [(message.id_span(), &call.id)]).freeze());
        if matches!(call.purpose, Purpose::ListTools) {
            // The cursor is not needed, because the client itself requests the next page.
            let _ = self.tool_headers.update_from_list(message.result());
        }
        let mut shared = false;
        if let Some(session) = call.session.as_ref().and_then(|id| self.sessions.get_mut(id)) {
            session.last_used = Instant::now();
            shared = session.single_stream;
            if !message.result().is_empty() {
                match call.purpose {
                    Purpose::Subscribe(uri) => {
                        session.subscriptions.insert(uri);
                    }
                    Purpose::Unsubscribe(uri) => {
                        session.subscriptions.remove(&uri);
                    }
                    Purpose::Plain | Purpose::ListTools => {}
                }
            }
        }
        if shared {
            call.stream.push(answer);
        } else {
            call.stream.push_response(answer);
        }
    }

    fn handle_notification(&mut self, message: &Message) {
        let params: ServerParams<'_> = serde_json::from_str(message.params()).unwrap_or_default();
        if let Some(span) = subscription_id_span(message, message.params()) {
            self.notify_subscribers(message, &span);
            return;
        }
        match message.method() {
            "notifications/progress" => self.handle_progress(message, params.progress_token),
            "notifications/cancelled" => self.handle_server_cancel(message, params.request_id),
            "notifications/resources/updated" => {
                let uri = params.uri.unwrap_or_default();
                let subscribed = |session: &&Session| {
                    session.subscriptions.iter().any(|wanted| is_within(&uri, wanted.uri()))
                };
                for session in self.sessions.values_mut().filter(|session| subscribed(&&**session)) {
                    push_if_room(session.standalone(), message.bytes());
                }
            }
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => {
                for session in self.sessions.values_mut().filter(|session| session.negotiated.is_some()) {
                    push_if_room(session.standalone(), message.bytes());
                }
            }
            "notifications/elicitation/complete" => {
                let at =
                    self.elicitations.iter().position(|(id, _)| Some(id) == params.elicitation_id.as_ref());
                let owner = at.and_then(|at| self.elicitations.remove(at)).map(|(_, owner)| owner);
                match owner.and_then(|id| self.sessions.get_mut(&id)) {
                    Some(session) => push_if_room(session.standalone(), message.bytes()),
                    None => self.deliver_if_unambiguous(message, None),
                }
            }
            "notifications/tasks/status" => {
                let is_over = matches!(params.status.as_deref(), Some("completed" | "failed" | "cancelled"));
                if let Some(task) = params.task_id.filter(|_| is_over) {
                    self.tasks.end_progress(&task);
                }
                self.deliver_if_unambiguous(message, None);
            }
            "notifications/message" => {
                self.deliver_if_unambiguous(message, params.level.as_deref().and_then(LogLevel::parse));
            }
            _ => self.deliver_if_unambiguous(message, None),
        }
    }

    fn handle_progress(&mut self, message: &Message, token: Option<&RawValue>) {
        let Some(token) = token else { return };
        let Ok(number) = token.get().parse::<u64>() else { return };
        let Some(call) = self.calls.get_mut(&number) else {
            if let Some((session, own)) = self.tasks.progress(number) {
                let line = splice(message.bytes(), &mut [(message.span_of(token), own)]).freeze();
                let session = session.clone();
                self.delivery_stream(&session).inspect(|stream| push_if_room(stream, &line));
            }
            return;
        };
        call.last_activity = Instant::now();
        let Some(own) = &call.token else { return };
        if call.can_stream {
            call.stream.push(splice(message.bytes(), &mut [(message.span_of(token), own)]).freeze());
        }
    }

    /// Handles the cancellation of a server request, or (stateless era) the end of a listen stream.
    fn handle_server_cancel(&mut self, message: &Message, request_id: Option<&RawValue>) {
        let Some(wanted) = request_id else { return };
        let pending = self
            .server_requests
            .iter()
            .find(|(_, pending)| same_id(&pending.id, wanted.get().as_bytes()))
            .map(|(id, _)| *id);
        if let Some(id) = pending
            && let Some(pending) = self.take_server_request(id)
        {
            let line =
                splice(message.bytes(), &mut [(message.span_of(wanted), id.to_string().as_bytes())]).freeze();
            if let Some(stream) = self.delivery_stream(&pending.session) {
                push_if_room(&stream, &line);
            }
            return;
        }
        if let Ok(id) = wanted.get().parse() {
            self.handle_listen_cancelled(id);
        }
    }

    /// Delivers a message that names no recipient, if only one client is possible.
    fn deliver_if_unambiguous(&mut self, message: &Message, level: Option<LogLevel>) {
        if self.era == Some(Era::Modern) {
            if self.owners.is_several() {
                tracing::debug!(
                    method = message.method(),
                    "dropped a notification: several owners share the process"
                );
            } else if let Some(call) = self.only_call_with_logs() {
                call.last_activity = Instant::now();
                call.stream.push(message.bytes().clone());
            }
            return;
        }
        let Ok((id, stream)) = self.sole_recipient(None) else {
            tracing::debug!(
                method = message.method(),
                "dropped a notification that cannot be assigned to a single client"
            );
            return;
        };
        if let (Some(level), Some(session)) = (level, self.sessions.get(&id))
            && !session.wants_log(level)
        {
            return;
        }
        push_if_room(&stream, message.bytes());
    }

    /// Returns the only call in flight that requested log messages: over stdio, log messages do not name their call.
    fn only_call_with_logs(&mut self) -> Option<&mut InFlightCall> {
        let mut calls = self.calls.values_mut().filter(|call| call.wants_logs && call.can_stream);
        calls.next().filter(|_| calls.next().is_none())
    }

    fn handle_request(&mut self, message: &Message) {
        if message.method() == "ping" {
            self.reply(BytesMut::from(&result_response(&message.id(), b"{}")[..]));
            return;
        }
        let (code, refusal) = match self.sole_recipient(era::capability_for(message.method())) {
            Ok((session, stream)) => {
                let Err((reason, full)) = self.forward_to_client(message, session, &stream) else { return };
                let data = serde_json::json!({ "reason": reason.id() }).to_string();
                let code = error_code::INTERNAL_ERROR;
                return self.reply(error_response_with_data(&message.id(), code, full, Some(&data)));
            }
            Err(NoRecipient::NoneCapable) => (
                error_code::METHOD_NOT_FOUND,
                "no client that could be the recipient has the capability for this request",
            ),
            Err(NoRecipient::SharedByOwners) => (
                error_code::METHOD_NOT_FOUND,
                "several callers share the server, so the request cannot be routed to one of them",
            ),
            Err(NoRecipient::Ambiguous) => (
                error_code::METHOD_NOT_FOUND,
                "the request cannot be routed, because several clients could be its recipient",
            ),
        };
        self.reply(error_response(&message.id(), code, refusal));
    }

    /// Puts a server request on the stream of a session, or returns why that is not possible.
    fn forward_to_client(
        &mut self,
        message: &Message,
        session: SessionId,
        stream: &MessageStream,
    ) -> Result<(), (Reason, &'static str)> {
        let of_session = self.server_requests.values().filter(|pending| pending.session == session).count();
        if self.server_requests.len() >= MAX_PENDING_SERVER_REQUESTS
            || of_session >= MAX_PENDING_SERVER_REQUESTS_PER_SESSION
        {
            return Err((
                Reason::TooManyCalls,
                "too many requests are waiting for responses from the client",
            ));
        }
        let id = self.new_id();
        let line = splice(message.bytes(), &mut [(message.id_span(), id.to_string().as_bytes())]).freeze();
        if !stream.push(line) {
            return Err((Reason::NoMemory, "the client reads too slowly"));
        }
        let params: ServerParams<'_> = serde_json::from_str(message.params()).unwrap_or_default();
        if let Some(elicitation) = params.elicitation_id.filter(|id| id.len() <= MAX_ID_BYTES) {
            if self.elicitations.len() >= MAX_ELICITATIONS {
                self.elicitations.pop_front();
            }
            self.elicitations.push_back((elicitation, session.clone()));
        }
        self.note_life(&session);
        self.server_requests
            .insert(id, PendingServerRequest { session, id: message.id(), sent_at: Instant::now() });
        Ok(())
    }

    /// Returns the only session that a server message can concern, and the stream for it.
    fn sole_recipient(
        &mut self,
        needs: Option<&str>,
    ) -> Result<(SessionId, Arc<MessageStream>), NoRecipient> {
        // This applies even when all other owners are gone: the message may be about one of their calls.
        if self.owners.is_several() {
            return Err(NoRecipient::SharedByOwners);
        }
        let able = |id: &&SessionId| {
            self.sessions.get(*id).is_some_and(|session| {
                session.negotiated.is_some()
                    && needs.is_none_or(|capability| session.has_capability(capability))
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
            (Some(_), Some(_)) => return Err(NoRecipient::Ambiguous),
            (None, _) if any_busy => return Err(NoRecipient::NoneCapable),
            (None, _) => {
                let mut open = self.sessions.keys().filter(able);
                match (open.next(), open.next()) {
                    (Some(only), None) => only,
                    (Some(_), Some(_)) => return Err(NoRecipient::Ambiguous),
                    (None, _) => return Err(NoRecipient::NoneCapable),
                }
            }
        };
        let only = only.clone();
        let stream = self.delivery_stream(&only).ok_or(NoRecipient::NoneCapable)?;
        Ok((only, stream))
    }

    /// Returns the stream of the session's newest call with a reader, else its standalone stream.
    fn delivery_stream(&mut self, session: &SessionId) -> Option<Arc<MessageStream>> {
        let newest = self
            .calls
            .iter()
            .filter(|(_, call)| call.can_stream && call.session.as_ref() == Some(session))
            .filter(|(_, call)| call.stream.is_reachable())
            .max_by_key(|(id, _)| **id)
            .map(|(_, call)| Arc::clone(&call.stream));
        newest.or_else(|| self.sessions.get_mut(session).map(|session| Arc::clone(session.standalone())))
    }
}

/// Puts a message on a stream, unless the stream has no reader and is full.
fn push_if_room(stream: &MessageStream, bytes: &Bytes) {
    if stream.is_attached() || stream.unread() < MAX_UNREAD_MESSAGES {
        stream.push(bytes.clone());
    }
}

/// Returns the span of `_meta["io.modelcontextprotocol/subscriptionId"]` in a message, given its params or result.
pub(super) fn subscription_id_span(message: &Message, part: &str) -> Option<Span> {
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
