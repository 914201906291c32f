//! Selects the process that serves a client.
//!
//! A process has one pipe, one era and one handshake. So all stateless requests share one process, and a session
//! normally shares a process only with sessions whose `initialize` had the same protocol version and capabilities. A
//! session whose client supports server requests shares a process only with sessions of the same owner. A client that
//! can share none of the processes gets another one, within the limits for all callers and for each caller. Beyond
//! these limits, a process whose clients have all been idle for a while is restarted for the client, and their sessions
//! end. If there is none, the client shares a process that was initialized with more capabilities than the client has.
//! Otherwise, the client is rejected.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use http::StatusCode;

use super::{
    handshake::{Initialize, MAX_INITIALIZE_BYTES},
    mux::{
        Availability, EndStreamOnDrop, HandshakeLease, InitializeOutcome, Multiplexer, MuxLimits, Readiness,
        RpcError,
    },
    owner::{Owner, account_of},
    replay_stream::MessageReader,
    session::{Session, SessionId},
};
use crate::{
    explain::Reason,
    mcp::{era::Era, error_code, message::Message},
};

/// Starts, restarts and ends the processes behind the multiplexers.
pub(crate) trait ProcessManager: Send + Sync + std::fmt::Debug {
    /// Starts another process for this era, unless there are too many; clients wait for the process in its multiplexer.
    fn add(&self, era: Era) -> Result<Arc<Multiplexer>, RpcError>;
    /// Restarts the process of a claimed multiplexer for this era.
    fn restart(&self, mux: &Arc<Multiplexer>, era: Era);
    /// Ends the process of a multiplexer for good.
    fn remove(&self, mux: &Arc<Multiplexer>);
}

/// Returns the error for a client that would need more processes than the limit.
pub(crate) fn too_many_processes(most: usize) -> RpcError {
    let text = format!("all {most} server processes are used by clients with other versions or capabilities");
    RpcError::unavailable(text).reason(Reason::TooManyProcesses)
}

/// Routes clients to the processes of one server.
#[derive(Debug)]
pub(crate) struct Router {
    multiplexers: Mutex<Vec<Arc<Multiplexer>>>,
    /// Sessions of the deprecated SSE transport without an `initialize` yet.
    uninitialized: Mutex<HashMap<SessionId, Session>>,
    processes: Arc<dyn ProcessManager>,
    speaks_modern: bool,
    limits: MuxLimits,
}

impl Router {
    /// Creates a router for a server whose first process is `first`, with the era of [`Multiplexer::era`].
    pub(crate) fn new(
        first: Arc<Multiplexer>,
        processes: Arc<dyn ProcessManager>,
        limits: MuxLimits,
    ) -> Self {
        Self {
            speaks_modern: first.era() == Some(Era::Modern),
            multiplexers: Mutex::new(vec![first]),
            uninitialized: Mutex::new(HashMap::new()),
            processes,
            limits,
        }
    }

    /// Opens a session before its `initialize`, as the deprecated SSE transport does.
    pub(crate) fn open_session(&self, owner: Option<Owner>) -> Result<(SessionId, MessageReader), RpcError> {
        let id = new_session_id()?;
        self.make_room(owner.as_ref())?;
        let session = Session::new(owner.clone(), true, account_of(owner.as_ref()), Instant::now());
        let reader = session.standalone.attach_reader(None);
        lock(&self.uninitialized).insert(id.clone(), session);
        self.enforce_session_limit(owner.as_ref());
        Ok((id, reader))
    }

    /// Whether a session waits for its `initialize`.
    pub(crate) fn is_uninitialized(&self, id: &SessionId) -> bool {
        lock(&self.uninitialized).contains_key(id)
    }

    /// Ends a session, such as one of the deprecated SSE transport whose connection is closed.
    pub(crate) fn abandon_session(&self, id: &SessionId) {
        if let Some(session) = lock(&self.uninitialized).remove(id) {
            session.end();
            return;
        }
        if let Ok((mux, _)) = self.mux_of_session(id) {
            // The session may have ended already.
            let _ = mux.close_session(id);
        }
    }

    /// Returns the process that serves a session, and the version of the session; marks the session as used.
    pub(crate) fn mux_of_session(
        &self,
        id: &SessionId,
    ) -> Result<(Arc<Multiplexer>, Option<Arc<str>>), RpcError> {
        let muxes = lock(&self.multiplexers);
        let mut found = muxes.iter().filter_map(|mux| Some((Arc::clone(mux), mux.touch(id)?)));
        found.next().ok_or_else(RpcError::unknown_session)
    }

    /// Returns the process that serves stateless requests.
    pub(crate) fn stateless_mux(&self) -> Result<Arc<Multiplexer>, RpcError> {
        if !self.speaks_modern {
            let message = "the server speaks MCP 2025-11-25 or older; open a session with `initialize`";
            return Err(RpcError::new(StatusCode::NOT_FOUND, error_code::METHOD_NOT_FOUND, message));
        }
        let mut muxes = lock(&self.multiplexers);
        if let Some(mux) = muxes.iter().find(|mux| !has_failed(mux) && mux.claim_for_stateless()) {
            return Ok(Arc::clone(mux));
        }
        let mux = self.acquire_mux(&mut muxes, Era::Modern, None)?;
        mux.claim_for_stateless();
        Ok(mux)
    }

    /// Opens a session with a client's `initialize`.
    pub(crate) async fn initialize(
        &self,
        message: Message,
        owner: Option<Owner>,
    ) -> Result<InitializeOutcome, RpcError> {
        let initialize = read_initialize(message)?;
        self.make_room(owner.as_ref())?;
        let account = account_of(owner.as_ref());
        let (id, session) = (new_session_id()?, Session::new(owner.clone(), false, account, Instant::now()));
        let opened = self.admit(&initialize, &id, session).await;
        self.enforce_session_limit(owner.as_ref());
        opened
    }

    /// Completes an open session with its client's `initialize`; the response is sent on its stream.
    pub(crate) async fn initialize_session(&self, message: Message, id: &SessionId) -> Result<(), RpcError> {
        let initialize = read_initialize(message)?;
        let session = lock(&self.uninitialized).remove(id).ok_or_else(RpcError::unknown_session)?;
        let stream = Arc::clone(&session.standalone);
        // Without a session, the stream would stay open forever, even if the client disconnects meanwhile.
        let mut unless_opened = EndStreamOnDrop(Some(Arc::clone(&stream)));
        let opened = self.admit(&initialize, id, session).await?;
        unless_opened.0 = None;
        stream.push(opened.answer.bytes().clone());
        if !stream.is_attached() {
            // The client closed its session while it was being opened.
            self.abandon_session(id);
        }
        Ok(())
    }

    /// Returns why the server is unavailable, if it is.
    pub(crate) fn health(&self) -> Result<(), String> {
        let muxes = lock(&self.multiplexers);
        let all = || muxes.iter().map(|mux| mux.readiness().borrow().clone());
        if all().any(|readiness| readiness == Readiness::Ready) {
            return Ok(());
        }
        let failed = all().find_map(|readiness| match readiness {
            Readiness::Failed(reason) => Some(reason),
            Readiness::Ready | Readiness::Starting => None,
        });
        let is_starting = all().any(|readiness| readiness == Readiness::Starting);
        Err(failed.filter(|_| !is_starting).unwrap_or_else(|| "the server is starting".to_owned()))
    }

    /// Ends calls and sessions that timed out, and processes that are unused.
    pub(crate) fn sweep(&self, now: Instant) {
        let muxes = lock(&self.multiplexers).clone();
        for mux in &muxes {
            mux.sweep(now);
        }
        let mut kept = lock(&self.multiplexers);
        drop_failed(&mut kept);
        // One process always stays, preferably one that is ready, so that the next client does not have to wait.
        while kept.len() > 1 {
            let is_idle = |mux: &Multiplexer| {
                mux.is_unused() && mux.idle_duration(now) > self.limits.process_idle_timeout
            };
            let last_idle = |ready| kept.iter().rposition(|mux| is_idle(mux) && mux.is_ready() == ready);
            let ready = kept.iter().filter(|mux| mux.is_ready()).count();
            let idle = last_idle(false).or_else(|| last_idle(true).filter(|_| ready > 1));
            let Some(index) = idle else { break };
            self.processes.remove(&kept.remove(index));
        }
    }

    /// Ends the streams on which no response is expected.
    pub(crate) fn end_streams(&self) {
        for mux in lock(&self.multiplexers).iter() {
            mux.end_streams();
        }
    }

    /// Returns the number of sessions and of calls.
    pub(crate) fn session_and_call_count(&self) -> (usize, usize) {
        lock(&self.multiplexers)
            .iter()
            .map(|mux| mux.session_and_call_count())
            .fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
    }

    /// Makes room for one more session. If callers are authenticated, a session of the caller with the most sessions is
    /// ended.
    fn make_room(&self, owner: Option<&Owner>) -> Result<(), RpcError> {
        if self.session_count() < self.limits.max_sessions {
            return Ok(());
        }
        let mut counts: HashMap<Arc<str>, usize> = HashMap::new();
        for (owner, ..) in owner.map(|_| self.owned_sessions()).unwrap_or_default() {
            *counts.entry(Arc::clone(owner.caller_key())).or_default() += 1;
        }
        match counts.into_iter().max_by_key(|(_, count)| *count) {
            Some((person, count)) => self.end_oldest(&person, count - 1),
            // Without authentication, the least recently used session is ended.
            None => self.end_least_recently_used(),
        }
        Ok(())
    }

    /// Ends the sessions of an owner beyond its limit.
    fn enforce_session_limit(&self, owner: Option<&Owner>) {
        if let Some(owner) = owner
            && self.session_count() > self.limits.max_sessions_per_caller
        {
            self.end_oldest(owner.caller_key(), self.limits.max_sessions_per_caller);
        }
    }

    /// Ends the least recently used sessions of a caller, until `left` sessions remain.
    fn end_oldest(&self, person: &Arc<str>, left: usize) {
        let mut own = self.owned_sessions();
        own.retain(|(owner, ..)| owner.caller_key() == person);
        own.sort_unstable_by_key(|(_, used, _)| *used);
        let many = own.len().saturating_sub(left);
        if many > 0 {
            tracing::warn!(many, "ended sessions of a caller that had too many sessions");
        }
        for (_, _, id) in own.into_iter().take(many) {
            self.abandon_session(&id);
        }
    }

    /// Ends the least recently used of the sessions without readers and calls.
    fn end_least_recently_used(&self) {
        let muxes = lock(&self.multiplexers).clone();
        let opening = {
            let opening = lock(&self.uninitialized);
            let oldest = opening.iter().min_by_key(|(_, session)| session.last_used);
            oldest.map(|(id, session)| (session.last_used, id.clone()))
        };
        let oldest = muxes.iter().filter_map(|mux| mux.least_recently_used()).chain(opening);
        if let Some((_, id)) = oldest.min_by_key(|(used, _)| *used) {
            tracing::warn!("ended the least recently used session, because there are too many sessions");
            self.abandon_session(&id);
        }
    }

    /// Returns the sessions with owners, and when each was last used.
    fn owned_sessions(&self) -> Vec<(Owner, Instant, SessionId)> {
        let muxes = lock(&self.multiplexers).clone();
        let mut owned: Vec<_> = muxes.iter().flat_map(|mux| mux.owned_sessions()).collect();
        let opening = lock(&self.uninitialized);
        let opening = opening.iter();
        owned.extend(
            opening.filter_map(|(id, session)| Some((session.owner.clone()?, session.last_used, id.clone()))),
        );
        owned
    }

    fn session_count(&self) -> usize {
        self.session_and_call_count().0 + lock(&self.uninitialized).len()
    }

    /// Assigns a process to a session.
    async fn admit(
        &self,
        initialize: &Initialize,
        id: &SessionId,
        session: Session,
    ) -> Result<InitializeOutcome, RpcError> {
        let (mux, handshake) = self.mux_for(initialize, session.owner.as_ref())?;
        mux.finish_handshake(handshake, initialize, id, session).await
    }

    /// Finds or starts a process for a client with these parameters.
    fn mux_for(
        &self,
        initialize: &Initialize,
        owner: Option<&Owner>,
    ) -> Result<(Arc<Multiplexer>, HandshakeLease), RpcError> {
        let mut muxes = lock(&self.multiplexers);
        drop_failed(&mut muxes);
        let joined = |handshake: HandshakeLease, mux: &Arc<Multiplexer>| (Arc::clone(mux), handshake);
        let mut alive = muxes.iter().filter(|mux| !has_failed(mux));
        if let Some(found) = alive.find_map(|mux| Some(joined(mux.join_handshake(initialize, owner)?, mux))) {
            return Ok(found);
        }
        let mux = match self.acquire_mux(&mut muxes, Era::Legacy, owner) {
            Ok(mux) => mux,
            Err(refusal) => {
                let mut alive = muxes.iter().filter(|mux| !has_failed(mux));
                let near = alive.find_map(|mux| Some(joined(mux.join_compatible(initialize, owner)?, mux)));
                return near.ok_or(refusal);
            }
        };
        let handshake = mux.start_handshake(initialize, owner);
        Ok((mux, handshake))
    }

    /// Returns an unused process for an era: an existing one, a new one, or one that is taken from idle clients.
    fn acquire_mux(
        &self,
        muxes: &mut Vec<Arc<Multiplexer>>,
        era: Era,
        owner: Option<&Owner>,
    ) -> Result<Arc<Multiplexer>, RpcError> {
        drop_failed(muxes);
        let renewed = |mux: &Arc<Multiplexer>| {
            mux.claim(era);
            self.processes.restart(mux, era);
            Arc::clone(mux)
        };
        let of_owner =
            |owner| muxes.iter().filter(|mux| mux.is_exclusive_to_caller(owner) && !mux.is_unused()).count();
        let has_many = owner.filter(|owner| of_owner(owner) >= self.limits.max_processes_per_caller);
        let added = match has_many {
            None => {
                let is = |mux: &&Arc<Multiplexer>, free| mux.availability() == Some(free);
                if era == Era::Legacy
                    && let Some(mux) = muxes.iter().find(|mux| is(mux, Availability::Now))
                {
                    return Ok(Arc::clone(mux));
                }
                if let Some(mux) = muxes.iter().find(|mux| is(mux, Availability::AfterRestart)) {
                    return Ok(renewed(mux));
                }
                self.processes.add(era)
            }
            Some(_) => Err(RpcError::unavailable(format!(
                "the caller's other clients already use {} server processes, with other versions or capabilities",
                self.limits.max_processes_per_caller
            ))
            .reason(Reason::TooManyProcesses)),
        };
        match added {
            Ok(mux) => {
                muxes.push(Arc::clone(&mux));
                Ok(mux)
            }
            Err(refusal) => {
                let now = Instant::now();
                muxes.iter().find(|mux| mux.reclaim(now, has_many)).map(renewed).ok_or(refusal)
            }
        }
    }
}

fn has_failed(mux: &Multiplexer) -> bool {
    matches!(*mux.readiness().borrow(), Readiness::Failed(_))
}

/// Removes processes that have failed for good, except for the last one, which contains the reason.
fn drop_failed(muxes: &mut Vec<Arc<Multiplexer>>) {
    if muxes.iter().all(|mux| has_failed(mux)) {
        muxes.truncate(1);
        return;
    }
    for mux in muxes.extract_if(.., |mux| has_failed(mux)) {
        mux.end_all_sessions();
    }
}

fn read_initialize(message: Message) -> Result<Initialize, RpcError> {
    if message.bytes().len() > MAX_INITIALIZE_BYTES {
        let text = format!("`initialize` is larger than {} KiB", MAX_INITIALIZE_BYTES >> 10);
        let refusal = RpcError::new(StatusCode::PAYLOAD_TOO_LARGE, error_code::INVALID_REQUEST, text);
        return Err(refusal.reason(Reason::InitializeTooLarge));
    }
    Initialize::read(message)
        .map_err(|reason| RpcError::new(StatusCode::BAD_REQUEST, error_code::INVALID_PARAMS, reason))
}

fn new_session_id() -> Result<SessionId, RpcError> {
    SessionId::random().map_err(|error| RpcError::unavailable(error.to_string()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds the lock, so the state of a poisoned lock is consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
