//! What clients do: open and end sessions, call, notify, answer.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    InFlight, Lane, Limits, Purpose, Readiness, Refusal, State,
    connection::{INITIALIZED, Unanswered},
};
use crate::mcp::{
    error_code,
    handshake::{Initialize, Told, chosen_version},
    message::{Message, Span, result_answer, same_id, splice},
    outlet::{End, Outlet, Reader},
    owner::{Owner, Served},
    session::{LogLevel, Negotiated, Session, SessionId},
};

/// Most resources that a client subscribes to.
const URIS: usize = 1000;
/// Most bytes that their URIs have, all together.
const URI_BYTES: usize = 256 << 10;

/// The answer to come, and what comes before it.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(super) outlet: Arc<Outlet>,
    /// Cancels the call when its client goes away; only in the stateless era does that mean a cancel.
    pub(super) guard: Option<CancelOnDrop>,
}

impl Exchange {
    /// Reads the stream that ends with the answer.
    pub(crate) fn read(self) -> (Reader, Option<CancelOnDrop>) {
        (self.outlet.read(None), self.guard)
    }
}

/// Cancels a call unless it was answered (MCP 2026-07-28: closing the response stream is the cancel signal).
#[derive(Debug)]
pub(crate) struct CancelOnDrop {
    pub(super) lane: Arc<Lane>,
    pub(super) id: u64,
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let mut state = self.lane.lock();
        if !state.unlisten(self.id) {
            state.cancel(self.id, End::Cancelled, "the client closed the connection");
        }
    }
}

/// What came of an `initialize`.
#[derive(Debug)]
pub(crate) struct Initialized {
    /// The answer, with the caller's id.
    pub(crate) answer: Message,
    /// The session, unless the server refused.
    pub(crate) session: Option<SessionId>,
}

/// What a proxy reads of a request's params.
#[derive(Debug, Default, Deserialize)]
struct Params<'a> {
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<Meta<'a>>,
    #[serde(borrow, default)]
    uri: Option<&'a RawValue>,
    #[serde(borrow, default)]
    level: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "requestId")]
    request_id: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/logLevel")]
    log_level: Option<&'a RawValue>,
}

impl<'a> Params<'a> {
    /// Reads a message's params, if anything that is read can be in them, whatever their other fields hold.
    ///
    /// Params with a field twice are refused: the server might read the one that was not mapped.
    fn of(message: &'a Message) -> Result<Self, Refusal> {
        let by_method = matches!(
            message.method(),
            "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" | "notifications/cancelled"
        );
        let params = message.params();
        if !params.starts_with('{') || !by_method && !message.may_have_meta() {
            return Ok(Self::default());
        }
        serde_json::from_str(params).map_err(|error| {
            let message = format!("`params` cannot be read: {error}");
            Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_PARAMS, message)
        })
    }
}

fn text(value: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(value?.get()).ok()
}

impl Lane {
    /// Marks a session as used, if it is served here, and returns the version it speaks; none before `initialize`.
    pub(crate) fn touch(&self, id: &SessionId) -> Option<Option<Arc<str>>> {
        let mut state = self.lock();
        let session = state.sessions.get_mut(id)?;
        session.last_used = Instant::now();
        Some(session.negotiated.as_ref().map(|negotiated| Arc::clone(&negotiated.version)))
    }

    /// Ends a session at its client's wish.
    pub(crate) fn close_session(&self, id: &SessionId) -> Result<(), Refusal> {
        let mut state = self.lock();
        if !state.sessions.contains_key(id) {
            return Err(Refusal::unknown_session());
        }
        state.end_session(id);
        Ok(())
    }

    /// Reads a session's stream: the standalone one, or the one of `number` after `place`.
    pub(crate) fn read_stream(&self, id: &SessionId, resume: Option<(u64, u64)>) -> Result<Reader, Refusal> {
        let state = self.lock();
        let session = state.sessions.get(id).ok_or_else(Refusal::unknown_session)?;
        match resume {
            None => Ok(session.standalone.read(None)),
            Some((number, place)) => {
                session.stream(number).map(|stream| stream.read(Some(place))).ok_or_else(|| {
                    Refusal::new(
                        StatusCode::NOT_FOUND,
                        error_code::INVALID_REQUEST,
                        "the stream is no longer kept",
                    )
                })
            }
        }
    }

    /// Whether a client with this handshake can share the process as it is.
    ///
    /// One that can be asked for something needs a process that has worked for its owner alone: in another, nobody
    /// could tell whom the server asks.
    pub(crate) fn matches(&self, asked: &Initialize, owner: Option<&Owner>) -> bool {
        self.lock().matches(asked, owner)
    }

    /// How well a client is served that shares the process although it does not match: whether it was told what the
    /// client says, and whether there is no one owner left who would lose by it.
    pub(crate) fn nearness(&self, asked: &Initialize) -> (bool, bool) {
        let state = self.lock();
        (state.was_told(asked), state.served == Served::Several)
    }

    /// Answers a client that says what another one has said; gives its session back if none has.
    #[expect(clippy::result_large_err, reason = "it is no error, and goes one step up")]
    pub(crate) fn join(
        &self,
        asked: &Initialize,
        id: &SessionId,
        session: Session,
    ) -> Result<Initialized, Session> {
        let mut state = self.lock();
        let told = state.told.as_ref().filter(|_| state.matches(asked, session.owner.as_ref()));
        match told.and_then(|told| Message::parse(told.answer(&asked.message().id())).ok()) {
            Some(answer) => Ok(state.let_in(answer, asked, id, session)),
            None => Err(session),
        }
    }

    /// Answers a client's `initialize`: from what is known, or by asking the server if nobody has yet.
    ///
    /// `session` is what the client gets, unless the server refuses.
    pub(crate) async fn initialize(
        &self,
        asked: &Initialize,
        id: &SessionId,
        session: Session,
    ) -> Result<Initialized, Refusal> {
        self.connected().await?;
        let known = {
            let mut state = self.lock();
            // Also of one whom the server refuses: it has heard of them.
            state.served.add(session.owner.as_ref());
            state.told.as_ref().map(|told| told.answer(&asked.message().id()))
        };
        let answer = match known {
            Some(answer) => answer,
            None => self.tell(asked).await?,
        };
        let answer = Message::parse(answer).map_err(|malformed| Refusal::unavailable(malformed.reason))?;
        Ok(self.lock().let_in(answer, asked, id, session))
    }

    /// Sends a request of a session; the answer comes on the exchange.
    pub(crate) async fn call_in_session(
        &self,
        message: &Message,
        id: &SessionId,
        streams: bool,
    ) -> Result<Exchange, Refusal> {
        if message.method() == "initialize" {
            // The process is shared, and a second handshake would be everybody's.
            let text = "the session has begun already";
            return Err(Refusal::new(StatusCode::BAD_REQUEST, error_code::INVALID_REQUEST, text));
        }
        self.connected().await?;
        let params = Params::of(message)?;
        let mut state = self.lock();
        let session = state.sessions.get(id).ok_or_else(Refusal::unknown_session)?;
        state.check_room(&self.limits, session.owner.as_ref())?;
        if let Some(refused) = state.refuse_task(message, session.owner.as_ref()) {
            return state.answer_here(id, message, refused);
        }
        let purpose = match (message.method(), text(params.uri)) {
            ("resources/subscribe", Some(uri)) => {
                state.check_subscriptions(id, &uri)?;
                Purpose::Subscribe(uri)
            }
            ("resources/unsubscribe", Some(uri)) if state.others_subscribe(id, &uri) => {
                return state.unsubscribe_here(id, &uri, message);
            }
            ("resources/unsubscribe", Some(uri)) => Purpose::Unsubscribe(uri),
            _ => Purpose::Plain,
        };
        state.announce();
        let level = match message.method() {
            "logging/setLevel" => state.set_level(id, message, params.level),
            _ => None,
        };
        let session = state.sessions.get_mut(id).ok_or_else(Refusal::unknown_session)?;
        session.last_used = Instant::now();
        let outlet = session.open_stream(message.id());
        let token = params.meta.and_then(|meta| meta.progress_token);
        let owner = session.owner.clone();
        let mut call = InFlight::new(message, owner, token, Arc::clone(&outlet), streams, purpose);
        call.session = Some(id.clone());
        state.dispatch(message, call, token, level);
        Ok(Exchange { outlet, guard: None })
    }

    /// Sends a request of the stateless era; the answer comes on the exchange.
    pub(crate) async fn call_stateless(
        self: &Arc<Self>,
        message: &Message,
        owner: Option<&Owner>,
        streams: bool,
    ) -> Result<Exchange, Refusal> {
        self.connected().await?;
        let params = Params::of(message)?;
        let mut state = self.lock();
        state.check_room(&self.limits, owner)?;
        state.served.add(owner);
        let outlet = Outlet::answering(message.id(), 0, false);
        if let Some(refused) = state.refuse_task(message, owner) {
            outlet.answer(refused);
            return Ok(Exchange { outlet, guard: None });
        }
        if message.method() == "subscriptions/listen" {
            let id = state.listen(message, owner, Arc::clone(&outlet))?;
            return Ok(Exchange { outlet, guard: Some(CancelOnDrop { lane: Arc::clone(self), id }) });
        }
        let token = params.meta.as_ref().and_then(|meta| meta.progress_token);
        let purpose = if message.method() == "tools/list" { Purpose::ListTools } else { Purpose::Plain };
        let mut call = InFlight::new(message, owner.cloned(), token, Arc::clone(&outlet), streams, purpose);
        call.logs = params.meta.is_some_and(|meta| meta.log_level.is_some());
        let id = state.dispatch(message, call, token, None);
        Ok(Exchange { outlet, guard: Some(CancelOnDrop { lane: Arc::clone(self), id }) })
    }

    /// Passes on a client's notification.
    pub(crate) async fn notify(&self, message: &Message, session: Option<&SessionId>) -> Result<(), Refusal> {
        self.connected().await?;
        let mut state = self.lock();
        match (message.method(), session) {
            ("notifications/initialized", Some(_)) => {
                if let Some(told) = state.told.as_mut().filter(|told| !told.initialized) {
                    told.initialized = true;
                    state.send(BytesMut::from(&message.bytes()[..]));
                }
            }
            ("notifications/cancelled", Some(session)) => state.cancel_by_client(message, session),
            // In the stateless era a cancel is a closed connection, which says which caller means it.
            ("notifications/cancelled", None) => {}
            (_, Some(_)) => {
                state.announce();
                state.send(BytesMut::from(&message.bytes()[..]));
            }
            (_, None) => state.send(BytesMut::from(&message.bytes()[..])),
        }
        Ok(())
    }

    /// Passes on a client's answer to a request of the server. An answer nobody waits for is dropped.
    pub(crate) fn respond(&self, message: &Message, session: &SessionId) {
        let mut state = self.lock();
        let Some(id) = message.numeric_id() else { return };
        if state.asked.get(&id).is_none_or(|asked| asked.session != *session) {
            return;
        }
        if let Some(asked) = state.asked.remove(&id) {
            state.send(splice(message.bytes(), &mut [(message.id_span(), &asked.id)]));
        }
    }

    /// Waits a little for a server that is starting or restarting.
    pub(crate) async fn connected(&self) -> Result<(), Refusal> {
        if self.lock().pipe.is_some() {
            return Ok(());
        }
        // Boxed, since it is rare and large.
        Box::pin(self.reconnected()).await
    }

    async fn reconnected(&self) -> Result<(), Refusal> {
        let mut readiness = self.readiness.subscribe();
        let waited =
            tokio::time::timeout(self.limits.restart, readiness.wait_for(|now| *now != Readiness::Starting));
        match waited.await {
            Ok(Ok(now)) => match &*now {
                Readiness::Failed(reason) => Err(Refusal::unavailable(reason.clone())),
                Readiness::Ready | Readiness::Starting => Ok(()),
            },
            Ok(Err(_)) | Err(_) => Err(Refusal::unavailable("the server is restarting")),
        }
    }

    /// Sends the first client's handshake to the server.
    async fn tell(&self, asked: &Initialize) -> Result<Bytes, Refusal> {
        let rewrite = |id: u64| asked.rewritten(&id.to_string(), asked.version());
        // The process takes no second handshake, also when this one is refused or its client does not wait for it.
        self.lock().tainted = true;
        let answer =
            self.ask(rewrite, self.limits.handshake).await.map_err(|unanswered| match unanswered {
                Unanswered::Gone => Refusal::unavailable("the server ended before it answered `initialize`"),
                Unanswered::Silent => Refusal::new(
                    StatusCode::GATEWAY_TIMEOUT,
                    error_code::INTERNAL_ERROR,
                    "the server did not answer `initialize`",
                ),
            })?;
        if let Some(version) = chosen_version(answer.result()) {
            let result = Bytes::copy_from_slice(answer.result().as_bytes());
            let mut state = self.lock();
            state.told = Some(Told { request: asked.clone(), version, result, initialized: false });
            state.tainted = false;
        }
        Ok(splice(answer.bytes(), &mut [(answer.id_span(), &asked.message().id())]).freeze())
    }
}

/// Checks that these are not too many, or too long, for one client to be told of: they are all kept, and asked for
/// again when a process is started anew, or somebody else listens.
pub(super) fn check_uris<'a>(uris: impl Iterator<Item = &'a String>) -> Result<(), Refusal> {
    let (count, bytes) = uris.fold((0, 0), |(count, bytes), uri| (count + 1, bytes + uri.len()));
    if count <= URIS && bytes <= URI_BYTES {
        return Ok(());
    }
    let text = format!(
        "at most {URIS} resources, with URIs of {} KiB in all, can be subscribed to",
        URI_BYTES >> 10
    );
    Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, error_code::INVALID_REQUEST, text))
}

impl InFlight {
    fn new(
        message: &Message,
        owner: Option<Owner>,
        token: Option<&RawValue>,
        outlet: Arc<Outlet>,
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
            outlet,
            streams,
            logs: false,
            purpose,
            since: now,
            heard: now,
        }
    }
}

impl State {
    fn was_told(&self, asked: &Initialize) -> bool {
        self.told.as_ref().is_some_and(|told| told.request.same_client_shape(asked))
    }

    fn matches(&self, asked: &Initialize, owner: Option<&Owner>) -> bool {
        self.was_told(asked) && (!asked.can_be_asked() || self.served.is_of(owner))
    }

    /// Opens a session, unless the server's answer to `initialize` is a refusal.
    fn let_in(
        &mut self,
        answer: Message,
        asked: &Initialize,
        id: &SessionId,
        mut session: Session,
    ) -> Initialized {
        let Some(version) = chosen_version(answer.result()) else {
            return Initialized { answer, session: None };
        };
        session.negotiated =
            Some(Negotiated { version: version.into(), capabilities: asked.capabilities().clone() });
        self.served.add(session.owner.as_ref());
        self.sessions.insert(id.clone(), session);
        Initialized { answer, session: Some(id.clone()) }
    }

    /// Checks that another call can be taken. Of a caller who is known, none is when they have more in flight than are
    /// left for all others; that is looked at once half of all are taken.
    fn check_room(&self, limits: &Limits, owner: Option<&Owner>) -> Result<(), Refusal> {
        let left = limits.calls.saturating_sub(self.calls.len() + self.listening.len());
        let person = owner.filter(|_| left <= limits.calls / 2).map(Owner::person);
        let is_full = person.is_some_and(|person| {
            let calls = self.calls.values().filter_map(|call| call.owner.as_ref());
            calls.chain(self.listening.owners()).filter(|owner| owner.person() == person).count() > left
        });
        if left == 0 || is_full {
            return Err(Refusal::unavailable("too many calls in flight"));
        }
        if self.pipe.as_ref().is_some_and(|pipe| pipe.queued.load(Ordering::Relaxed) > limits.queued) {
            return Err(Refusal::unavailable("the server does not read its input"));
        }
        Ok(())
    }

    /// Registers a call and sends it with an id and a progress token of the lane's own.
    fn dispatch(
        &mut self,
        message: &Message,
        call: InFlight,
        token: Option<&RawValue>,
        level: Option<(Span, String)>,
    ) -> u64 {
        let id = self.new_id();
        self.last_call = Some(call.since);
        let number = id.to_string();
        // Nothing in the place of nothing is no change.
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

    /// Sends `notifications/initialized` if nobody has yet.
    pub(super) fn announce(&mut self) {
        if let Some(told) = self.told.as_mut().filter(|told| !told.initialized) {
            told.initialized = true;
            self.send(BytesMut::from(INITIALIZED));
        }
    }

    fn others_subscribe(&self, session: &SessionId, uri: &str) -> bool {
        self.sessions.iter().any(|(id, other)| id != session && other.subscriptions.contains(uri))
    }

    /// Checks that a session may subscribe to one more resource.
    fn check_subscriptions(&self, id: &SessionId, uri: &String) -> Result<(), Refusal> {
        let of_session = self.calls.values().filter(|call| call.session.as_ref() == Some(id));
        let pending = of_session.filter_map(|call| match &call.purpose {
            Purpose::Subscribe(uri) => Some(uri),
            _ => None,
        });
        let known = self.sessions.get(id).into_iter().flat_map(|session| &session.subscriptions);
        if known.clone().any(|known| known == uri) {
            return Ok(());
        }
        check_uris(known.chain(pending).chain([uri]))
    }

    /// Ends one session's subscription while others keep theirs.
    fn unsubscribe_here(
        &mut self,
        id: &SessionId,
        uri: &str,
        message: &Message,
    ) -> Result<Exchange, Refusal> {
        let session = self.sessions.get_mut(id).ok_or_else(Refusal::unknown_session)?;
        session.subscriptions.remove(uri);
        self.answer_here(id, message, result_answer(&message.id(), b"{}"))
    }

    /// Answers a request of a session without the server.
    fn answer_here(&mut self, id: &SessionId, message: &Message, answer: Bytes) -> Result<Exchange, Refusal> {
        let session = self.sessions.get_mut(id).ok_or_else(Refusal::unknown_session)?;
        let outlet = session.open_stream(message.id());
        if session.single_stream {
            outlet.push(answer);
        } else {
            outlet.answer(answer);
        }
        Ok(Exchange { outlet, guard: None })
    }

    /// Notes the level one session asks for; returns where to put another when some session wants more.
    fn set_level(
        &mut self,
        id: &SessionId,
        message: &Message,
        level: Option<&RawValue>,
    ) -> Option<(Span, String)> {
        let asked = LogLevel::parse(&text(level)?)?;
        self.sessions.get_mut(id)?.log_level = Some(asked);
        let least = self.sessions.values().filter_map(|session| session.log_level).min()?;
        (least != asked).then_some((message.span_of(level?), format!("\"{}\"", least.name())))
    }

    fn cancel_by_client(&mut self, message: &Message, session: &SessionId) {
        let Ok(Params { request_id: Some(wanted), .. }) = Params::of(message) else { return };
        let of_session = |call: &InFlight| call.session.as_ref() == Some(session);
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
            call.outlet.end(End::Cancelled);
        }
    }
}
