//! Multiplexes one stdio server process among the clients that share it.
//!
//! Each client gets only its own responses: every request is sent to the server with a fresh numeric id, which also
//! replaces its progress token, and the response is delivered with the client's own id, with its JSON type. A message
//! of the server that names no recipient is delivered to the only client that it can concern; if none or several are
//! possible, or the process has served several owners, a request is rejected and a notification is dropped. Progress
//! and resource updates go to the clients that asked for them. Changes of lists go to all sessions and, in the
//! stateless era, to the clients that asked for them. The multiplexer opens no socket.
//!
//! [`shared_handshake`] admits clients, [`from_client`] handles client messages, [`from_server`] handles server
//! messages, [`subscriptions`] merges the subscriptions of the stateless era, and [`lifecycle`] handles the start,
//! restart and end of the process while its clients stay connected.

mod error;
mod from_client;
mod from_server;
mod lifecycle;
mod limits;
#[cfg(test)]
mod owner_tests;
mod param_headers;
mod pipe;
#[cfg(test)]
mod resource_limit_tests;
mod shared_handshake;
mod subscription_limit;
mod subscriptions;
#[cfg(test)]
mod subscriptions_tests;
mod task_owners;
#[cfg(test)]
mod timeout_tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use tokio::sync::{oneshot, watch};

pub(crate) use error::{RpcError, error_response, error_response_with_data};
pub(crate) use from_client::{CancelOnDrop, PendingResponse};
pub(crate) use limits::MuxLimits;
pub(crate) use pipe::line_cost;
pub(crate) use shared_handshake::{Availability, EndStreamOnDrop, HandshakeLease, InitializeOutcome};

use pipe::{LINE_OVERHEAD, Pipe, to_line};

use super::{
    handshake::CompletedHandshake,
    owner::{Owner, ProcessOwners},
    replay_stream::{MessageStream, StreamEnd},
    session::{Session, SessionId, Subscription},
};
use crate::mcp::{era::Era, error_code, message::Message};

/// Maximum number of requests of one process that wait for a client's response, and of those that wait for the same
/// session.
const MAX_PENDING_SERVER_REQUESTS: usize = 1000;
const MAX_PENDING_SERVER_REQUESTS_PER_SESSION: usize = 100;
/// Maximum number of URLs that were sent to the sessions of one process and that no user has visited yet.
const MAX_ELICITATIONS: usize = 1000;

/// Whether the server is available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// A process is being started, or has not responded yet.
    Starting,
    /// The server responds.
    Ready,
    /// The server has ended for good, with the reason.
    Failed(String),
}

/// Multiplexes one server process among its clients.
#[derive(Debug)]
pub(crate) struct Multiplexer {
    state: Mutex<MuxState>,
    readiness: watch::Sender<Readiness>,
    limits: MuxLimits,
}

#[derive(Debug)]
struct MuxState {
    pipe: Option<Pipe>,
    /// The era that the process is used for: a process cannot serve both eras.
    era: Option<Era>,
    handshake: Option<CompletedHandshake>,
    /// A handshake in progress.
    pending_handshake: Option<shared_handshake::PendingHandshake>,
    /// Cloned for each client that is being admitted.
    lease_counter: Arc<()>,
    next_id: u64,
    calls: BTreeMap<u64, InFlightCall>,
    /// The multiplexer's own requests.
    own_requests: BTreeMap<u64, oneshot::Sender<Message>>,
    sessions: HashMap<SessionId, Session>,
    /// The owners that the process has served.
    owners: ProcessOwners,
    /// Requests of the server that await a response of a client, by the id that the client sees.
    server_requests: BTreeMap<u64, PendingServerRequest>,
    /// Sessions that were sent a URL to visit, by elicitation id.
    elicitations: VecDeque<(String, SessionId)>,
    subscriptions: subscriptions::Subscriptions,
    tasks: task_owners::TaskRegistry,
    tool_headers: param_headers::ToolHeaders,
    /// Whether an `initialize` was sent to the process whose response cannot be used for a session. The multiplexer
    /// sends one to check that the process responds; or a client sent one and did not wait for the response.
    handshake_spent: bool,
    /// The time of the last call of a client; `None` before the first.
    last_call: Option<Instant>,
    /// Whether the process is about to be replaced; then no more messages are sent to it.
    is_claimed: bool,
    /// Whether this process, or a previous one, was ever ready.
    was_ready: bool,
}

/// A client's request that awaits a response of the server.
#[derive(Debug)]
struct InFlightCall {
    /// `None` for a stateless request.
    session: Option<SessionId>,
    /// The owner, if callers are authenticated.
    owner: Option<Owner>,
    id: Bytes,
    token: Option<Bytes>,
    stream: Arc<MessageStream>,
    /// Whether other messages may be sent to the client before the response.
    can_stream: bool,
    /// Whether the request asked for log messages (stateless era).
    wants_logs: bool,
    /// Whether the call requests the list of tasks.
    lists_tasks: bool,
    purpose: Purpose,
    started_at: Instant,
    last_activity: Instant,
}

/// What is done with the response in addition to its delivery.
#[derive(Debug)]
enum Purpose {
    /// The response is only delivered.
    Plain,
    /// Records the subscription.
    Subscribe(Subscription),
    /// Removes the subscription.
    Unsubscribe(Subscription),
    /// Records which arguments are mirrored in headers.
    ListTools,
}

/// A request of the server that was sent to a client.
#[derive(Debug)]
struct PendingServerRequest {
    session: SessionId,
    /// The server's id, as JSON.
    id: Bytes,
    sent_at: Instant,
}

impl Multiplexer {
    pub(crate) fn new(limits: MuxLimits) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(MuxState {
                pipe: None,
                era: None,
                handshake: None,
                pending_handshake: None,
                lease_counter: Arc::default(),
                next_id: 1,
                calls: BTreeMap::new(),
                own_requests: BTreeMap::new(),
                sessions: HashMap::new(),
                owners: ProcessOwners::default(),
                server_requests: BTreeMap::new(),
                elicitations: VecDeque::new(),
                subscriptions: subscriptions::Subscriptions::default(),
                tasks: task_owners::TaskRegistry::default(),
                tool_headers: param_headers::ToolHeaders::default(),
                handshake_spent: false,
                last_call: None,
                is_claimed: false,
                was_ready: false,
            }),
            readiness: watch::Sender::new(Readiness::Starting),
            limits,
        })
    }

    /// Watches whether the server is available.
    pub(crate) fn readiness(&self) -> watch::Receiver<Readiness> {
        self.readiness.subscribe()
    }

    /// Returns the number of sessions and of calls.
    pub(crate) fn session_and_call_count(&self) -> (usize, usize) {
        let state = self.lock();
        (state.sessions.len(), state.calls.len() + state.subscriptions.len())
    }

    /// Returns the sessions with owners, and when each was last used.
    pub(crate) fn owned_sessions(&self) -> Vec<(Owner, Instant, SessionId)> {
        let state = self.lock();
        let owned = |(id, session): (&SessionId, &Session)| {
            Some((session.owner.clone()?, session.last_used, id.clone()))
        };
        state.sessions.iter().filter_map(owned).collect()
    }

    /// Claims the process for a stateless request, if its era allows that: from then on it gets no handshake.
    pub(crate) fn claim_for_stateless(&self) -> bool {
        let mut state = self.lock();
        let is_modern = state.era == Some(Era::Modern);
        if is_modern {
            state.last_call = Some(Instant::now());
        }
        is_modern
    }

    /// Whether no client uses the process or is about to use it.
    pub(crate) fn is_unused(&self) -> bool {
        let state = self.lock();
        state.sessions.is_empty() && state.pending_handshake.is_none() && !state.is_busy()
    }

    /// Returns the least recently used of the sessions without readers and calls, and when it was used.
    pub(crate) fn least_recently_used(&self) -> Option<(Instant, SessionId)> {
        let state = self.lock();
        let busy = state.sessions_with_calls();
        let idle = state.sessions.iter();
        let idle = idle.filter(|(id, session)| !session.standalone.is_attached() && !busy.contains(*id));
        idle.min_by_key(|(_, session)| session.last_used).map(|(id, session)| (session.last_used, id.clone()))
    }

    /// Returns the time since the last call of a client.
    pub(crate) fn idle_duration(&self, now: Instant) -> Duration {
        self.lock().last_call.map_or(Duration::MAX, |last| now.saturating_duration_since(last))
    }

    /// Ends sessions, calls and server requests that timed out.
    pub(crate) fn sweep(&self, now: Instant) {
        let mut state = self.lock();
        let unanswered: Vec<u64> = state
            .server_requests
            .iter()
            .filter(|(_, pending)| now.saturating_duration_since(pending.sent_at) > self.limits.call_timeout)
            .map(|(id, _)| *id)
            .collect();
        for id in unanswered {
            state.reject_server_request(id, "the client did not respond in time");
        }
        // The calls of a client that has received a server request may take longer, because a user has to decide.
        let pending: HashSet<SessionId> =
            state.server_requests.values().map(|pending| pending.session.clone()).collect();
        let waits =
            |call: &InFlightCall| call.session.as_ref().is_some_and(|session| pending.contains(session));
        let late: Vec<u64> = state
            .calls
            .iter()
            .filter(|(_, call)| {
                now.saturating_duration_since(call.last_activity) > self.limits.call_idle_timeout
                    && !waits(call)
                    || now.saturating_duration_since(call.started_at) > self.limits.call_timeout
            })
            .map(|(id, _)| *id)
            .collect();
        for id in late {
            state.cancel(id, StreamEnd::TimedOut, "timed out in the proxy");
        }
        state.tasks.sweep(now, self.limits.call_timeout);
        let busy = state.sessions_with_calls();
        let idle = |id: &SessionId, session: &Session| {
            now.saturating_duration_since(session.last_used) > self.limits.session_idle_timeout
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
        state.sessions.values_mut().for_each(|session| session.evict_streams(now));
    }

    /// Ends the standalone streams of sessions without a call in flight.
    pub(crate) fn end_streams(&self) {
        let state = self.lock();
        let busy = state.sessions_with_calls();
        for (_, session) in state.sessions.iter().filter(|(id, _)| !busy.contains(id)) {
            session.standalone.end(StreamEnd::Complete);
        }
    }

    fn lock(&self) -> MutexGuard<'_, MuxState> {
        // No code panics while it holds the lock, so the state of a poisoned lock is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MuxState {
    fn new_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    /// Returns the sessions with a call in flight.
    fn sessions_with_calls(&self) -> HashSet<SessionId> {
        self.calls.values().filter_map(|call| call.session.clone()).collect()
    }

    /// Queues a message for the server, or buffers it until the sessions are restored.
    fn send(&mut self, message: BytesMut) {
        let line = to_line(message);
        match &mut self.pipe {
            Some(pipe) => pipe.send(line),
            None => tracing::debug!("dropped a message: the server has ended"),
        }
    }

    /// Queues a message for the server ahead of the buffered lines.
    fn send_unbuffered(&mut self, message: BytesMut) {
        if let Some(pipe) = &self.pipe {
            let line = to_line(message);
            pipe.queue_account.reserve(line_cost(&line));
            pipe.write(line);
        }
    }

    /// Responds to a server request, ahead of the buffered lines. A server that does not read its input gets no
    /// response.
    fn reply(&mut self, answer: BytesMut) {
        if self.pipe.as_ref().is_some_and(|pipe| pipe.queue_account.has_room(answer.len() + LINE_OVERHEAD)) {
            self.send_unbuffered(answer);
        } else {
            tracing::debug!("dropped a response: the server does not read its input");
        }
    }

    /// Removes a server request that was answered or will not be answered. From now on, the calls of its session count
    /// as active again.
    fn take_server_request(&mut self, id: u64) -> Option<PendingServerRequest> {
        let pending = self.server_requests.remove(&id)?;
        self.note_life(&pending.session);
        Some(pending)
    }

    /// Records activity of a session's calls.
    fn note_life(&mut self, session: &SessionId) {
        let now = Instant::now();
        for call in self.calls.values_mut().filter(|call| call.session.as_ref() == Some(session)) {
            call.last_activity = now;
        }
    }

    /// Rejects a server request to which no client will respond.
    fn reject_server_request(&mut self, id: u64, reason: &str) {
        if let Some(pending) = self.take_server_request(id) {
            self.reply(error_response(&pending.id, error_code::INTERNAL_ERROR, reason));
        }
    }

    /// Cancels a call, and notifies the server.
    fn cancel(&mut self, id: u64, end: StreamEnd, reason: &str) {
        let Some(call) = self.calls.remove(&id) else { return };
        self.send(cancelled_notification(id, reason));
        if !self.shares_stream(&call) {
            call.stream.end(end);
        } else if end == StreamEnd::TimedOut {
            // The stream stays open, and its reader waits for this response.
            let message = "the server did not respond in time";
            call.stream.push(error_response(&call.id, error_code::INTERNAL_ERROR, message).freeze());
        }
    }

    /// Ends a session with its streams and calls, and its subscriptions at the server.
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
            // The server may already have subscribed the session.
            if let Some(Purpose::Subscribe(uri)) = self.calls.get(&call).map(|call| &call.purpose) {
                subscriptions.insert(uri.uri().clone());
            }
            self.cancel(call, StreamEnd::Cancelled, "the session ended");
        }
        let pending: Vec<u64> = self
            .server_requests
            .iter()
            .filter(|(_, pending)| pending.session == *id)
            .map(|(id, _)| *id)
            .collect();
        for ask in pending {
            self.reject_server_request(ask, "the client's session ended");
        }
        self.elicitations.retain(|(_, owner)| owner != id);
        self.tasks.end_session(id);
        session.end();
        if self.handshake.is_some() {
            subscriptions.retain(|uri| !self.has_other_subscribers(id, uri));
            self.unsubscribe(subscriptions);
            self.raise_log_level(session.log_level);
        }
    }

    /// Whether the response of a call is sent on a stream that other messages share.
    fn shares_stream(&self, call: &InFlightCall) -> bool {
        call.session
            .as_ref()
            .and_then(|id| self.sessions.get(id))
            .is_some_and(|session| session.single_stream)
    }
}

/// Whether a resource is the subscribed resource or is below it (MCP schema, `ResourceUpdatedNotification`).
fn is_within(uri: &str, subscribed: &str) -> bool {
    uri.strip_prefix(subscribed)
        .is_some_and(|rest| rest.is_empty() || subscribed.ends_with('/') || rest.starts_with(['/', '#', '?']))
}

/// Creates a `notifications/cancelled` for a request with an id of the multiplexer.
fn cancelled_notification(id: u64, reason: &str) -> BytesMut {
    let reason = serde_json::Value::from(reason);
    let text = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":{reason}}}}}"#
    );
    BytesMut::from(text.as_bytes())
}
