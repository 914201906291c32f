//! One stdio server process and the clients that share it, each getting its own answers and nothing else.
//!
//! Every request that goes to the server gets a fresh number for an id, and for a progress token; the answer
//! gets the caller's own back, with its JSON type. What the server says of its own accord goes to the session
//! it can only concern; where that is ambiguous it is refused or dropped, never guessed. In a process that has worked
//! for several owners it always is. A lane opens no
//! socket: [`admission`] lets clients in, [`client`] is what they do then, [`server`] what the server says, [`listen`]
//! the subscriptions of the stateless era, [`connection`] how a process comes and goes while its clients stay.

mod admission;
#[cfg(test)]
mod bounds_tests;
mod client;
mod connection;
#[cfg(test)]
mod lane_tests;
mod listen;
#[cfg(test)]
mod listen_tests;
#[cfg(test)]
mod owner_tests;
mod server;
mod tasks;
mod tools;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::{BufMut, Bytes, BytesMut};
use tokio::sync::{mpsc, oneshot, watch};

pub(crate) use admission::{EndOnDrop, Free, Handshake, Initialized};
pub(crate) use client::{CancelOnDrop, Exchange};
pub(crate) use tools::ParamHeader;

use super::{
    era::Era,
    error_code,
    handshake::Told,
    message::{Message, one_line},
    outlet::{End, Outlet},
    owner::{Owner, Served},
    session::{Session, SessionId, Subscription},
};
use crate::{explain::Reason, memory::Account};

/// Most requests of one process that wait for a client's answer, and most that wait for one session's.
const MAX_ASKED: usize = 1000;
const MAX_ASKED_OF_SESSION: usize = 100;
/// Most URLs that sessions of one process were shown, and that are yet to be visited.
const MAX_ELICITATIONS: usize = 1000;
/// What a line in a process's queue costs beside its bytes.
const LINE_OVERHEAD: usize = 64;

/// Bounds of what clients can make mcpm hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// A call without any sign of life ends after this long.
    pub(crate) idle: Duration,
    /// A call ends after this long, whatever comes.
    pub(crate) total: Duration,
    /// A session that is not used ends after this long.
    pub(crate) session: Duration,
    /// A process that nobody has used for this long can be taken from its clients when another needs one.
    pub(crate) reclaim: Duration,
    /// The server answers a handshake within this long.
    pub(crate) handshake: Duration,
    /// How long a request waits for a process that is being started for the first time.
    pub(crate) start: Duration,
    /// A process that nobody uses ends after this long, unless it is the last.
    pub(crate) lane: Duration,
    /// How long a request waits for a server that is restarting.
    pub(crate) restart: Duration,
    /// Most calls in flight.
    pub(crate) calls: usize,
    /// Most sessions.
    pub(crate) sessions: usize,
    /// Most sessions of one caller, whatever clients they come with.
    pub(crate) of_one: usize,
    /// Most processes that work for one caller alone.
    pub(crate) processes_of_one: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(10 * 60),
            total: Duration::from_secs(6 * 3600),
            session: Duration::from_secs(2 * 3600),
            lane: Duration::from_secs(5 * 60),
            reclaim: Duration::from_secs(60),
            start: Duration::from_secs(75),
            handshake: Duration::from_secs(60),
            restart: Duration::from_secs(15),
            calls: 4096,
            sessions: 10_000,
            of_one: 1000,
            processes_of_one: 4,
        }
    }
}

/// Whether there is a server to talk to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// A process is being started, or is not yet known to answer.
    Starting,
    /// The server answers.
    Ready,
    /// The server is gone for good, and why.
    Failed(String),
}

/// Why a message is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: http::StatusCode,
    pub(crate) code: i64,
    pub(crate) message: String,
    /// Which bound was hit, if one was.
    pub(crate) reason: Option<Reason>,
}

impl Refusal {
    pub(crate) fn new(status: http::StatusCode, code: i64, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), reason: None }
    }

    /// Names the bound that was hit.
    pub(crate) fn reason(self, reason: Reason) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// The JSON-RPC error for the request of that id.
    pub(crate) fn answer(&self, id: &[u8]) -> Bytes {
        let data = self.reason.map(|reason| serde_json::json!({ "reason": reason.id() }).to_string());
        error_answer_with(id, self.code, &self.message, data.as_deref()).freeze()
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(http::StatusCode::SERVICE_UNAVAILABLE, error_code::INTERNAL_ERROR, message)
    }

    pub(crate) fn unknown_session() -> Self {
        Self::new(http::StatusCode::NOT_FOUND, error_code::SESSION_NOT_FOUND, "session not found")
    }
}

/// One server process and its clients.
#[derive(Debug)]
pub(crate) struct Lane {
    state: Mutex<State>,
    readiness: watch::Sender<Readiness>,
    limits: Limits,
}

#[derive(Debug)]
struct State {
    pipe: Option<Pipe>,
    /// The era this process is used for: servers cannot mix them on one pipe.
    era: Option<Era>,
    told: Option<Told>,
    /// A handshake that is being made with the process.
    greeting: Option<admission::Greeting>,
    /// Cloned for each client that is being let in.
    shares: Arc<()>,
    next_id: u64,
    calls: BTreeMap<u64, InFlight>,
    /// The lane's own requests.
    own: BTreeMap<u64, oneshot::Sender<Message>>,
    sessions: HashMap<SessionId, Session>,
    /// For whom the process has worked.
    served: Served,
    /// Requests of the server that a client has yet to answer, by the id the client sees.
    asked: BTreeMap<u64, Asked>,
    /// Sessions that were shown a URL to visit, by elicitation id.
    elicitations: VecDeque<(String, SessionId)>,
    listening: listen::Listening,
    tasks: tasks::Tasks,
    tools: tools::ToolHeaders,
    /// Whether the process was sent an `initialize` of which nothing came: mcpm's own, to see it alive, or one that
    /// its client did not wait for.
    tainted: bool,
    /// When a client last called; `None` before the first.
    last_call: Option<Instant>,
    /// Whether the process is about to be replaced: nothing is sent to it any more.
    is_claimed: bool,
    /// Whether the process, or one before it, was ever ready.
    was_ready: bool,
}

/// The way to the server's standard input.
#[derive(Debug)]
struct Pipe {
    lines: mpsc::UnboundedSender<Bytes>,
    /// The lines that are on their way, those that are held back included.
    queued: Arc<Account>,
    /// Lines held back until sessions are restored in a new process.
    held: Option<Vec<Bytes>>,
}

/// A client's request that the server has not answered.
#[derive(Debug)]
struct InFlight {
    /// `None` for a request of the stateless era.
    session: Option<SessionId>,
    /// Whose it is, where callers are asked who they are.
    owner: Option<Owner>,
    id: Bytes,
    token: Option<Bytes>,
    outlet: Arc<Outlet>,
    /// Whether messages may be put before the answer.
    streams: bool,
    /// Whether log messages were asked for with the request (stateless era).
    logs: bool,
    /// Whether it asks for the list of tasks.
    lists_tasks: bool,
    purpose: Purpose,
    since: Instant,
    heard: Instant,
}

/// What is done when the answer comes.
#[derive(Debug)]
enum Purpose {
    /// Nothing but to deliver it.
    Plain,
    /// Notes the subscription.
    Subscribe(Subscription),
    /// Forgets the subscription.
    Unsubscribe(Subscription),
    /// Learns which arguments are mirrored in headers.
    ListTools,
}

/// A request of the server on its way to a client.
#[derive(Debug)]
struct Asked {
    session: SessionId,
    /// The server's id, as it wrote it.
    id: Bytes,
    since: Instant,
}

impl Lane {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                pipe: None,
                era: None,
                told: None,
                greeting: None,
                shares: Arc::default(),
                next_id: 1,
                calls: BTreeMap::new(),
                own: BTreeMap::new(),
                sessions: HashMap::new(),
                served: Served::default(),
                asked: BTreeMap::new(),
                elicitations: VecDeque::new(),
                listening: listen::Listening::default(),
                tasks: tasks::Tasks::default(),
                tools: tools::ToolHeaders::default(),
                tainted: false,
                last_call: None,
                is_claimed: false,
                was_ready: false,
            }),
            readiness: watch::Sender::new(Readiness::Starting),
            limits,
        })
    }

    /// Follows whether there is a server to talk to.
    pub(crate) fn readiness(&self) -> watch::Receiver<Readiness> {
        self.readiness.subscribe()
    }

    /// How many sessions and calls there are.
    pub(crate) fn load(&self) -> (usize, usize) {
        let state = self.lock();
        (state.sessions.len(), state.calls.len() + state.listening.len())
    }

    /// The sessions that are somebody's: whose, and when each was used last.
    pub(crate) fn owned_sessions(&self) -> Vec<(Owner, Instant, SessionId)> {
        let state = self.lock();
        let owned = |(id, session): (&SessionId, &Session)| {
            Some((session.owner.clone()?, session.last_used, id.clone()))
        };
        state.sessions.iter().filter_map(owned).collect()
    }

    /// Gives the process to a stateless request, if it is one for those: from then on no handshake can have it.
    pub(crate) fn engage(&self) -> bool {
        let mut state = self.lock();
        let is_modern = state.era == Some(Era::Modern);
        if is_modern {
            state.last_call = Some(Instant::now());
        }
        is_modern
    }

    /// Whether no client is on the process, or about to be.
    pub(crate) fn is_unused(&self) -> bool {
        let state = self.lock();
        state.sessions.is_empty() && state.greeting.is_none() && !state.is_called()
    }

    /// The session that was not used for longest, of those that nobody reads or calls in, and when that was.
    pub(crate) fn least_used(&self) -> Option<(Instant, SessionId)> {
        let state = self.lock();
        let busy = state.busy();
        let idle = state.sessions.iter();
        let idle = idle.filter(|(id, session)| !session.standalone.is_attached() && !busy.contains(*id));
        idle.min_by_key(|(_, session)| session.last_used).map(|(id, session)| (session.last_used, id.clone()))
    }

    /// How long no client has called.
    pub(crate) fn idle_since(&self, now: Instant) -> Duration {
        self.lock().last_call.map_or(Duration::MAX, |last| now.saturating_duration_since(last))
    }

    /// Ends sessions nobody uses, calls nobody answers, and requests of the server that no client answers.
    pub(crate) fn sweep(&self, now: Instant) {
        let mut state = self.lock();
        let unanswered: Vec<u64> = state
            .asked
            .iter()
            .filter(|(_, asked)| now.saturating_duration_since(asked.since) > self.limits.total)
            .map(|(id, _)| *id)
            .collect();
        for id in unanswered {
            state.refuse_asked(id, "the client did not answer in time");
        }
        // Whoever is asked something may take their time: it is a person.
        let asked: HashSet<SessionId> = state.asked.values().map(|asked| asked.session.clone()).collect();
        let waits = |call: &InFlight| call.session.as_ref().is_some_and(|session| asked.contains(session));
        let late: Vec<u64> = state
            .calls
            .iter()
            .filter(|(_, call)| {
                now.saturating_duration_since(call.heard) > self.limits.idle && !waits(call)
                    || now.saturating_duration_since(call.since) > self.limits.total
            })
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            state.cancel(id, End::TimedOut, "timed out in the proxy");
        }
        state.tasks.sweep(now, self.limits.total);
        let busy = state.busy();
        let idle = |id: &SessionId, session: &Session| {
            now.saturating_duration_since(session.last_used) > self.limits.session
                && !session.standalone.is_attached()
                && !busy.contains(id)
        };
        let ended: Vec<SessionId> = state
            .sessions
            .iter()
            .filter(|(id, session)| idle(id, session))
            .map(|(id, _)| id.clone())
            .collect();
        for id in ended {
            state.end_session(&id);
        }
        state.sessions.values_mut().for_each(|session| session.forget_streams(now));
    }

    /// Ends the standalone streams of sessions that have no call in flight.
    pub(crate) fn end_streams(&self) {
        let state = self.lock();
        let busy = state.busy();
        for (_, session) in state.sessions.iter().filter(|(id, _)| !busy.contains(id)) {
            session.standalone.end(End::Complete);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// The sessions that have a call in flight.
    fn busy(&self) -> HashSet<SessionId> {
        self.calls.values().filter_map(|call| call.session.clone()).collect()
    }

    /// Puts one message into the server's pipe, or keeps it until the handshake is over.
    fn send(&mut self, message: BytesMut) {
        let line = finish_line(message);
        match &mut self.pipe {
            Some(pipe) => pipe.send(line),
            None => tracing::debug!("dropped a message: the server is gone"),
        }
    }

    /// Puts one message into the server's pipe past a closed gate.
    fn send_now(&mut self, message: BytesMut) {
        if let Some(pipe) = &self.pipe {
            let line = finish_line(message);
            pipe.queued.force(line_cost(&line));
            pipe.write(line);
        }
    }

    /// Answers a request of the server, past a closed gate. A server that asks more than it reads gets no answer.
    fn reply(&mut self, answer: BytesMut) {
        if self.pipe.as_ref().is_some_and(|pipe| pipe.queued.has_room(answer.len() + LINE_OVERHEAD)) {
            self.send_now(answer);
        } else {
            tracing::debug!("dropped an answer: the server does not read its input");
        }
    }

    /// Takes away a request of the server that was answered, or that nobody will answer any more. From now on the
    /// server can go on with the calls that it made the request for.
    fn take_asked(&mut self, id: u64) -> Option<Asked> {
        let asked = self.asked.remove(&id)?;
        self.note_life(&asked.session);
        Some(asked)
    }

    /// Notes a sign of life of a session's calls.
    fn note_life(&mut self, session: &SessionId) {
        let now = Instant::now();
        for call in self.calls.values_mut().filter(|call| call.session.as_ref() == Some(session)) {
            call.heard = now;
        }
    }

    /// Answers a request of the server that no client will answer any more.
    fn refuse_asked(&mut self, id: u64, reason: &str) {
        if let Some(asked) = self.take_asked(id) {
            self.reply(error_answer(&asked.id, error_code::INTERNAL_ERROR, reason));
        }
    }

    /// Takes a call away from its caller and tells the server to stop.
    fn cancel(&mut self, id: u64, end: End, reason: &str) {
        let Some(call) = self.calls.remove(&id) else { return };
        self.send(cancelled(id, reason));
        if !self.shares_stream(&call) {
            call.outlet.end(end);
        } else if end == End::TimedOut {
            // The stream goes on, and its reader waits for this answer on it.
            let message = "the server did not answer in time";
            call.outlet.push(error_answer(&call.id, error_code::INTERNAL_ERROR, message).freeze());
        }
    }

    /// Ends a session, its streams and its calls, and takes back what it alone had asked of the server.
    fn end_session(&mut self, id: &SessionId) {
        let Some(session) = self.sessions.remove(id) else { return };
        let calls: Vec<u64> = self
            .calls
            .iter()
            .filter(|(_, call)| call.session.as_ref() == Some(id))
            .map(|(id, _)| *id)
            .collect();
        let mut subscriptions: BTreeSet<String> =
            session.subscriptions.iter().map(|wanted| wanted.uri().clone()).collect();
        for call in calls {
            // The server may have taken it already.
            if let Some(Purpose::Subscribe(uri)) = self.calls.get(&call).map(|call| &call.purpose) {
                subscriptions.insert(uri.uri().clone());
            }
            self.cancel(call, End::Cancelled, "the session ended");
        }
        let asked: Vec<u64> =
            self.asked.iter().filter(|(_, asked)| asked.session == *id).map(|(id, _)| *id).collect();
        for ask in asked {
            self.refuse_asked(ask, "the client's session ended");
        }
        self.elicitations.retain(|(_, owner)| owner != id);
        self.tasks.end_session(id);
        session.end();
        if self.told.is_some() {
            subscriptions.retain(|uri| !self.others_subscribe(id, uri));
            self.unsubscribe(subscriptions);
            self.raise_level(session.log_level);
        }
    }

    /// Whether a call is answered on a stream that other messages use too.
    fn shares_stream(&self, call: &InFlight) -> bool {
        call.session
            .as_ref()
            .and_then(|id| self.sessions.get(id))
            .is_some_and(|session| session.single_stream)
    }
}

impl Pipe {
    /// Sends a line, or holds it back while sessions are being restored.
    fn send(&mut self, line: Bytes) {
        self.queued.force(line_cost(&line));
        match &mut self.held {
            Some(held) => held.push(line),
            None => self.write(line),
        }
    }

    /// Hands over a line that is booked.
    fn write(&self, line: Bytes) {
        // The writer may just have ended; the connection's end then fails whatever waits for an answer.
        if let Err(mpsc::error::SendError(line)) = self.lines.send(line) {
            self.queued.give(line_cost(&line));
        }
    }
}

/// What a line on its way into a process's pipe is booked with.
pub(crate) fn line_cost(line: &Bytes) -> usize {
    line.len() + LINE_OVERHEAD
}

fn finish_line(mut message: BytesMut) -> Bytes {
    one_line(&mut message);
    message.put_u8(b'\n');
    message.freeze()
}

/// Whether a resource is the one subscribed to or lies below it (MCP schema, `ResourceUpdatedNotification`).
fn is_within(uri: &str, subscribed: &str) -> bool {
    uri.strip_prefix(subscribed)
        .is_some_and(|rest| rest.is_empty() || subscribed.ends_with('/') || rest.starts_with(['/', '#', '?']))
}

/// A `notifications/cancelled` for one of the lane's ids.
fn cancelled(id: u64, reason: &str) -> BytesMut {
    let reason = serde_json::Value::from(reason);
    let text = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":{reason}}}}}"#
    );
    BytesMut::from(text.as_bytes())
}

/// A JSON-RPC error answer; `id` as its asker wrote it, or `null` when empty.
pub(crate) fn error_answer(id: &[u8], code: i64, message: &str) -> BytesMut {
    error_answer_with(id, code, message, None)
}

/// The same with `data`, which is JSON.
pub(crate) fn error_answer_with(id: &[u8], code: i64, message: &str, data: Option<&str>) -> BytesMut {
    let message = serde_json::Value::from(message);
    let mut out = BytesMut::from(&b"{\"jsonrpc\":\"2.0\",\"id\":"[..]);
    out.extend_from_slice(if id.is_empty() { b"null" } else { id });
    out.extend_from_slice(format!(r#","error":{{"code":{code},"message":{message}"#).as_bytes());
    if let Some(data) = data {
        out.extend_from_slice(format!(r#","data":{data}"#).as_bytes());
    }
    out.extend_from_slice(b"}}");
    out
}
