//! Handles client messages: opening and closing of sessions, requests, notifications and responses.

use std::{sync::Arc, time::Instant};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    InFlightCall, LINE_OVERHEAD, Multiplexer, MuxLimits, MuxState, Purpose, Readiness, RpcError,
    lifecycle::INITIALIZED_NOTIFICATION,
    shared_handshake::ready_timeout,
    subscription_limit::{MAX_SUBSCRIBED_URI_BYTES, check_uris},
};
use crate::{
    explain::Reason,
    mcp::{
        error_code,
        message::{MAX_ID_BYTES, Message, Span, result_response, same_id, shortened, splice},
    },
    stdio::{
        owner::{Owner, account_of},
        replay_stream::{MessageReader, MessageStream, StreamEnd},
        session::{LogLevel, SessionId, Subscription},
    },
};

/// The stream of an expected response and of the messages before it.
#[derive(Debug)]
pub(crate) struct PendingResponse {
    pub(super) stream: Arc<MessageStream>,
    /// Cancels the call when its client disconnects. Only in the stateless era does a disconnect cancel a call.
    pub(super) guard: Option<CancelOnDrop>,
}

impl PendingResponse {
    /// Reads the stream that ends with the response.
    pub(crate) fn into_reader(self) -> (MessageReader, Option<CancelOnDrop>) {
        (self.stream.attach_reader(None), self.guard)
    }
}

/// Cancels a call unless it was answered (MCP 2026-07-28: closing the response stream is the cancel signal).
#[derive(Debug)]
pub(crate) struct CancelOnDrop {
    pub(super) mux: Arc<Multiplexer>,
    pub(super) id: u64,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let mut state = self.mux.lock();
        if !state.stop_listening(self.id) {
            state.cancel(self.id, StreamEnd::Cancelled, "the client closed the connection");
        }
    }
}

/// The parsed fields of a request's params.
#[derive(Debug, Default, Deserialize)]
struct ClientParams<'a> {
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<ClientMeta<'a>>,
    #[serde(borrow, default)]
    uri: Option<&'a RawValue>,
    #[serde(borrow, default)]
    level: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "requestId")]
    request_id: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct ClientMeta<'a> {
    #[serde(borrow, default, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/logLevel")]
    log_level: Option<&'a RawValue>,
}

impl<'a> ClientParams<'a> {
    /// Parses a message's params, if they can contain any of the fields.
    ///
    /// Params with duplicate fields are rejected: the server might read the field that the multiplexer has not
    /// replaced.
    fn of(message: &'a Message) -> Result<Self, RpcError> {
        let by_method = matches!(
            message.method(),
            "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" | "notifications/cancelled"
        );
        let params = message.params();
        if !params.starts_with('{') || !by_method && !message.may_have_meta() {
            return Ok(Self::default());
        }
        let invalid = |message| RpcError::new(StatusCode::BAD_REQUEST, error_code::INVALID_PARAMS, message);
        let read: Self = serde_json::from_str(params)
            .map_err(|error| invalid(format!("`params` cannot be parsed: {}", shortened(&error))))?;
        let token = read.meta.as_ref().and_then(|meta| meta.progress_token);
        if token.is_some_and(|token| token.get().len() > MAX_ID_BYTES) {
            return Err(invalid(format!("`progressToken` is longer than {MAX_ID_BYTES} bytes")));
        }
        Ok(read)
    }
}

fn parse_string(value: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(value?.get()).ok()
}

impl Multiplexer {
    /// Marks a session as used, if this process serves it, and returns its version; the version is `None` before
    /// `initialize`.
    pub(crate) fn touch(&self, id: &SessionId) -> Option<Option<Arc<str>>> {
        let mut state = self.lock();
        let session = state.sessions.get_mut(id)?;
        session.last_used = Instant::now();
        Some(session.negotiated.as_ref().map(|negotiated| Arc::clone(&negotiated.version)))
    }

    /// Closes a session on behalf of its client.
    pub(crate) fn close_session(&self, id: &SessionId) -> Result<(), RpcError> {
        let mut state = self.lock();
        if !state.sessions.contains_key(id) {
            return Err(RpcError::unknown_session());
        }
        state.end_session(id);
        Ok(())
    }

    /// Reads a stream of a session: the standalone one, or the one with `number` after `place`.
    pub(crate) fn read_stream(
        &self,
        id: &SessionId,
        resume: Option<(u64, u64)>,
    ) -> Result<MessageReader, RpcError> {
        let mut state = self.lock();
        let session = state.sessions.get_mut(id).ok_or_else(RpcError::unknown_session)?;
        match resume {
            None => Ok(session.standalone().attach_reader(None)),
            Some((number, place)) => {
                session.stream(number).map(|stream| stream.attach_reader(Some(place))).ok_or_else(|| {
                    RpcError::new(
                        StatusCode::NOT_FOUND,
                        error_code::INVALID_REQUEST,
                        "the stream is no longer available",
                    )
                })
            }
        }
    }

    /// Sends a request of a session; the response is read from the returned stream.
    pub(crate) async fn call_in_session(
        &self,
        message: &Message,
        id: &SessionId,
        streams: bool,
    ) -> Result<PendingResponse, RpcError> {
        if message.method() == "initialize" {
            // A second handshake would affect all clients that share the process.
            let text = "the session is already initialized";
            return Err(RpcError::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text));
        }
        self.wait_until_connected().await?;
        let params = ClientParams::of(message)?;
        let mut state = self.lock();
        let session = state.sessions.get(id).ok_or_else(RpcError::unknown_session)?;
        state.check_call_limit(&self.limits, session.owner.as_ref(), message)?;
        if let Some(refused) = state.reject_foreign_task(message, session.owner.as_ref()) {
            return state.respond_locally(id, message, refused);
        }
        let purpose = match (message.method(), parse_string(params.uri)) {
            ("resources/subscribe", Some(uri)) => {
                state.check_subscriptions(id, &uri)?;
                Purpose::Subscribe(state.book(id, uri)?)
            }
            ("resources/unsubscribe", Some(uri)) if state.has_other_subscribers(id, &uri) => {
                return state.unsubscribe_locally(id, &uri, message);
            }
            ("resources/unsubscribe", Some(uri)) if uri.len() <= MAX_SUBSCRIBED_URI_BYTES => {
                Purpose::Unsubscribe(state.book(id, uri)?)
            }
            _ => Purpose::Plain,
        };
        state.send_initialized();
        let level = match message.method() {
            "logging/setLevel" => state.set_level(id, message, params.level),
            _ => None,
        };
        let session = state.sessions.get_mut(id).ok_or_else(RpcError::unknown_session)?;
        session.last_used = Instant::now();
        let stream = session.open_stream(message.id());
        let token = params.meta.and_then(|meta| meta.progress_token);
        let owner = session.owner.clone();
        let mut call = InFlightCall::new(message, owner, token, Arc::clone(&stream), streams, purpose);
        call.session = Some(id.clone());
        state.dispatch(message, call, token, level);
        Ok(PendingResponse { stream, guard: None })
    }

    /// Sends a stateless request; the response is read from the returned stream.
    pub(crate) async fn call_stateless(
        self: &Arc<Self>,
        message: &Message,
        owner: Option<&Owner>,
        streams: bool,
    ) -> Result<PendingResponse, RpcError> {
        self.wait_until_connected().await?;
        let params = ClientParams::of(message)?;
        let mut state = self.lock();
        state.check_call_limit(&self.limits, owner, message)?;
        state.owners.add(owner);
        let account = account_of(owner);
        let stream = MessageStream::for_request(message.id(), 0, false, Arc::clone(&account));
        if let Some(refused) = state.reject_foreign_task(message, owner) {
            stream.push_response(refused);
            return Ok(PendingResponse { stream, guard: None });
        }
        if message.method() == "subscriptions/listen" {
            let id = state.listen(message, owner, Arc::clone(&stream), &account)?;
            return Ok(PendingResponse { stream, guard: Some(CancelOnDrop { mux: Arc::clone(self), id }) });
        }
        let token = params.meta.as_ref().and_then(|meta| meta.progress_token);
        let purpose = if message.method() == "tools/list" { Purpose::ListTools } else { Purpose::Plain };
        let mut call =
            InFlightCall::new(message, owner.cloned(), token, Arc::clone(&stream), streams, purpose);
        call.wants_logs = params.meta.is_some_and(|meta| meta.log_level.is_some());
        let id = state.dispatch(message, call, token, None);
        Ok(PendingResponse { stream, guard: Some(CancelOnDrop { mux: Arc::clone(self), id }) })
    }

    /// Forwards a client's notification.
    pub(crate) async fn notify(
        &self,
        message: &Message,
        session: Option<&SessionId>,
    ) -> Result<(), RpcError> {
        self.wait_until_connected().await?;
        let mut state = self.lock();
        state.check_queue_limit(message)?;
        match (message.method(), session) {
            ("notifications/initialized", Some(_)) => {
                if let Some(completed) =
                    state.handshake.as_mut().filter(|completed| !completed.initialized_sent)
                {
                    completed.initialized_sent = true;
                    state.send(BytesMut::from(&message.bytes()[..]));
                }
            }
            ("notifications/cancelled", Some(session)) => state.handle_client_cancel(message, session),
            // In the stateless era a call is cancelled by closing its connection, which identifies the caller.
            ("notifications/cancelled", None) => {}
            (_, Some(_)) => {
                state.send_initialized();
                state.send(BytesMut::from(&message.bytes()[..]));
            }
            (_, None) => state.send(BytesMut::from(&message.bytes()[..])),
        }
        Ok(())
    }

    /// Forwards a client's response to a request of the server. An unexpected response is dropped.
    pub(crate) fn respond(&self, message: &Message, session: &SessionId) -> Result<(), RpcError> {
        let mut state = self.lock();
        let Some(id) = message.numeric_id() else { return Ok(()) };
        if state.server_requests.get(&id).is_none_or(|pending| pending.session != *session) {
            return Ok(());
        }
        state.check_queue_limit(message)?;
        if let Some(pending) = state.take_server_request(id) {
            state.send(splice(message.bytes(), &mut [(message.id_span(), &pending.id)]));
        }
        Ok(())
    }

    /// Waits for a server that is starting or restarting.
    pub(crate) async fn wait_until_connected(&self) -> Result<(), RpcError> {
        {
            let state = self.lock();
            if state.pipe.is_some() && !state.is_claimed {
                return Ok(());
            }
        }
        // Boxed, because it is rare and large.
        Box::pin(self.wait_until_reconnected()).await
    }

    async fn wait_until_reconnected(&self) -> Result<(), RpcError> {
        let mut readiness = self.readiness.subscribe();
        let patience = ready_timeout(&self.lock(), &self.limits);
        let waited = tokio::time::timeout(patience, readiness.wait_for(|now| *now != Readiness::Starting));
        match waited.await {
            Ok(Ok(now)) => match &*now {
                Readiness::Failed(reason) => Err(RpcError::unavailable(reason.clone())),
                Readiness::Ready | Readiness::Starting => Ok(()),
            },
            Ok(Err(_)) | Err(_) => Err(RpcError::unavailable("the server is restarting")),
        }
    }
}

impl InFlightCall {
    fn new(
        message: &Message,
        owner: Option<Owner>,
        token: Option<&RawValue>,
        stream: Arc<MessageStream>,
        streams: bool,
        purpose: Purpose,
    ) -> Self {
        let now = Instant::now();
        Self {
            session: None,
            lists_tasks: owner.is_some() && message.method() == "tasks/list",
            owner,
            id: message.id(),
            token: token.map(|token| Bytes::copy_from_slice(token.get().as_bytes())),
            stream,
            can_stream: streams,
            wants_logs: false,
            purpose,
            started_at: now,
            last_activity: now,
        }
    }
}

impl MuxState {
    /// Checks the limits of calls. Once half of all calls are in use, an authenticated caller may not have more calls
    /// in flight than are left for all others.
    fn check_call_limit(
        &self,
        limits: &MuxLimits,
        owner: Option<&Owner>,
        message: &Message,
    ) -> Result<(), RpcError> {
        let left = limits.max_calls.saturating_sub(self.calls.len() + self.subscriptions.len());
        let person = owner.filter(|_| left <= limits.max_calls / 2).map(Owner::caller_key);
        let is_full = person.is_some_and(|person| {
            let calls = self.calls.values().filter_map(|call| call.owner.as_ref());
            calls.chain(self.subscriptions.owners()).filter(|owner| owner.caller_key() == person).count()
                > left
        });
        if left == 0 || is_full {
            return Err(RpcError::unavailable("too many calls in flight").reason(Reason::TooManyCalls));
        }
        self.check_queue_limit(message)
    }

    /// Checks that the queue to the server's pipe has room for a message.
    fn check_queue_limit(&self, message: &Message) -> Result<(), RpcError> {
        let cost = message.bytes().len() + LINE_OVERHEAD;
        if self.pipe.as_ref().is_none_or(|pipe| pipe.queue_account.has_room(cost)) {
            return Ok(());
        }
        let text = "the queue to the server is full: the server does not read its input fast enough, or other clients \
                    use up the memory budget";
        Err(RpcError::unavailable(text).reason(Reason::QueueFull))
    }

    /// Registers a call, and sends it with an id and a progress token of the multiplexer.
    fn dispatch(
        &mut self,
        message: &Message,
        call: InFlightCall,
        token: Option<&RawValue>,
        level: Option<(Span, String)>,
    ) -> u64 {
        let id = self.new_id();
        self.last_call = Some(call.started_at);
        let number = id.to_string();
        // An empty replacement of an empty span changes nothing.
        let nothing = || (0..0, &b""[..]);
        let mut edits = [
            (message.id_span(), number.as_bytes()),
            token.map_or_else(nothing, |token| (message.span_of(token), number.as_bytes())),
            level.as_ref().map_or_else(nothing, |(span, level)| (span.clone(), level.as_bytes())),
        ];
        self.calls.insert(id, call);
        self.send(splice(message.bytes(), &mut edits));
        id
    }

    /// Sends `notifications/initialized` if it was not sent yet.
    pub(super) fn send_initialized(&mut self) {
        if let Some(completed) = self.handshake.as_mut().filter(|completed| !completed.initialized_sent) {
            completed.initialized_sent = true;
            self.send(BytesMut::from(INITIALIZED_NOTIFICATION));
        }
    }

    /// Whether other sessions have subscribed to a resource, or are about to.
    pub(super) fn has_other_subscribers(&self, session: &SessionId, uri: &str) -> bool {
        let is_pending = |call: &InFlightCall| {
            call.session.as_ref() != Some(session)
                && matches!(&call.purpose, Purpose::Subscribe(wanted) if wanted.uri() == uri)
        };
        self.sessions.iter().any(|(id, other)| id != session && other.subscriptions.contains(uri))
            || self.calls.values().any(is_pending)
    }

    /// Checks that a session may subscribe to one more resource.
    fn check_subscriptions(&self, id: &SessionId, uri: &String) -> Result<(), RpcError> {
        let of_session = self.calls.values().filter(|call| call.session.as_ref() == Some(id));
        let pending = of_session.filter_map(|call| match &call.purpose {
            Purpose::Subscribe(wanted) => Some(wanted.uri()),
            _ => None,
        });
        let known = self.sessions.get(id).into_iter().flat_map(|session| &session.subscriptions);
        let known = known.map(Subscription::uri);
        if known.clone().any(|known| known == uri) {
            return Ok(());
        }
        check_uris(known.chain(pending).chain([uri]))
    }

    /// Charges the URI of a resource that a session is about to subscribe to, or to unsubscribe from.
    pub(super) fn book(&self, id: &SessionId, uri: String) -> Result<Subscription, RpcError> {
        let session = self.sessions.get(id).ok_or_else(RpcError::unknown_session)?;
        session.book(uri).ok_or_else(|| {
            let text = "the memory budget for clients has no room for another subscription; try again later";
            RpcError::unavailable(text).reason(Reason::TooManySubscriptions)
        })
    }

    /// Ends the subscription of one session, while others keep theirs.
    fn unsubscribe_locally(
        &mut self,
        id: &SessionId,
        uri: &str,
        message: &Message,
    ) -> Result<PendingResponse, RpcError> {
        let session = self.sessions.get_mut(id).ok_or_else(RpcError::unknown_session)?;
        session.subscriptions.remove(uri);
        self.respond_locally(id, message, result_response(&message.id(), b"{}"))
    }

    /// Responds to a request of a session without sending it to the server.
    fn respond_locally(
        &mut self,
        id: &SessionId,
        message: &Message,
        answer: Bytes,
    ) -> Result<PendingResponse, RpcError> {
        let session = self.sessions.get_mut(id).ok_or_else(RpcError::unknown_session)?;
        let stream = session.open_stream(message.id());
        if session.single_stream {
            stream.push(answer);
        } else {
            stream.push_response(answer);
        }
        Ok(PendingResponse { stream, guard: None })
    }

    /// Records the log level that a session requests. If another session has requested a less severe level, returns
    /// that level and the span where it has to be inserted.
    fn set_level(
        &mut self,
        id: &SessionId,
        message: &Message,
        level: Option<&RawValue>,
    ) -> Option<(Span, String)> {
        let requested = LogLevel::parse(&parse_string(level)?)?;
        self.sessions.get_mut(id)?.log_level = Some(requested);
        let least = self.min_log_level()?;
        (least != requested).then_some((message.span_of(level?), format!("\"{}\"", least.name())))
    }

    fn handle_client_cancel(&mut self, message: &Message, session: &SessionId) {
        let Ok(ClientParams { request_id: Some(wanted), .. }) = ClientParams::of(message) else { return };
        let of_session = |call: &InFlightCall| call.session.as_ref() == Some(session);
        let matching = self
            .calls
            .iter()
            .filter(|(_, call)| of_session(call) && same_id(&call.id, wanted.get().as_bytes()));
        let Some(id) = matching.map(|(id, _)| *id).max() else { return };
        let number = id.to_string();
        let line = splice(message.bytes(), &mut [(message.span_of(wanted), number.as_bytes())]);
        self.send(line);
        if let Some(call) = self.calls.remove(&id)
            && !self.shares_stream(&call)
        {
            call.stream.end(StreamEnd::Cancelled);
        }
    }
}
