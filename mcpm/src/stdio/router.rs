//! Which server process serves which client.
//!
//! A process speaks one era on one pipe, and one handshake. So all stateless requests share one process, and
//! sessions share one with the sessions that said the same at `initialize`; those that can be asked for something, only
//! with those of their owner. A client that says something else gets another process, up to a bound in all and for each
//! caller. Beyond it, the client shares a process that was told of more than it can do, or one is taken from clients
//! that have left it alone for a while; else it is refused.

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

/// Starts, empties and ends the processes behind the lanes.
pub(crate) trait ProcessManager: Send + Sync + std::fmt::Debug {
    /// Begins to start one more process for that era, unless there are too many; clients wait for it on its lane.
    fn add(&self, era: Era) -> Result<Arc<Multiplexer>, RpcError>;
    /// Begins to replace a lane's process, which was claimed for it, by a fresh one for that era.
    fn restart(&self, lane: &Arc<Multiplexer>, era: Era);
    /// Ends a lane's process for good.
    fn remove(&self, lane: &Arc<Multiplexer>);
}

/// Says that all processes that there may be are in use.
pub(crate) fn too_many_processes(most: usize) -> RpcError {
    let text = format!("all {most} server processes are used by clients with other versions or capabilities");
    RpcError::unavailable(text).reason(Reason::TooManyProcesses)
}

/// The lanes of one server, and how a client finds its own.
#[derive(Debug)]
pub(crate) struct Router {
    multiplexers: Mutex<Vec<Arc<Multiplexer>>>,
    /// Sessions of the deprecated SSE transport that have not said `initialize`.
    uninitialized: Mutex<HashMap<SessionId, Session>>,
    processes: Arc<dyn ProcessManager>,
    speaks_modern: bool,
    limits: MuxLimits,
}

impl Router {
    /// Routes to a server whose first process is `first`, for the era that [`Multiplexer::era`] says.
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

    /// Ends a session, such as one of the deprecated SSE transport whose connection is gone.
    pub(crate) fn abandon_session(&self, id: &SessionId) {
        if let Some(session) = lock(&self.uninitialized).remove(id) {
            session.end();
            return;
        }
        if let Ok((lane, _)) = self.mux_of_session(id) {
            // It may have ended by itself meanwhile.
            let _ = lane.close_session(id);
        }
    }

    /// The process that serves a session, and the version it speaks; marks the session as used.
    pub(crate) fn mux_of_session(
        &self,
        id: &SessionId,
    ) -> Result<(Arc<Multiplexer>, Option<Arc<str>>), RpcError> {
        let lanes = lock(&self.multiplexers);
        let mut found = lanes.iter().filter_map(|lane| Some((Arc::clone(lane), lane.touch(id)?)));
        found.next().ok_or_else(RpcError::unknown_session)
    }

    /// The process that serves stateless requests.
    pub(crate) fn stateless_mux(&self) -> Result<Arc<Multiplexer>, RpcError> {
        if !self.speaks_modern {
            let message = "the server speaks MCP 2025-11-25 or older; open a session with `initialize`";
            return Err(RpcError::new(StatusCode::NOT_FOUND, error_code::METHOD_NOT_FOUND, message));
        }
        let mut lanes = lock(&self.multiplexers);
        if let Some(lane) = lanes.iter().find(|lane| !has_failed(lane) && lane.claim_for_stateless()) {
            return Ok(Arc::clone(lane));
        }
        let lane = self.acquire_mux(&mut lanes, Era::Modern, None)?;
        lane.claim_for_stateless();
        Ok(lane)
    }

    /// Opens a session with a client's `initialize`.
    pub(crate) async fn initialize(
        &self,
        message: Message,
        owner: Option<Owner>,
    ) -> Result<InitializeOutcome, RpcError> {
        let asked = read_initialize(message)?;
        self.make_room(owner.as_ref())?;
        let account = account_of(owner.as_ref());
        let (id, session) = (new_session_id()?, Session::new(owner.clone(), false, account, Instant::now()));
        let opened = self.admit(&asked, &id, session).await;
        self.enforce_session_limit(owner.as_ref());
        opened
    }

    /// Completes a session that is open with its client's `initialize`; the answer goes to its stream.
    pub(crate) async fn initialize_session(&self, message: Message, id: &SessionId) -> Result<(), RpcError> {
        let asked = read_initialize(message)?;
        let session = lock(&self.uninitialized).remove(id).ok_or_else(RpcError::unknown_session)?;
        let stream = Arc::clone(&session.standalone);
        // A stream without a session would wait for good, also when the client hangs up meanwhile.
        let mut unless_opened = EndStreamOnDrop(Some(Arc::clone(&stream)));
        let opened = self.admit(&asked, id, session).await?;
        unless_opened.0 = None;
        stream.push(opened.answer.bytes().clone());
        if !stream.is_attached() {
            // Its client left while it was being opened, when there was no session to end yet.
            self.abandon_session(id);
        }
        Ok(())
    }

    /// Says why the server cannot be used, if it cannot.
    pub(crate) fn health(&self) -> Result<(), String> {
        let lanes = lock(&self.multiplexers);
        let all = || lanes.iter().map(|lane| lane.readiness().borrow().clone());
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

    /// Ends what nobody uses: calls, sessions and the processes that no session is left on.
    pub(crate) fn sweep(&self, now: Instant) {
        let lanes = lock(&self.multiplexers).clone();
        for lane in &lanes {
            lane.sweep(now);
        }
        let mut kept = lock(&self.multiplexers);
        drop_failed(&mut kept);
        // One process always stays, so that the next client finds the server warm; of those that are ready, if any is.
        while kept.len() > 1 {
            let is_idle = |lane: &Multiplexer| {
                lane.is_unused() && lane.idle_duration(now) > self.limits.process_idle_timeout
            };
            let last_idle = |ready| kept.iter().rposition(|lane| is_idle(lane) && lane.is_ready() == ready);
            let ready = kept.iter().filter(|lane| lane.is_ready()).count();
            let idle = last_idle(false).or_else(|| last_idle(true).filter(|_| ready > 1));
            let Some(index) = idle else { break };
            self.processes.remove(&kept.remove(index));
        }
    }

    /// Ends the streams on which no answer is awaited.
    pub(crate) fn end_streams(&self) {
        for lane in lock(&self.multiplexers).iter() {
            lane.end_streams();
        }
    }

    /// How many sessions and calls there are.
    pub(crate) fn session_and_call_count(&self) -> (usize, usize) {
        lock(&self.multiplexers)
            .iter()
            .map(|lane| lane.session_and_call_count())
            .fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
    }

    /// Sees to it that there is room for one more session: when callers are known, whoever has most makes it.
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
            // Where callers are not told apart, the session that was not used for longest makes room.
            None => self.end_least_recently_used(),
        }
        Ok(())
    }

    /// Ends what an owner has too many of.
    fn enforce_session_limit(&self, owner: Option<&Owner>) {
        if let Some(owner) = owner
            && self.session_count() > self.limits.max_sessions_per_caller
        {
            self.end_oldest(owner.caller_key(), self.limits.max_sessions_per_caller);
        }
    }

    /// Ends somebody's sessions, those first that were not used for longest, until so many are left.
    fn end_oldest(&self, person: &Arc<str>, left: usize) {
        let mut own = self.owned_sessions();
        own.retain(|(owner, ..)| owner.caller_key() == person);
        own.sort_unstable_by_key(|(_, used, _)| *used);
        let many = own.len().saturating_sub(left);
        if many > 0 {
            tracing::warn!(many, "ended sessions of a caller who has too many");
        }
        for (_, _, id) in own.into_iter().take(many) {
            self.abandon_session(&id);
        }
    }

    /// Ends the session that was not used for longest, of those that nobody reads or calls in.
    fn end_least_recently_used(&self) {
        let lanes = lock(&self.multiplexers).clone();
        let opening = {
            let opening = lock(&self.uninitialized);
            let oldest = opening.iter().min_by_key(|(_, session)| session.last_used);
            oldest.map(|(id, session)| (session.last_used, id.clone()))
        };
        let oldest = lanes.iter().filter_map(|lane| lane.least_recently_used()).chain(opening);
        if let Some((_, id)) = oldest.min_by_key(|(used, _)| *used) {
            tracing::warn!("ended the session that was not used for longest, as there are too many");
            self.abandon_session(&id);
        }
    }

    /// The sessions that are somebody's: whose, and when each was used last.
    fn owned_sessions(&self) -> Vec<(Owner, Instant, SessionId)> {
        let lanes = lock(&self.multiplexers).clone();
        let mut owned: Vec<_> = lanes.iter().flat_map(|lane| lane.owned_sessions()).collect();
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

    /// Gives a session the process that can serve its client.
    async fn admit(
        &self,
        asked: &Initialize,
        id: &SessionId,
        session: Session,
    ) -> Result<InitializeOutcome, RpcError> {
        let (lane, handshake) = self.mux_for(asked, session.owner.as_ref())?;
        lane.finish_handshake(handshake, asked, id, session).await
    }

    /// Finds or makes the process that can serve a client which says this.
    fn mux_for(
        &self,
        asked: &Initialize,
        owner: Option<&Owner>,
    ) -> Result<(Arc<Multiplexer>, HandshakeLease), RpcError> {
        let mut lanes = lock(&self.multiplexers);
        drop_failed(&mut lanes);
        let joined = |handshake: HandshakeLease, lane: &Arc<Multiplexer>| (Arc::clone(lane), handshake);
        let mut alive = lanes.iter().filter(|lane| !has_failed(lane));
        if let Some(found) = alive.find_map(|lane| Some(joined(lane.join_handshake(asked, owner)?, lane))) {
            return Ok(found);
        }
        let lane = match self.acquire_mux(&mut lanes, Era::Legacy, owner) {
            Ok(lane) => lane,
            Err(refusal) => {
                let mut alive = lanes.iter().filter(|lane| !has_failed(lane));
                let near = alive.find_map(|lane| Some(joined(lane.join_compatible(asked, owner)?, lane)));
                return near.ok_or(refusal);
            }
        };
        let handshake = lane.start_handshake(asked, owner);
        Ok((lane, handshake))
    }

    /// A process that nobody uses, for an era: one that there is, a new one, or one whose clients have left it.
    fn acquire_mux(
        &self,
        lanes: &mut Vec<Arc<Multiplexer>>,
        era: Era,
        owner: Option<&Owner>,
    ) -> Result<Arc<Multiplexer>, RpcError> {
        drop_failed(lanes);
        let renewed = |lane: &Arc<Multiplexer>| {
            lane.claim(era);
            self.processes.restart(lane, era);
            Arc::clone(lane)
        };
        let of_owner = |owner| {
            lanes.iter().filter(|lane| lane.is_exclusive_to_caller(owner) && !lane.is_unused()).count()
        };
        let has_many = owner.filter(|owner| of_owner(owner) >= self.limits.max_processes_per_caller);
        let added = match has_many {
            None => {
                let is = |lane: &&Arc<Multiplexer>, free| lane.availability() == Some(free);
                if era == Era::Legacy
                    && let Some(lane) = lanes.iter().find(|lane| is(lane, Availability::Now))
                {
                    return Ok(Arc::clone(lane));
                }
                if let Some(lane) = lanes.iter().find(|lane| is(lane, Availability::AfterRestart)) {
                    return Ok(renewed(lane));
                }
                self.processes.add(era)
            }
            Some(_) => Err(RpcError::unavailable(format!(
                "the caller's clients use {} server processes already, with other versions or capabilities",
                self.limits.max_processes_per_caller
            ))
            .reason(Reason::TooManyProcesses)),
        };
        match added {
            Ok(lane) => {
                lanes.push(Arc::clone(&lane));
                Ok(lane)
            }
            Err(refusal) => {
                let now = Instant::now();
                lanes.iter().find(|lane| lane.reclaim(now, has_many)).map(renewed).ok_or(refusal)
            }
        }
    }
}

fn has_failed(lane: &Multiplexer) -> bool {
    matches!(*lane.readiness().borrow(), Readiness::Failed(_))
}

/// Forgets processes that were given up, except for the last one, which tells why.
fn drop_failed(lanes: &mut Vec<Arc<Multiplexer>>) {
    if lanes.iter().all(|lane| has_failed(lane)) {
        lanes.truncate(1);
        return;
    }
    for lane in lanes.extract_if(.., |lane| has_failed(lane)) {
        lane.end_all_sessions();
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
    // No code panics while it holds the lock, so a poisoned lock still guards a sound value.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[path = "router_tests.rs"]
mod tests;
